// What broker and client share of ZeroMQ and Linux: sending messages with payloads as single-part
// ZeroMQ messages (packing.h), and the connection monitor.
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

// TCP keep-alive detects hosts that vanished without closing (such as a pulled cable); sessions
// detect silent processes.
inline constexpr int kKeepAliveSeconds = 1;
inline constexpr int kVanishedMs = 5'000;

// An encoded message that could not be sent yet, or only in part.
struct Multipart {
  std::vector<std::byte> control;
  std::vector<Payload> payloads;
  SendProgress progress;

  std::uint64_t Bytes() const {
    std::uint64_t bytes = control.size();
    for (const Payload& payload : payloads) bytes += payload.size();
    return bytes;
  }
};

struct ReceivedMultipart {
  std::string routing_id;  // ROUTER only
  std::string user;        // ROUTER only: the authenticator's name for the sender, or empty
  // ROUTER only: the connection's descriptor, which may be outdated; -1: inproc.
  int connection = -1;
  std::size_t socket_bytes = 0;  // ROUTER only: size of what was just received
  zmq::message_t frame;          // contains the control frame
  std::size_t control_begin = 0, control_bytes = 0;
  std::vector<Payload> payloads;  // each owns its memory, or keeps little more than that alive
  std::optional<RequestError>
      problem;  // the message cannot be read; only the first four fields are set

  std::span<const std::byte> control() const {
    return {static_cast<const std::byte*>(frame.data()) + control_begin, control_bytes};
  }
  void SetControl(const void* data, std::size_t bytes) {
    frame.rebuild(data, bytes);
    control_begin = 0;
    control_bytes = bytes;
  }
};

enum class ReceiveResult : std::uint8_t {
  kNothing,
  kPart,  // part of an unfinished message; only the ROUTER's fields about the sender are set
  kMessage,
};

// Receives the messages of one socket.
class Receiver {
 public:
  // `unfinished_bytes_of_user`: for a ROUTER, as in UnfinishedMessages.
  explicit Receiver(PackingLimits limits = {}, std::uint64_t unfinished_bytes_of_user = UINT64_MAX)
      : unfinished_(limits, unfinished_bytes_of_user) {}

  // Throws zmq::error_t if the context is gone.
  ReceiveResult Receive(zmq::socket_t& socket, bool router, ReceivedMultipart& message);
  // For a ROUTER: drops the unfinished message of this peer, if any, and its further parts.
  void Forget(const std::string& routing_id) { unfinished_.Forget(routing_id); }
  // For a ROUTER: changes the limit of the constructor, as in UnfinishedMessages.
  void SetUnfinishedBytesOfUser(std::uint64_t bytes) { unfinished_.SetBytesOfUser(bytes); }
  // For a ROUTER: the peers whose message was dropped since the last call, because the messages of
  // their user were too large together.
  std::vector<std::string> TakeDropped() { return unfinished_.TakeDropped(); }

 private:
  ReceiveResult Take(ReceivedMultipart& message, zmq::message_t&& part);

  UnfinishedMessages unfinished_;
};

enum class SendResult : std::uint8_t { kSent, kFull, kUnroutable };
// Never blocks. `routing_id` is null for a DEALER. After kSent the message is on its way, or its
// connection is lost. After kFull the same message must be sent again, with the same `progress`,
// before anything else is sent to that receiver.
SendResult Send(zmq::socket_t& socket, const std::string* routing_id,
                std::span<const std::byte> control, std::span<const Payload> payloads,
                SendProgress& progress);

// The size limit for received ZeroMQ messages.
inline constexpr std::int64_t kMaxSocketBytes = kMaxPartBytes + kEncryptionBytes;

// A ROUTER whose numbers for connections without an id nobody can predict: libzmq ends the process
// if another connection claims the next number as its id. Seeds rand(), from which libzmq takes the
// first number and which it does not seed.
zmq::socket_t MakeRouter(zmq::context_t& context);

// Also avoids settings with which libzmq 4.3.4 can end the process (docs/reliability.md).
void SetCommonOptions(zmq::socket_t& socket);

// Observes when connections of a socket begin and end, except those of inproc.
class Monitor {
 public:
  // REQUIRES: the context outlives the monitor. Observation begins here.
  Monitor(zmq::context_t& context, zmq::socket_t& socket);
  ~Monitor();
  Monitor(const Monitor&) = delete;
  Monitor& operator=(const Monitor&) = delete;

  struct Change {
    bool accepted = false;  // otherwise it has ended
    int descriptor = -1;    // ZeroMQ's descriptor of the connection; it may close it at any time
  };
  struct Seen {
    std::vector<Change> changes;  // connections accepted and ended, in order
    int disconnected = 0;         // connections that ended, and attempts that failed
    int closed = 0;               // listeners that were closed
    int handshakes = 0;           // connections whose handshake succeeded
    int failed_connections = 0;
    int refused = 0;  // of those, the ones that the authenticator refused
    // The local address, without port, of the newest tcp connection; empty: there was none.
    std::string local_address;
  };
  Seen Drain();
  void* handle() { return pair_.handle(); }

 private:
  zmq::socket_t& watched_;
  zmq::socket_t pair_;
};

// Waits until one of `items` is readable, or until `deadline_us` of MonotonicUs(). A signal ends
// the wait early. Unlike zmq_poll, it does not query sockets, which would take some system calls
// each: a socket is reported as readable once when ZeroMQ has news for it. REQUIRES: since the last
// such report, and since anything was sent, everything that the socket had was received.
void PollUntil(std::span<zmq_pollitem_t> items, std::int64_t deadline_us);

}  // namespace tuplespace
