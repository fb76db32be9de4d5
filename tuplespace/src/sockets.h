// What broker and client share of ZeroMQ and Linux: multipart messages whose payload frames are
// shared and never copied, and the connection monitor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <zmq.hpp>

#include "tuplespace/clock.h"
#include "tuplespace/payload.h"

namespace tuplespace {

// ZeroMQ's own heartbeats: they find peers that vanished without closing (a pulled cable, SIGSTOP).
inline constexpr int kHeartbeatMs = 1'000;
inline constexpr int kHeartbeatTimeoutMs = 5'000;

// An encoded message that could not be sent yet.
struct Multipart {
  std::vector<std::byte> control;
  std::vector<Payload> payloads;
  std::uint64_t Bytes() const;
};

struct ReceivedMultipart {
  std::string routing_id;  // ROUTER only
  std::string user;        // ROUTER only: what the authenticator called the sender; else empty
  int connection = -1;     // ROUTER only: its socket's descriptor, now or lately; -1: inproc
  zmq::message_t control;
  std::vector<Payload> payloads;   // each owns its frame
  std::size_t dropped_frames = 0;  // beyond kMaxPayloadFrames
};

// Receives one whole message, if one is there. Throws zmq::error_t if the context is gone.
bool Receive(zmq::socket_t& socket, bool router, ReceivedMultipart& message);

enum class SendResult : std::uint8_t { kSent, kFull, kUnroutable };
// Never blocks. `routing_id` is null for a DEALER. After kSent the message is on its way or its
// connection is lost. Payload owners are released by ZeroMQ's threads.
SendResult Send(zmq::socket_t& socket, const std::string* routing_id,
                std::span<const std::byte> control, std::span<const Payload> payloads);

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
