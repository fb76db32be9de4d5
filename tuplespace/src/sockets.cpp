#include "sockets.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
#include <system_error>
#include <utility>

#include "wire.h"

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace tuplespace {

namespace {

// What was written before a send is there after its receipt. libzmq is not instrumented, so the
// thread sanitizer has to be told.
void BeforeSend() {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(reinterpret_cast<void*>(&BeforeSend));
#endif
}
void AfterReceive() {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(reinterpret_cast<void*>(&BeforeSend));
#endif
}

constexpr int kHandshakeFailed = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                                 ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                                 ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
constexpr int kMonitoredEvents =
    ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_DISCONNECTED | ZMQ_EVENT_CLOSED | kHandshakeFailed;
// Reconnecting: soon at first, as a broker that restarts is back in milliseconds.
constexpr int kReconnectMs = 10;
constexpr int kMaxReconnectMs = 500;
constexpr std::int64_t kMaxPollUs = 3'600'000'000;
constexpr std::size_t kMostPolled = 4;

bool ReceiveFrame(zmq::socket_t& socket, zmq::message_t& frame, int flags) {
  for (;;) {
    if (zmq_msg_recv(frame.handle(), socket.handle(), flags) >= 0) {
      AfterReceive();
      return true;
    }
    if (errno == EAGAIN) return false;
    if (errno != EINTR) throw zmq::error_t();
  }
}

// 0 or the error.
int SendFrame(zmq::socket_t& socket, zmq::message_t& frame, bool more) {
  const int flags = ZMQ_DONTWAIT | (more ? ZMQ_SNDMORE : 0);
  BeforeSend();
  for (;;) {
    if (zmq_msg_send(frame.handle(), socket.handle(), flags) >= 0) return 0;
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EHOSTUNREACH) return errno;
    throw zmq::error_t();
  }
}

Payload ToPayload(zmq::message_t&& frame) {
  auto owner = std::make_shared<zmq::message_t>(std::move(frame));
  const void* data = owner->data();
  const std::size_t size = owner->size();
  return Payload(std::move(owner), data, size);
}

void ReleasePayload(void*, void* hint) {
  delete static_cast<Payload*>(hint);
}

zmq::message_t ToFrame(const Payload& payload) {
  auto kept = std::make_unique<Payload>(payload);
  // ZeroMQ does not write through this pointer.
  zmq::message_t frame(const_cast<std::byte*>(payload.data()), payload.size(), ReleasePayload,
                       kept.get());
  kept.release();
  return frame;
}

}  // namespace

std::uint64_t Multipart::Bytes() const {
  std::uint64_t bytes = control.size();
  for (const Payload& payload : payloads) bytes += payload.size();
  return bytes;
}

bool Receive(zmq::socket_t& socket, bool router, ReceivedMultipart& message) {
  message.payloads.clear();
  message.dropped_frames = 0;
  zmq::message_t frame;
  if (!ReceiveFrame(socket, frame, ZMQ_DONTWAIT)) return false;
  if (router) {
    message.routing_id.assign(static_cast<const char*>(frame.data()), frame.size());
    const bool more = frame.more();
    frame.rebuild();
    // A message that is only a routing id counts as one with an empty control frame.
    if (more) ReceiveFrame(socket, frame, 0);
    const char* user = zmq_msg_gets(frame.handle(), "User-Id");
    message.user.assign(user == nullptr ? "" : user);
    message.connection = zmq_msg_get(frame.handle(), ZMQ_SRCFD);
  }
  bool more = frame.more();
  message.control = std::move(frame);
  while (more) {
    zmq::message_t next;
    ReceiveFrame(socket, next, 0);
    more = next.more();
    if (message.payloads.size() < kMaxPayloadFrames) {
      message.payloads.push_back(ToPayload(std::move(next)));
    } else {
      ++message.dropped_frames;
    }
  }
  return true;
}

SendResult Send(zmq::socket_t& socket, const std::string* routing_id,
                std::span<const std::byte> control, std::span<const Payload> payloads) {
  if (routing_id != nullptr) {
    zmq::message_t frame(routing_id->data(), routing_id->size());
    const int error = SendFrame(socket, frame, /*more=*/true);
    if (error != 0) return error == EAGAIN ? SendResult::kFull : SendResult::kUnroutable;
  }
  zmq::message_t frame(control.data(), control.size());
  const int error = SendFrame(socket, frame, !payloads.empty());
  if (error != 0 && routing_id == nullptr) return SendResult::kFull;
  // Once the first frame is accepted there is room for all; a later error means that the connection
  // ended, and ZeroMQ then drops the frames up to the last one itself.
  for (std::size_t i = 0; i < payloads.size(); ++i) {
    zmq::message_t part = ToFrame(payloads[i]);
    SendFrame(socket, part, i + 1 < payloads.size());
  }
  return SendResult::kSent;
}

void SetCommonOptions(zmq::socket_t& socket) {
  socket.set(zmq::sockopt::heartbeat_ivl, kHeartbeatMs);
  socket.set(zmq::sockopt::heartbeat_timeout, kHeartbeatTimeoutMs);
  socket.set(zmq::sockopt::reconnect_ivl, kReconnectMs);
  socket.set(zmq::sockopt::reconnect_ivl_max, kMaxReconnectMs);
  socket.set(zmq::sockopt::linger, 0);
}

Monitor::Monitor(zmq::context_t& context, zmq::socket_t& socket)
    : watched_(socket), pair_(context, zmq::socket_type::pair) {
  static std::atomic<std::uint64_t> count{0};
  const std::string address = "inproc://tuplespace-monitor-" + std::to_string(++count);
  if (zmq_socket_monitor(socket.handle(), address.c_str(), kMonitoredEvents) != 0) {
    throw zmq::error_t();
  }
  pair_.set(zmq::sockopt::linger, 0);
  // However many events come: ZeroMQ's own thread would wait for room, and all connections with it.
  pair_.set(zmq::sockopt::rcvhwm, 0);
  pair_.connect(address);
}

Monitor::~Monitor() {
  if (watched_.handle() != nullptr) zmq_socket_monitor(watched_.handle(), nullptr, 0);
}

Monitor::Seen Monitor::Drain() {
  Seen seen;
  zmq::message_t frame;
  while (ReceiveFrame(pair_, frame, ZMQ_DONTWAIT)) {
    std::uint16_t event = 0;
    std::int32_t value = 0;
    if (frame.size() >= sizeof(event) + sizeof(value)) {
      std::memcpy(&event, frame.data(), sizeof(event));
      std::memcpy(&value, static_cast<const char*>(frame.data()) + sizeof(event), sizeof(value));
    }
    if (event == ZMQ_EVENT_CLOSED) {
      ++seen.closed;
    } else if (event == ZMQ_EVENT_ACCEPTED) {
      seen.changes.push_back({true, value});
    } else {
      ++seen.disconnected;
      if (event == ZMQ_EVENT_DISCONNECTED) seen.changes.push_back({false, value});
      if ((event & kHandshakeFailed) != 0) ++seen.failed_connections;
      if (event == ZMQ_EVENT_HANDSHAKE_FAILED_AUTH) ++seen.refused;
    }
    while (frame.more()) ReceiveFrame(pair_, frame, 0);
  }
  return seen;
}

void PollUntil(std::span<zmq_pollitem_t> items, std::int64_t deadline_us) {
  assert(items.size() <= kMostPolled);
  std::array<pollfd, kMostPolled> polled{};
  for (std::size_t i = 0; i < items.size(); ++i) {
    items[i].revents = 0;
    polled[i] = {items[i].fd, POLLIN, 0};
    std::size_t size = sizeof(polled[i].fd);
    if (items[i].socket != nullptr &&
        zmq_getsockopt(items[i].socket, ZMQ_FD, &polled[i].fd, &size) != 0) {
      throw zmq::error_t();
    }
  }
  const std::int64_t left_us = std::clamp<std::int64_t>(deadline_us - MonotonicUs(), 0, kMaxPollUs);
  const timespec left{left_us / 1'000'000, left_us % 1'000'000 * 1000};
  if (ppoll(polled.data(), items.size(), &left, nullptr) < 0) {
    if (errno == EINTR) return;
    throw std::system_error(errno, std::generic_category(), "ppoll");
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (polled[i].revents != 0) items[i].revents = ZMQ_POLLIN;
  }
}

}  // namespace tuplespace
