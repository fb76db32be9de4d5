#include "tuplespace/broker.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <stdexcept>
#include <unordered_map>

#include "access_list.h"
#include "authenticator.h"
#include "broker_core.h"
#include "connections.h"
#include "endpoint.h"
#include "log_pause.h"
#include "segment_table.h"
#include "sockets.h"
#include "wire.h"

namespace tuplespace {

namespace {

constexpr int kTurnMessages = 256;      // received before answers are sent
constexpr int kBacklog = 1024;          // connections that wait to be accepted: many start at once
constexpr int kQueuedMultiparts = 256;  // per client, inside ZeroMQ
constexpr std::int64_t kMinSilenceUs = 10'000;
constexpr std::int64_t kBacklogRetryUs = 2'000;
constexpr int kLingerMs = 200;  // for the last answers and the Goodbye
constexpr std::int64_t kCloseWaitUs = 2'000'000;
// After a connection was seen to end, ZeroMQ may need a moment until its routing id is gone.
constexpr std::int64_t kProbeDelaysUs[] = {0, 1'000, 4'000, 16'000, 64'000, 256'000, 1'000'000};
constexpr std::size_t kProbes = std::size(kProbeDelaysUs);

struct Backlog {
  std::deque<Multipart> messages;
  std::uint64_t bytes = 0;
};

BrokerCoreOptions CoreOptions(const BrokerOptions& options) {
  BrokerCoreOptions core;
  core.limits = options.limits;
  core.client_silence_us = options.client_silence_us;
  core.control_frame_bytes = std::min<std::uint64_t>(options.control_frame_bytes, kMaxControlBytes);
  core.first_session = RandomNumber();
  return core;
}

std::uint64_t MostFiles() {
  rlimit files{};
  const bool limited = getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur != RLIM_INFINITY;
  return limited ? files.rlim_cur : UINT64_MAX;
}

std::uint64_t PossibleSegments(std::uint64_t wanted) {
  return std::min(wanted, MostFiles() / 3);
}

// Where ZeroMQ runs out of descriptors it tries again without a pause, so it must not come to that.
ConnectionLimits Possible(ConnectionLimits limits, std::uint64_t segments) {
  constexpr std::uint64_t kOthers = 128;
  const std::uint64_t left = MostFiles() - segments;
  const std::uint64_t most = left > 2 * kOthers ? left - kOthers : kOthers;
  limits.connections = std::min(limits.connections, most);
  return limits;
}

std::optional<AccessList> ListOf(const std::optional<BrokerAccess>& access) {
  if (!access) return std::nullopt;
  if (const auto problem = KeyPairProblem(access->keys)) {
    throw std::invalid_argument("the broker's keys: " + *problem);
  }
  return AccessList(access->roles, access->peers);
}

struct IpcFile {
  std::string path;
  dev_t device;
  ino_t inode;
};

}  // namespace

struct Broker::Impl {
  explicit Impl(BrokerOptions given)
      : options(std::move(given)),
        core_options(CoreOptions(options)),
        own_context(options.context == nullptr ? std::make_unique<zmq::context_t>(1) : nullptr),
        context(own_context ? *own_context : *options.context),
        access(ListOf(options.access)),
        authenticator(access ? std::make_unique<Authenticator>(context) : nullptr),
        router(context, zmq::socket_type::router),
        segments(PossibleSegments(options.shared_segments)),
        connections(Possible(options.connections, PossibleSegments(options.shared_segments)),
                    options.client_silence_us),
        core(core_options) {
    if (options.client_silence_us < kMinSilenceUs) {
      throw std::invalid_argument(fmt::format("client_silence_us is {}; at least {} are needed",
                                              options.client_silence_us, kMinSilenceUs));
    }
    std::vector<std::string> addresses;
    if (options.listen.empty())
      throw std::invalid_argument("a broker needs an address to listen at");
    for (const std::string& endpoint : options.listen) {
      addresses.push_back(ListenAddress(endpoint, access.has_value()));
    }
    SetCommonOptions(router);
    if (access) Authenticator::Guard(router, options.access->keys);
    router.set(zmq::sockopt::handshake_ivl,
               static_cast<int>(std::clamp<std::int64_t>(options.connections.handshake_us / 1000, 1,
                                                         INT32_MAX)));
    router.set(zmq::sockopt::backlog, kBacklog);
    router.set(zmq::sockopt::router_mandatory, true);
    // With keys nobody may take the place of a connection that is there, as it might be another's.
    router.set(zmq::sockopt::router_handover, !access);
    router.set(zmq::sockopt::sndhwm, kQueuedMultiparts);
    router.set(zmq::sockopt::maxmsgsize,
               static_cast<std::int64_t>(
                   std::max(core_options.control_frame_bytes, core_options.limits.message_bytes)));
    monitor = std::make_unique<Monitor>(context, router);
    try {
      for (const std::string& address : addresses) Bind(address);
    } catch (...) {
      Close();
      throw;
    }
  }
  ~Impl() {
    core.SayGoodbye();
    try {
      Flush();
      Close();
    } catch (const zmq::error_t&) {
      // The context of the caller is gone already; there is nobody to say goodbye to.
    }
  }

  void Bind(const std::string& address) {
    const std::string path = IpcPath(address);
    if (!path.empty()) ClearIpcPath(path);
    router.set(zmq::sockopt::ipv6, IsIpv6(address));
    try {
      router.bind(address);
    } catch (const zmq::error_t& error) {
      throw std::runtime_error(fmt::format("cannot listen at {}: {}", address, error.what()));
    }
    endpoints.push_back(router.get(zmq::sockopt::last_endpoint));
    if (path.empty()) return;
    // Whoever may write to the socket may do anything: it is for this user only.
    chmod(path.c_str(), S_IRUSR | S_IWUSR);
    struct stat info {};
    if (stat(path.c_str(), &info) == 0) ipc_files.push_back({path, info.st_dev, info.st_ino});
  }

  // Does not return before the listeners are closed, which ZeroMQ does in a thread of its own: the
  // next broker can have the addresses at once.
  void Close() {
    monitor->Drain();
    int closed = 0;
    int expected = 0;
    for (const std::string& endpoint : endpoints) {
      if (zmq_unbind(router.handle(), endpoint.c_str()) != 0) continue;
      if (!endpoint.starts_with("inproc://")) ++expected;
    }
    const std::int64_t deadline_us = MonotonicUs() + kCloseWaitUs;
    while (closed < expected && MonotonicUs() < deadline_us) {
      zmq_pollitem_t item{monitor->handle(), 0, ZMQ_POLLIN, 0};
      PollUntil({&item, 1}, deadline_us);
      closed += monitor->Drain().closed;
    }
    for (const IpcFile& file : ipc_files) {
      // Unless another broker has taken the path since.
      struct stat info {};
      if (stat(file.path.c_str(), &info) != 0) continue;
      if (info.st_dev == file.device && info.st_ino == file.inode) unlink(file.path.c_str());
    }
    monitor.reset();
    router.set(zmq::sockopt::linger, kLingerMs);
    router.close();
  }

  void Run() {
    while (!stop.load(std::memory_order_acquire)) {
      // What those said last, whose connection is known to have ended, is received first.
      const int received = ReceiveTurn();
      if (received < kTurnMessages) LoseEnded();
      TakeNewPeers();
      WatchConnections();
      if (authenticator) authenticator->Answer(*access, MonotonicUs());
      core.Tick(MonotonicUs());
      Probe();
      RetryBacklogs();
      Flush();
      if (received == 0 && !connections.HasEndedClients()) Wait();
    }
    stop.store(false, std::memory_order_release);
    wake.Drain();
  }

  int ReceiveTurn() {
    int received = 0;
    while (received < kTurnMessages && Receive(router, /*router=*/true, message)) {
      ++received;
      OnMessage();
    }
    return received;
  }

  void WatchConnections() {
    const Monitor::Seen seen = monitor->Drain();
    const std::int64_t now_us = MonotonicUs();
    bool ended = false;
    // Who never said a word had no session to lose; but its words may still wait to be received.
    std::uint64_t mute = 0;
    for (const Monitor::Change& change : seen.changes) {
      if (change.accepted) {
        connections.Accepted(change.descriptor, now_us);
      } else if (connections.Ended(change.descriptor)) {
        ended = true;
      } else {
        ++mute;
      }
    }
    if (ended || (mute > 0 && next_probe >= kProbes)) {
      next_probe = 0;
      disconnected_at_us = now_us;
    }
    connections.Tick(now_us);
    core.SetConnectionCounts(connections.refused(), connections.failed());
    // The authenticator and the limits have logged theirs.
    if (connections.failed() > known_failed + seen.refused && pause.IsOver("failed", now_us)) {
      Log(fmt::format(
          "a connection came to nothing: the other side speaks no ZeroMQ, went away, or "
          "has {} ({} so far)",
          access ? "no keys, or not this broker's" : "keys, and this broker has none",
          connections.failed()));
    }
    known_failed = connections.failed();
  }

  // Probing finds out, too, whose connection has ended, unless another has taken the id.
  void LoseEnded() {
    for (const ClientId& client : connections.TakeEndedClients()) Lose(client);
  }

  void SetPeers(std::vector<AllowedPeer> peers) {
    if (!options.access) throw std::invalid_argument("SetPeers: this broker has no keys");
    AccessList checked(options.access->roles, peers);
    {
      const std::lock_guard lock(mutex);
      new_list = std::move(checked);
    }
    wake.Notify();
  }

  void TakeNewPeers() {
    std::optional<AccessList> list;
    {
      const std::lock_guard lock(mutex);
      list.swap(new_list);
    }
    if (!list) return;
    access = std::move(list);
    core.SendAwayOthers(*access, MonotonicUs());
  }

  // What the sender of `message` may do; null, with everything done about it, if it may not be
  // here.
  const AccessList::Entry* Authorized(std::int64_t now_us) {
    const ClientId& client = message.routing_id;
    const AccessList::Entry* who = access->Find(message.user);
    std::string why;
    if (who == nullptr) {
      why = "this key is not on the broker's list any more";
    } else if (!client.starts_with(ClientIdPrefix(who->peer.name))) {
      why = fmt::format("the client ids of key \"{}\" begin with \"{}\"", who->peer.name,
                        ClientIdPrefix(who->peer.name));
    } else {
      return who;
    }
    core.ReceiveBad(client, {ErrorCode::kForbidden, why}, now_us);
    connections.DropSoon(message.connection, now_us);
    return nullptr;
  }

  void OnMessage() {
    const std::int64_t now_us = MonotonicUs();
    const ClientId& client = message.routing_id;
    const AccessList::Entry* who = access ? Authorized(now_us) : nullptr;
    connections.Heard(message.connection, who != nullptr ? client : "");
    if (access && who == nullptr) return;
    if (client.size() > kMaxClientIdBytes) {
      core.ReceiveBad(client,
                      {ErrorCode::kBadRequest, fmt::format("the client id has {} bytes, at most {}",
                                                           client.size(), kMaxClientIdBytes)},
                      now_us);
      return;
    }
    if (message.dropped_frames > 0) {
      core.ReceiveBad(
          client,
          {ErrorCode::kTooLarge,
           fmt::format("{} payload frames, at most {}",
                       message.payloads.size() + message.dropped_frames, kMaxPayloadFrames)},
          now_us);
      return;
    }
    auto decoded = DecodeToBroker(
        {static_cast<const std::byte*>(message.control.data()), message.control.size()},
        message.payloads, core_options.control_frame_bytes, segments.From(client),
        options.check_payloads);
    if (const auto* error = std::get_if<Error>(&decoded)) {
      core.ReceiveBad(client, *error, now_us);
    } else {
      auto& envelope = std::get<ToBroker>(decoded);
      NoteSegments(client, envelope);
      core.Receive(client, std::move(envelope), now_us, who);
    }
  }

  void NoteSegments(const ClientId& client, ToBroker& envelope) {
    for (ClientMessage& one : envelope.messages) {
      if (auto* hello = std::get_if<Hello>(&one)) offers[client] = std::move(hello->sharing);
      const auto* used = std::get_if<ClientSegments>(&one);
      if (used != nullptr) segments.Receive(client, envelope.session, *used);
    }
  }

  // Finds out whose connection has ended: sending to it fails.
  void Probe() {
    if (next_probe >= kProbes) return;
    const std::int64_t now_us = MonotonicUs();
    if (now_us < disconnected_at_us + kProbeDelaysUs[next_probe]) return;
    ++next_probe;
    for (const ClientId& client : core.Clients()) {
      if (backlogs.contains(client) || connections.IsEnded(client)) continue;
      encoder.Begin(0);
      encoder.Add(Pong{});
      if (Send(router, &client, encoder.Finish(), {}) == SendResult::kUnroutable) Lose(client);
    }
  }

  void Lose(const ClientId& client) {
    backlogs.erase(client);
    core.Lost(client, "its connection ended", MonotonicUs());
  }

  void Flush() {
    // Losing a client may produce answers for others.
    do {
      EndSessions();
      SendSegments();
      for (BrokerCore::Delivery& delivery : core.TakeOutput()) Deliver(delivery);
    } while (core.HasOutput());
    offers.clear();
    for (const std::string& line : core.TakeLog()) Log(line);
    for (const std::string& line : connections.TakeLog()) Log(line);
    if (!authenticator) return;
    for (const std::string& line : authenticator->TakeLog()) Log(line);
  }

  void Log(const std::string& line) {
    if (options.log) options.log(line);
  }

  void EndSessions() {
    for (const auto& [client, session] : core.TakeEnded()) segments.SessionEnded(client, session);
  }

  void SendSegments() {
    for (const SegmentTable::Delivery& delivery : segments.TakeOutput()) {
      encoder.Begin(delivery.session);
      encoder.Add(delivery.message);
      SendEncoded(delivery.client);
    }
  }

  void Deliver(BrokerCore::Delivery& delivery) {
    const auto begin = [&] {
      encoder.Begin(delivery.envelope.session, kProtocolVersion, segments.To(delivery.client));
    };
    begin();
    for (BrokerMessage& one : delivery.envelope.messages) {
      if (auto* welcome = std::get_if<Welcome>(&one)) {
        const auto offer = offers.find(delivery.client);
        if (offer != offers.end()) {
          welcome->sharing = segments.Joined(delivery.client, welcome->session, offer->second);
        }
      }
      if (encoder.full()) {
        SendEncoded(delivery.client);
        begin();
      }
      std::visit([&](const auto& body) { encoder.Add(body); }, one);
    }
    if (!encoder.empty()) SendEncoded(delivery.client);
  }

  void SendEncoded(const ClientId& client) {
    if (connections.IsEnded(client)) return;  // somebody else may have its id by now
    const std::span<const std::byte> control = encoder.Finish();
    std::vector<Payload> payloads = encoder.TakeFrames();
    std::uint64_t bytes = control.size();
    for (const Payload& payload : payloads) bytes += payload.size();
    const auto it = backlogs.find(client);
    SendResult result = SendResult::kFull;
    if (it == backlogs.end()) result = Send(router, &client, control, payloads);
    if (result == SendResult::kUnroutable) Lose(client);
    // Who has not joined gets its answer at once or never.
    if (result != SendResult::kFull || !core.Knows(client)) return;
    Backlog& backlog = it == backlogs.end() ? backlogs[client] : it->second;
    backlog.messages.push_back(
        {std::vector<std::byte>(control.begin(), control.end()), std::move(payloads)});
    backlog.bytes += bytes;
    if (backlog.bytes <= options.client_queue_bytes) return;
    const std::string why = fmt::format(
        "it does not read: {} bytes wait for it, over the limit client_queue_bytes = {}",
        backlog.bytes, options.client_queue_bytes);
    backlogs.erase(client);
    core.Lost(client, why, MonotonicUs());
  }

  void RetryBacklogs() {
    std::vector<ClientId> gone;
    for (auto it = backlogs.begin(); it != backlogs.end();) {
      Backlog& backlog = it->second;
      bool lost = !core.Knows(it->first);
      while (!lost && !backlog.messages.empty()) {
        const Multipart& front = backlog.messages.front();
        const SendResult result = Send(router, &it->first, front.control, front.payloads);
        if (result == SendResult::kFull) break;
        lost = result == SendResult::kUnroutable;
        backlog.bytes -= front.Bytes();
        backlog.messages.pop_front();
      }
      if (lost) gone.push_back(it->first);
      it = lost || backlog.messages.empty() ? backlogs.erase(it) : std::next(it);
    }
    for (const ClientId& client : gone) Lose(client);
  }

  void Wait() {
    std::int64_t deadline_us = std::min(core.NextDeadlineUs(), connections.NextDeadlineUs());
    if (next_probe < kProbes) {
      deadline_us = std::min(deadline_us, disconnected_at_us + kProbeDelaysUs[next_probe]);
    }
    if (!backlogs.empty()) deadline_us = std::min(deadline_us, MonotonicUs() + kBacklogRetryUs);
    zmq_pollitem_t items[] = {
        {router.handle(), 0, ZMQ_POLLIN, 0},
        {monitor->handle(), 0, ZMQ_POLLIN, 0},
        {nullptr, wake.fd(), ZMQ_POLLIN, 0},
        {authenticator ? authenticator->handle() : nullptr, -1, ZMQ_POLLIN, 0}};
    PollUntil({items, authenticator ? std::size(items) : std::size(items) - 1}, deadline_us);
    if (items[2].revents != 0) wake.Drain();
  }

  BrokerOptions options;
  BrokerCoreOptions core_options;
  std::unique_ptr<zmq::context_t> own_context;
  zmq::context_t& context;
  std::optional<AccessList> access;
  std::unique_ptr<Authenticator> authenticator;  // before the sockets that ask it
  zmq::socket_t router;
  std::unique_ptr<Monitor> monitor;
  std::vector<std::string> endpoints;
  std::vector<IpcFile> ipc_files;
  SegmentTable segments;
  std::unordered_map<ClientId, std::optional<Sharing>> offers;  // of Hellos not yet answered
  Connections connections;
  std::uint64_t known_failed = 0;  // connections
  LogPause pause;
  std::mutex mutex;  // guards what follows
  std::optional<AccessList> new_list;
  WakeFd wake;
  std::atomic<bool> stop{false};
  BrokerCore core;
  Encoder encoder;
  ReceivedMultipart message;
  std::unordered_map<ClientId, Backlog> backlogs;  // of clients whose queue in ZeroMQ is full
  std::size_t next_probe = kProbes;
  std::int64_t disconnected_at_us = 0;
};

Broker::Broker(BrokerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Broker::~Broker() = default;

const std::vector<std::string>& Broker::endpoints() const {
  return impl_->endpoints;
}

void Broker::Run() {
  impl_->Run();
}

void Broker::Stop() {
  static_assert(std::atomic<bool>::is_always_lock_free);
  impl_->stop.store(true, std::memory_order_release);
  impl_->wake.Notify();
}

void Broker::SetPeers(std::vector<AllowedPeer> peers) {
  impl_->SetPeers(std::move(peers));
}

Stats Broker::GetStatistics() const {
  return impl_->core.GetStatistics();
}

}  // namespace tuplespace
