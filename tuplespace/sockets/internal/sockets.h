// What broker and client share of ZeroMQ and Linux: messages with payloads, sent as ZeroMQ messages
// of one part each (packing.h), and the connection monitor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <zmq.hpp>

#include "packing.h"
#include "tuplespace/clock.h"
#include "tuplespace/payload.h"
#include "unfinished_messages.h"

namespace tuplespace {

// TCP itself finds hosts that vanished without closing (a pulled cable); sessions find processes
// that say nothing.
inline constexpr int kKeepAliveSeconds = 1;
inline constexpr int kVanishedMs = 5'000;

// An encoded message that could not be sent yet, or not all of it.
struct Multipart {
  std::vector<std::byte> control;
  std::vector<Payload> payloads;
  SendProgress progress;
  std::uint64_t Bytes() const;
};

struct ReceivedMultipart {
  std::string routing_id;  // ROUTER only
  std::string user;        // ROUTER only: what the authenticator called the sender; else empty
  int connection = -1;     // ROUTER only: its socket's descriptor, now or lately; -1: inproc
  std::size_t socket_bytes = 0;  // ROUTER only: of what was received just now
  zmq::message_t frame;          // the control frame is in it
  std::size_t control_begin = 0, control_bytes = 0;
  std::vector<Payload> payloads;  // each owns its memory, or keeps little more than that
  std::optional<RequestError>
      problem;  // then it cannot be read; all else but the first four is empty

  std::span<const std::byte> control() const {
    return {static_cast<const std::byte*>(frame.data()) + control_begin, control_bytes};
  }
  void SetControl(const void* data, std::size_t bytes);
};

enum class ReceiveResult : std::uint8_t {
  kNothing,
  kPart,  // of a message that is not complete yet; only what a ROUTER says of its sender is set
  kMessage,
};

// Receives what comes through one socket.
class Receiver {
 public:
  // `unfinished_bytes_of_user`: for a ROUTER, as in UnfinishedMessages.
  explicit Receiver(PackingLimits limits = {}, std::uint64_t unfinished_bytes_of_user = UINT64_MAX)
      : unfinished_(limits, unfinished_bytes_of_user) {}

  // Throws zmq::error_t if the context is gone.
  ReceiveResult Receive(zmq::socket_t& socket, bool router, ReceivedMultipart& message);
  // Of a ROUTER: the message that this peer has begun to send, if any, is dropped with what follows
  // of it.
  void Forget(const std::string& routing_id) { unfinished_.Forget(routing_id); }
  // Of a ROUTER: the peers whose message was dropped because those of their user were too large
  // together, since the last call.
  std::vector<std::string> TakeDropped() { return unfinished_.TakeDropped(); }

 private:
  ReceiveResult Take(ReceivedMultipart& message, zmq::message_t&& part);

  UnfinishedMessages unfinished_;
};

enum class SendResult : std::uint8_t { kSent, kFull, kUnroutable };
// Never blocks. `routing_id` is null for a DEALER. After kSent the message is on its way or its
// connection is lost. After kFull the same is to be sent again, with the same `progress`, before
// anything else is sent there.
SendResult Send(zmq::socket_t& socket, const std::string* routing_id,
                std::span<const std::byte> control, std::span<const Payload> payloads,
                SendProgress& progress);

// The largest ZeroMQ message that is taken.
inline constexpr std::int64_t kMostSocketBytes = kMostPartBytes + kEncryptionBytes;

// Also keeps away from what ends a process in libzmq 4.3.4 (docs/reliability.md says more).
void SetCommonOptions(zmq::socket_t& socket);

// Sees the connections of a socket come and go (not those of inproc).
class Monitor {
 public:
  // REQUIRES: the context outlives the monitor; the socket's events are watched from here on.
  Monitor(zmq::context_t& context, zmq::socket_t& socket);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  struct Change {
    bool accepted = false;  // else it has ended
    int descriptor = -1;    // of the connection's socket: ZeroMQ's, and closed by it at any time
  };
  struct Seen {
    std::vector<Change> changes;  // connections accepted and ended, in order
    int disconnected = 0;         // connections that ended, and attempts that failed
    int closed = 0;               // listeners
    int failed_connections = 0;
    int refused = 0;  // of those: the authenticator said no
    // This end of the tcp connection that was made last, without its port; empty: none was.
    std::string local_address;
  };
  Seen Drain();
  void* handle() { return pair_.handle(); }

 private:
  zmq::socket_t& watched_;
  zmq::socket_t pair_;
};

// Waits until one of `items` is readable, or until `deadline_us` of MonotonicUs(). A signal ends
// the wait early. Unlike zmq_poll it asks no socket anything, which would be some system calls
// each: a socket is said to be readable when ZeroMQ has news for it, once. REQUIRES: since it was
// said so last, and since anything was sent, whatever it had was received.
void PollUntil(std::span<zmq_pollitem_t> items, std::int64_t deadline_us);

}  // namespace tuplespace
