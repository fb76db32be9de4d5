// Implements tuplespace/sockets/internal/sockets.h and clock.h, and the few functions of libzmq
// that a client uses besides them, over the simulated network in virtual time. The product's Client
// is compiled unchanged against these.
#include "sockets.h"

#include "memfd.h"
#include "wake_up.h"

#include <cassert>
#include <cerrno>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>

#include "world/cluster_network.h"
#include "world/world.h"

namespace acan::simulation {
namespace {

std::unordered_map<void*, std::shared_ptr<Socket>>& OpenSockets() {
  static std::unordered_map<void*, std::shared_ptr<Socket>> sockets;
  return sockets;
}

Socket& SocketOf(void* handle) {
  return *OpenSockets().at(handle);
}

class WakeUp final : public Waitable {
 public:
  bool ready() const override { return notified_; }
  void Set() {
    notified_ = true;
    Notify();
  }
  void Drain() { notified_ = false; }

 private:
  bool notified_ = false;
};

// By the number that stands in for a file descriptor.
std::map<int, WakeUp>& WakeUps() {
  static std::map<int, WakeUp> wake_ups;
  return wake_ups;
}

constexpr int kFirstDescriptor = 1'000'000;

}  // namespace
}  // namespace acan::simulation

namespace tuplespace {

using acan::simulation::ClusterNetwork;
using acan::simulation::Frames;
using acan::simulation::Socket;
using acan::simulation::Waitable;
using acan::simulation::World;

std::int64_t MonotonicUs() {
  return World::CurrentTask().process().LocalUs();
}

std::int64_t UnixUs() {
  constexpr std::int64_t kBegin = 1'700'000'000'000'000;  // in 2023
  return kBegin + World::CurrentTask().process().LocalUs();
}

std::uint64_t RandomNumber() {
  return World::current().random().Next();
}

// The simulated network always delivers whole messages.
ReceiveResult Receiver::Receive(zmq::socket_t& socket, bool router, ReceivedMultipart& message) {
  assert(!router);
  static_cast<void>(router);
  Socket& from = acan::simulation::SocketOf(socket.handle());
  if (from.inbox.empty()) return ReceiveResult::kNothing;
  Frames frames = std::move(from.inbox.front());
  from.inbox.pop_front();
  message.SetControl(frames.control.data(), frames.control.size());
  message.payloads = std::move(frames.payloads);
  message.problem.reset();
  if (frames.leads) World::CurrentTask().process().leads = *frames.leads;
  return ReceiveResult::kMessage;
}

SendResult Send(zmq::socket_t& socket, const std::string* routing_id,
                std::span<const std::byte> control, std::span<const Payload> payloads,
                SendProgress&) {
  assert(routing_id == nullptr);
  static_cast<void>(routing_id);
  Frames frames;
  frames.control.assign(control.begin(), control.end());
  for (const Payload& payload : payloads) {
    frames.payloads.push_back(Payload::Copy(payload.data(), payload.size()));
    frames.originals.push_back(payload);
  }
  ClusterNetwork().Send(acan::simulation::SocketOf(socket.handle()), std::move(frames));
  return SendResult::kSent;
}

void SetCommonOptions(zmq::socket_t&) {}

Monitor::Monitor(zmq::context_t& context, zmq::socket_t& socket)
    : watched_(socket), pair_(context, zmq::socket_type::pair) {
  acan::simulation::SocketOf(socket.handle()).monitor = &acan::simulation::SocketOf(pair_.handle());
}

Monitor::~Monitor() {
  if (watched_.handle() != nullptr) {
    acan::simulation::SocketOf(watched_.handle()).monitor = nullptr;
  }
}

Monitor::Seen Monitor::Drain() {
  Seen seen;
  seen.disconnected = std::exchange(acan::simulation::SocketOf(pair_.handle()).disconnected, 0);
  seen.local_address = "127.0.0.1";
  return seen;
}

WakeUp::WakeUp() : read_fd_(acan::simulation::kFirstDescriptor) {
  while (acan::simulation::WakeUps().contains(read_fd_)) ++read_fd_;
  acan::simulation::WakeUps()[read_fd_];
}

WakeUp::~WakeUp() {
  acan::simulation::WakeUps().erase(read_fd_);
}

void WakeUp::Notify() {
  acan::simulation::WakeUps().at(read_fd_).Set();
}

bool WakeUp::BeginSleep() {
  return !acan::simulation::WakeUps().at(read_fd_).ready();
}

bool WakeUp::EndSleep(bool) {
  acan::simulation::WakeUp& wake_up = acan::simulation::WakeUps().at(read_fd_);
  const bool notified = wake_up.ready();
  wake_up.Drain();
  return notified;
}

void PollUntil(std::span<zmq_pollitem_t> items, std::int64_t deadline_us) {
  std::vector<Waitable*> what;
  for (zmq_pollitem_t& item : items) {
    item.revents = 0;
    if (item.socket == nullptr) {
      what.push_back(&acan::simulation::WakeUps().at(item.fd));
    } else {
      what.push_back(&acan::simulation::SocketOf(item.socket));
    }
  }
  World::current().WaitForAny(what, World::CurrentTask().process().ToWorldUs(deadline_us));
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (what[i]->ready()) items[i].revents = ZMQ_POLLIN;
  }
}

}  // namespace tuplespace

// ---- shared memory: simulated processes have none -----------------------------------------------

namespace tuplespace {

UniqueFd::~UniqueFd() = default;
Mapping::~Mapping() = default;

std::uint64_t RoundToPages(std::uint64_t bytes) {
  return bytes;
}
std::optional<MemoryFile> MakeMemoryFile(std::uint64_t, MemoryKind, std::string_view) {
  return std::nullopt;
}
std::optional<PeerFiles> PeerFiles::Of(pid_t) {
  return std::nullopt;
}
std::optional<UniqueFd> PeerFiles::Open(int, MemoryKind) const {
  return std::nullopt;
}
std::optional<UniqueFd> PeerFiles::OpenPipe(int) const {
  return std::nullopt;
}
std::optional<Mapping> MapForReading(const UniqueFd&, bool) {
  return std::nullopt;
}
std::optional<SharingProbe> SharingProbe::Make() {
  return std::nullopt;
}
std::optional<std::string> SharingProbe::Read(const PeerFiles&, int) {
  return std::nullopt;
}

}  // namespace tuplespace

// ---- libzmq -------------------------------------------------------------------------------------

using acan::simulation::ClusterNetwork;
using acan::simulation::OpenSockets;
using acan::simulation::SocketOf;

namespace {

// The content of a zmq_msg_t here is a pointer to one of these; null: no bytes.
struct Message {
  std::vector<char> bytes;
};

Message*& MessageOf(zmq_msg_t* message) {
  return *reinterpret_cast<Message**>(message);
}

}  // namespace

extern "C" {

void* zmq_ctx_new(void) {
  return new int(0);
}
int zmq_ctx_set(void*, int, int) {
  return 0;
}
int zmq_ctx_term(void* context) {
  delete static_cast<int*>(context);
  return 0;
}

void* zmq_socket(void*, int) {
  const auto socket = ClusterNetwork().Open(acan::simulation::World::CurrentTask().process());
  OpenSockets()[socket.get()] = socket;
  return socket.get();
}
int zmq_close(void* handle) {
  ClusterNetwork().Close(SocketOf(handle));
  OpenSockets().erase(handle);
  return 0;
}
int zmq_setsockopt(void* handle, int option, const void* value, std::size_t bytes) {
  if (option == ZMQ_ROUTING_ID) {
    SocketOf(handle).routing_id.assign(static_cast<const char*>(value), bytes);
  } else if (option == ZMQ_LINGER) {
    SocketOf(handle).lingers = *static_cast<const int*>(value) != 0;
  }
  return 0;
}
int zmq_connect(void* handle, const char*) {
  ClusterNetwork().Connect(SocketOf(handle));
  return 0;
}

int zmq_errno(void) {
  return errno;
}
const char* zmq_strerror(int) {
  return "simulated";
}

int zmq_msg_init(zmq_msg_t* message) {
  MessageOf(message) = nullptr;
  return 0;
}
int zmq_msg_init_size(zmq_msg_t* message, std::size_t bytes) {
  MessageOf(message) = new Message{std::vector<char>(bytes)};
  return 0;
}
int zmq_msg_close(zmq_msg_t* message) {
  delete std::exchange(MessageOf(message), nullptr);
  return 0;
}
int zmq_msg_move(zmq_msg_t* to, zmq_msg_t* from) {
  zmq_msg_close(to);
  std::swap(MessageOf(to), MessageOf(from));
  return 0;
}
void* zmq_msg_data(zmq_msg_t* message) {
  return MessageOf(message) == nullptr ? nullptr : MessageOf(message)->bytes.data();
}
std::size_t zmq_msg_size(const zmq_msg_t* message) {
  const Message* const held = MessageOf(const_cast<zmq_msg_t*>(message));
  return held == nullptr ? 0 : held->bytes.size();
}

}  // extern "C"
