#include "sockets.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <system_error>
#include <utility>

#include "frames.h"
#include "front_room.h"
#include "wire.h"

namespace tuplespace {

namespace {

constexpr int kHandshakeFailed = ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |
                                 ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL |
                                 ZMQ_EVENT_HANDSHAKE_FAILED_AUTH;
constexpr int kMonitoredEvents = ZMQ_EVENT_ACCEPTED | ZMQ_EVENT_CONNECTED | ZMQ_EVENT_DISCONNECTED |
                                 ZMQ_EVENT_CLOSED | ZMQ_EVENT_HANDSHAKE_SUCCEEDED |
                                 kHandshakeFailed;
// Reconnects quickly at first, as a restarting broker is back within milliseconds.
constexpr int kReconnectMs = 10;
constexpr int kMaxReconnectMs = 500;
constexpr std::int64_t kMaxPollUs = 3'600'000'000;
constexpr std::size_t kUsuallyPolled = 4;

// Empty if the descriptor is not a tcp connection or has ended. A hint that may be wrong, as ZeroMQ
// may close the descriptor and reuse its number at any moment.
std::string LocalAddressOf(int descriptor) {
  sockaddr_storage end{};
  socklen_t size = sizeof(end);
  if (getsockname(descriptor, reinterpret_cast<sockaddr*>(&end), &size) != 0) return "";
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (end.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &end, sizeof(v4));
    inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
    return text.data();
  }
  if (end.ss_family != AF_INET6) return "";
  sockaddr_in6 v6{};
  std::memcpy(&v6, &end, sizeof(v6));
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text.data(), text.size());
    return text.data();
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
  return std::string("[") + text.data() + "]";
}

// Different for all messages of this process and, with high probability, from those of another
// process that had the same client id.
std::uint64_t NextNumber() {
  static std::atomic<std::uint64_t> next{RandomNumber()};
  std::uint64_t number = 0;
  while (number == 0) number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

// The payload of a message in flight; the beginning of the message is in the room in front of it.
struct SentInPlace {
  Payload payload;
  FrontRoom* room = nullptr;
};

void ReleaseSent(void*, void* hint) {
  const std::unique_ptr<SentInPlace> sent(static_cast<SentInPlace*>(hint));
  sent->room->Release();
}

// The whole message around its payload, if there is room for that; otherwise empty.
zmq::message_t PackInPlace(Packer& packer, std::span<const Payload> payloads) {
  const std::size_t front_bytes = packer.front_bytes();
  FrontRoom* const room = front_bytes > 0 ? FrontRoom::Of(payloads[0]) : nullptr;
  if (room == nullptr) return {};
  auto sent = std::make_unique<SentInPlace>(SentInPlace{payloads[0], room});
  std::byte* const begin = room->Take(front_bytes);
  if (begin == nullptr) return {};
  packer.CopyFront({begin, front_bytes});
  zmq::message_t message(begin, packer.PartBytes(), ReleaseSent, sent.get());
  static_cast<void>(sent.release());
  return message;
}

zmq::message_t NextPart(Packer& packer, std::span<const Payload> payloads) {
  zmq::message_t part = PackInPlace(packer, payloads);
  if (!part.empty()) return part;
  part.rebuild(packer.PartBytes());
  packer.CopyPart({part.data<std::byte>(), part.size()});
  return part;
}

// A payload of a message that came in one part. Shares the message's memory if the payload is most
// of it, otherwise copies, as it would keep all of it alive. Numbers in aligned payloads are read
// in place.
Payload ToPayload(zmq::message_t& part, const UnpackedWhole::Range& range, bool is_first) {
  const auto* const data = static_cast<const std::byte*>(part.data()) + range.begin;
  const bool aligned = reinterpret_cast<std::uintptr_t>(data) % alignof(std::uint64_t) == 0;
  if (range.bytes < part.size() / 2 || !aligned) return Payload::Copy(data, range.bytes);
  auto owner = std::make_shared<zmq::message_t>();
  owner->copy(part);
  auto* const begin = static_cast<std::byte*>(owner->data());
  // Before the first payload there are only the head, the control frame and the sizes, which are
  // not needed after the message is decoded.
  if (is_first && range.bytes >= Payload::kLargeBytes) {
    return FrontRoom::PayloadBehind(std::move(owner), begin, range.begin, range.bytes);
  }
  return Payload(std::move(owner), begin + range.begin, range.bytes);
}

}  // namespace

ReceiveResult Receiver::Receive(zmq::socket_t& socket, bool router, ReceivedMultipart& message) {
  message.payloads.clear();
  message.problem.reset();
  message.control_bytes = 0;
  zmq::message_t part;
  if (!ReceiveFrame(socket, part, ZMQ_DONTWAIT)) return ReceiveResult::kNothing;
  if (router) {
    message.routing_id.assign(static_cast<const char*>(part.data()), part.size());
    const bool more = part.more();
    part.rebuild();
    if (more) ReceiveFrame(socket, part, 0);
    const char* user = zmq_msg_gets(part.handle(), "User-Id");
    message.user.assign(user == nullptr ? "" : user);
    message.connection = zmq_msg_get(part.handle(), ZMQ_SRCFD);
  }
  // A multipart message arrives complete or not at all.
  std::size_t parts = 1;
  message.socket_bytes = part.size();
  for (bool more = part.more(); more; ++parts) {
    zmq::message_t next;
    ReceiveFrame(socket, next, 0);
    more = next.more();
    message.socket_bytes += next.size();
  }
  if (parts > 1) {
    Forget(message.routing_id);
    message.problem = RequestError{
        ErrorCode::kBadRequest, fmt::format("a multipart message of {} parts came; each message of "
                                            "this protocol has one",
                                            parts)};
    return ReceiveResult::kMessage;
  }
  return Take(message, std::move(part));
}

ReceiveResult Receiver::Take(ReceivedMultipart& message, zmq::message_t&& part) {
  const std::span<const std::byte> bytes{part.data<const std::byte>(), part.size()};
  Assembly::Result result = unfinished_.Add(message.routing_id, message.user, bytes);
  if (std::holds_alternative<Assembly::More>(result)) return ReceiveResult::kPart;
  if (auto* error = std::get_if<RequestError>(&result)) {
    // A program of another version may use another head.
    message.problem = VersionProblem(bytes).value_or(std::move(*error));
  } else if (auto* several = std::get_if<Assembled>(&result)) {
    message.SetControl(several->control.data(), several->control.size());
    message.payloads = std::move(several->payloads);
  } else {
    const auto& whole = std::get<UnpackedWhole>(result);
    message.payloads.reserve(whole.payloads.size());
    for (const auto& range : whole.payloads) {
      message.payloads.push_back(ToPayload(part, range, message.payloads.empty()));
    }
    message.frame = std::move(part);
    message.control_begin = whole.control_begin;
    message.control_bytes = whole.control_bytes;
  }
  return ReceiveResult::kMessage;
}

SendResult Send(zmq::socket_t& socket, const std::string* routing_id,
                std::span<const std::byte> control, std::span<const Payload> payloads,
                SendProgress& progress) {
  if (progress.number == 0) progress.number = NextNumber();
  // A broker forwards payloads. So a client leaves room for the control frame of a reply, which is
  // slightly longer than that of a request.
  constexpr std::size_t kSpareBytes = 256;
  Packer packer(control, payloads, progress, routing_id == nullptr ? kSpareBytes : 0);
  while (!packer.done()) {
    if (routing_id != nullptr) {
      zmq::message_t frame(routing_id->data(), routing_id->size());
      const int error = SendFrame(socket, frame, /*more=*/true);
      if (error != 0) return error == EAGAIN ? SendResult::kFull : SendResult::kUnroutable;
    }
    zmq::message_t part = NextPart(packer, payloads);
    const int error = SendFrame(socket, part, /*more=*/false);
    // Once a ROUTER has accepted the id there is room, so a later error means that the connection
    // ended.
    if (error != 0 && routing_id == nullptr) return SendResult::kFull;
    packer.Advance();
  }
  return SendResult::kSent;
}

zmq::socket_t MakeRouter(zmq::context_t& context) {
  std::srand(static_cast<unsigned int>(RandomNumber()));
  return zmq::socket_t(context, zmq::socket_type::router);
}

void SetCommonOptions(zmq::socket_t& socket) {
  // If the receive queue is full, its connection ends, and then a heartbeat is due or arrives,
  // libzmq 4.3.4 ends the process (`!_io_error`, `_input_stopped`). So ZeroMQ's heartbeats are off
  // and its queue is unbounded: a client gets what it asked for, and a broker closes connections
  // whose backlog is too large (Connections).
  socket.set(zmq::sockopt::rcvhwm, 0);
  socket.set(zmq::sockopt::tcp_keepalive, 1);
  socket.set(zmq::sockopt::tcp_keepalive_idle, kKeepAliveSeconds);
  socket.set(zmq::sockopt::tcp_keepalive_intvl, kKeepAliveSeconds);
  socket.set(zmq::sockopt::tcp_keepalive_cnt, kVanishedMs / 1000 / kKeepAliveSeconds);
  socket.set(zmq::sockopt::tcp_maxrt, kVanishedMs);
  socket.set(zmq::sockopt::reconnect_ivl, kReconnectMs);
  socket.set(zmq::sockopt::reconnect_ivl_max, kMaxReconnectMs);
  socket.set(zmq::sockopt::linger, 0);
  socket.set(zmq::sockopt::maxmsgsize, kMaxSocketBytes);
}

Monitor::Monitor(zmq::context_t& context, zmq::socket_t& socket)
    : watched_(socket), pair_(context, zmq::socket_type::pair) {
  static std::atomic<std::uint64_t> count{0};
  const std::string address = "inproc://tuplespace-monitor-" + std::to_string(++count);
  if (zmq_socket_monitor(socket.handle(), address.c_str(), kMonitoredEvents) != 0) {
    throw zmq::error_t();
  }
  pair_.set(zmq::sockopt::linger, 0);
  // Unbounded, because otherwise ZeroMQ's own thread, and with it all connections, would wait for
  // room.
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
    } else if (event == ZMQ_EVENT_CONNECTED) {
      seen.local_address = LocalAddressOf(value);
    } else if (event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED) {
      ++seen.handshakes;
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
  std::array<pollfd, kUsuallyPolled> few{};
  std::vector<pollfd> many(items.size() > few.size() ? items.size() : 0);
  pollfd* const polled = many.empty() ? few.data() : many.data();
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
  if (ppoll(polled, items.size(), &left, nullptr) < 0) {
    if (errno == EINTR) return;
    throw std::system_error(errno, std::generic_category(), "ppoll");
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (polled[i].revents != 0) items[i].revents = ZMQ_POLLIN;
  }
}

}  // namespace tuplespace
