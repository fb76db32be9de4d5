#include "tuplespace/broker.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <ctime>
#include <mutex>
#include <stdexcept>
#include <unordered_map>

#include "access_list.h"
#include "authenticator.h"
#include "bell.h"
#include "broker_core.h"
#include "channel_table.h"
#include "connections.h"
#include "endpoint.h"
#include "listeners.h"
#include "log_pause.h"
#include "outbox.h"
#include "patience.h"
#include "segment_table.h"
#include "sockets.h"
#include "wire.h"

namespace tuplespace {

namespace {

// Received from the socket, and from each channel, before answers are sent; from the socket for so
// long at most. Whoever sends without a pause must not keep the others from their answers.
constexpr int kTurnMessages = 256;
constexpr std::int64_t kTurnUs = 300;
constexpr std::uint64_t kUnreadTurns = 64;
constexpr int kBacklog = 1024;     // connections that wait to be accepted: many start at once
constexpr int kQueuedParts = 256;  // of kPartBytes at most, per client, inside ZeroMQ
constexpr std::int64_t kMinSilenceUs = 10'000;
constexpr std::size_t kMostChannels = 64;  // then messages go through sockets
constexpr std::int64_t kOutboxRetryUs = 1'000;
constexpr std::int64_t kUnpolledUs = 1'000;  // so often at least sockets have their turn
constexpr int kLingerMs = 200;               // for the last answers and the Goodbye
// After a connection was seen to end, ZeroMQ may need a moment until its routing id is gone.
constexpr std::int64_t kProbeDelaysUs[] = {0, 1'000, 4'000, 16'000, 64'000, 256'000, 1'000'000};
constexpr std::size_t kProbes = std::size(kProbeDelaysUs);
constexpr const char* kEnded = "its connection ended";
constexpr std::int64_t kLookAtKeysUs = 1'000'000;  // whether the time of one is over

BrokerCoreOptions CoreOptions(const BrokerOptions& options) {
  BrokerCoreOptions core;
  core.limits = options.limits;
  core.client_silence_us = options.client_silence_us;
  core.control_frame_bytes = std::min<std::uint64_t>(options.control_frame_bytes, kMaxControlBytes);
  core.first_session = RandomNumber();
  return core;
}

PackingLimits Packing(const BrokerOptions& options, const BrokerCoreOptions& core) {
  return {core.control_frame_bytes, core.limits.message_bytes,
          options.connections.unfinished_bytes};
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
        channels(options.shared_segments > 0 ? kMostChannels : 0, wake.fd()),
        outbox(router, channels, options.client_queue_bytes),
        connections(Possible(options.connections, PossibleSegments(options.shared_segments)),
                    options.client_silence_us),
        core(core_options),
        receiver(Packing(options, core_options)) {
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
    router.set(zmq::sockopt::sndhwm, kQueuedParts);
    monitor = std::make_unique<Monitor>(context, router);
    listeners = std::make_unique<Listeners>(router, *monitor);
    try {
      for (const std::string& address : addresses) listeners->Bind(address);
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

  void Close() {
    listeners->Close();
    listeners.reset();
    monitor.reset();
    router.set(zmq::sockopt::linger, kLingerMs);
    router.close();
  }

  void Run() {
    while (!stop.load(std::memory_order_acquire)) {
      // What those said last, whose connection is known to have ended, is received first.
      const int received = ReceiveTurn();
      // Who sends without a pause must not keep others from being lost for ever.
      unread_turns = router_ready ? unread_turns + 1 : 0;
      if (!router_ready || unread_turns % kUnreadTurns == 0) LoseEnded();
      TakeNewPeers();
      EndKeys();
      const std::int64_t now_us = MonotonicUs();
      WatchConnections(now_us);
      if (authenticator) authenticator->Answer(*access, now_us);
      core.Tick(now_us);
      Probe();
      RetryOutbox();
      Flush();
      if (outbox.TakeUsedSocket()) router_ready = true;
      if (received == 0 && !connections.HasEndedClients()) {
        Wait();
      } else if (now_us >= polled_at_us + kUnpolledUs) {
        PollSockets(0);
      }
    }
    stop.store(false, std::memory_order_release);
  }

  int ReceiveTurn() {
    int received = 0;
    const std::int64_t end_us = router_ready ? MonotonicUs() + kTurnUs : 0;
    while (received < kTurnMessages && router_ready) {
      if (received > 0 && MonotonicUs() >= end_us) break;
      const ReceiveResult result = receiver.Receive(router, /*router=*/true, message);
      router_ready = result != ReceiveResult::kNothing;
      if (!router_ready) {
        connections.Drained();
        break;
      }
      ++received;
      if (result == ReceiveResult::kPart) {
        OnPart();
        continue;
      }
      // What the same client sent before it.
      received += channels.Read(message.routing_id, [this](auto& earlier) { OnNearby(earlier); });
      OnMessage();
    }
    received += channels.ReadAll(kTurnMessages, [this](auto& nearby) { OnNearby(nearby); });
    for (const ClientId& client : channels.Broken()) Lose(client, "its channel is damaged");
    return received;
  }

  void WatchConnections(std::int64_t now_us) {
    Monitor::Seen seen;
    if (std::exchange(monitor_ready, false)) seen = monitor->Drain();
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
    for (const ClientId& client : connections.TakeEndedClients()) Lose(client, kEnded);
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
    access->EndKeys(std::time(nullptr));
    core.SendAwayOthers(*access, MonotonicUs());
  }

  // The wall clock may be set at any time, so it is looked at again and again.
  void EndKeys() {
    if (!access || access->NextEndUnixS() == kNoEnd) return;
    const std::int64_t now_us = MonotonicUs();
    if (now_us < look_at_keys_us) return;
    look_at_keys_us = now_us + kLookAtKeysUs;
    if (access->EndKeys(std::time(nullptr))) core.SendAwayOthers(*access, now_us);
  }

  // What the sender may do; null, with everything done about it, if it may not be
  // here.
  const AccessList::Entry* Authorized(const ReceivedMultipart& from, std::int64_t now_us) {
    const ClientId& client = from.routing_id;
    const AccessList::Entry* who = access->Find(from.user);
    std::string why;
    if (who == nullptr) {
      why = access->IsEnded(from.user) ? access->WhyNot(from.user)
                                       : "this key is not on the broker's list any more";
    } else if (!client.starts_with(ClientIdPrefix(who->peer.name))) {
      why = fmt::format("the client ids of key \"{}\" begin with \"{}\"", who->peer.name,
                        ClientIdPrefix(who->peer.name));
    } else {
      return who;
    }
    core.ReceiveBad(client, {ErrorCode::kForbidden, why}, now_us);
    connections.DropSoon(from.connection, now_us);
    return nullptr;
  }

  // Part of a message has come through the socket; `message` says of whom. Only who has joined may
  // have us keep it.
  void OnPart() {
    const std::int64_t now_us = MonotonicUs();
    const ClientId& client = message.routing_id;
    const AccessList::Entry* who = access ? Authorized(message, now_us) : nullptr;
    connections.Heard(message.connection, who != nullptr ? client : "", message.socket_bytes);
    if ((access && who == nullptr) || !core.Heard(client, now_us)) receiver.Forget(client);
  }

  // `message` has come through the socket.
  void OnMessage() {
    const std::int64_t now_us = MonotonicUs();
    const ClientId& client = message.routing_id;
    const AccessList::Entry* who = access ? Authorized(message, now_us) : nullptr;
    connections.Heard(message.connection, who != nullptr ? client : "", message.socket_bytes);
    if (access && who == nullptr) return;
    if (client.size() > kMaxClientIdBytes) {
      core.ReceiveBad(client,
                      {ErrorCode::kBadRequest, fmt::format("the client id has {} bytes, at most {}",
                                                           client.size(), kMaxClientIdBytes)},
                      now_us);
      return;
    }
    if (message.problem) return core.ReceiveBad(client, *message.problem, now_us);
    Understand(message, who, now_us);
  }

  // Through the sender's channel.
  void OnNearby(const ReceivedMultipart& nearby) {
    const std::int64_t now_us = MonotonicUs();
    const AccessList::Entry* who = access ? Authorized(nearby, now_us) : nullptr;
    if (access && who == nullptr) return;
    connections.HeardBeside(nearby.connection, who != nullptr ? nearby.routing_id : "");
    Understand(nearby, who, now_us);
  }

  void Understand(const ReceivedMultipart& from, const AccessList::Entry* who,
                  std::int64_t now_us) {
    const ClientId& client = from.routing_id;
    auto decoded = DecodeToBroker(from.control(), from.payloads, core_options.control_frame_bytes,
                                  segments.From(client), options.check_payloads);
    if (const auto* error = std::get_if<Error>(&decoded))
      return core.ReceiveBad(client, *error, now_us);
    auto& envelope = std::get<ToBroker>(decoded);
    if (&from == &message) channels.CountReceived(client, envelope.session);
    NoteSharing(from, envelope);
    core.Receive(client, std::move(envelope), now_us, who);
  }

  void NoteSharing(const ReceivedMultipart& from, ToBroker& envelope) {
    const ClientId& client = from.routing_id;
    for (ClientMessage& one : envelope.messages) {
      if (auto* hello = std::get_if<Hello>(&one)) offers[client] = std::move(hello->sharing);
      const auto* used = std::get_if<ClientSegments>(&one);
      if (used == nullptr) continue;
      segments.Receive(client, envelope.session, *used);
      if (segments.To(client) != nullptr) channels.Proven(client, from.user, from.connection);
    }
  }

  // Finds out whose connection has ended: sending to it fails.
  void Probe() {
    if (next_probe >= kProbes) return;
    const std::int64_t now_us = MonotonicUs();
    if (now_us < disconnected_at_us + kProbeDelaysUs[next_probe]) return;
    ++next_probe;
    router_ready = true;
    for (const ClientId& client : core.Clients()) {
      if (outbox.Waits(client) || connections.IsEnded(client)) continue;
      encoder.Begin(0);
      encoder.Add(Pong{});
      SendProgress progress;
      if (Send(router, &client, encoder.Finish(), {}, progress) == SendResult::kUnroutable) {
        Lose(client, kEnded);
      }
    }
  }

  // What it had sent counts, as what ZeroMQ has received does.
  void Lose(const ClientId& client, const std::string& why) {
    channels.Read(client, [this](auto& nearby) { OnNearby(nearby); });
    outbox.Forget(client);
    core.Lost(client, why, MonotonicUs());
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
    for (const auto& [client, session] : core.TakeEnded()) {
      receiver.Forget(client);
      segments.SessionEnded(client, session);
      channels.SessionEnded(client, session);
    }
  }

  void SendSegments() {
    for (const SegmentTable::Delivery& delivery : segments.TakeOutput()) {
      encoder.Begin(delivery.session);
      encoder.Add(delivery.message);
      SendEncoded(delivery.client, delivery.session);
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
        if (offer != offers.end()) Share(delivery.client, offer->second, *welcome);
      }
      if (encoder.full()) {
        SendEncoded(delivery.client, delivery.envelope.session);
        begin();
      }
      std::visit([&](const auto& body) { encoder.Add(body); }, one);
    }
    if (!encoder.empty()) SendEncoded(delivery.client, delivery.envelope.session);
  }

  void Share(const ClientId& client, const std::optional<Sharing>& offer, Welcome& welcome) {
    welcome.sharing = segments.Joined(client, welcome.session, offer);
    if (welcome.sharing && !welcome.sharing->seen.empty()) {
      channels.Joined(client, welcome.session, *offer, *welcome.sharing);
    }
  }

  void SendEncoded(const ClientId& client, std::uint64_t session) {
    if (connections.IsEnded(client)) return;  // somebody else may have its id by now
    const std::span<const std::byte> control = encoder.Finish();
    const bool known = core.Knows(client);
    const auto lost = outbox.Send(client, known ? session : 0, control, encoder.TakeFrames());
    if (lost) Lose(client, *lost);
  }

  void RetryOutbox() {
    const auto knows = [this](const ClientId& client) { return core.Knows(client); };
    for (const ClientId& client : outbox.Retry(knows)) Lose(client, kEnded);
  }

  void Wait() {
    if (LookBeforeSleep()) return;
    std::int64_t deadline_us = std::min(core.NextDeadlineUs(), connections.NextDeadlineUs());
    if (next_probe < kProbes) {
      deadline_us = std::min(deadline_us, disconnected_at_us + kProbeDelaysUs[next_probe]);
    }
    if (access && access->NextEndUnixS() != kNoEnd) {
      deadline_us = std::min(deadline_us, look_at_keys_us);
    }
    if (!outbox.empty()) deadline_us = std::min(deadline_us, MonotonicUs() + kOutboxRetryUs);
    channels.BeginSleep();
    const bool sleeps =
        wake.BeginSleep() && !channels.HasInput() && !router_ready && !monitor_ready;
    const std::int64_t begin_us = MonotonicUs();
    const bool rung = PollSockets(sleeps ? deadline_us : 0);
    channels.EndSleep();
    if (sleeps) patience.Slept(polled_at_us - begin_us);
    wake.EndSleep(rung);
  }

  // Whether a channel has something, found without going to sleep.
  bool LookBeforeSleep() {
    if (channels.empty() || router_ready || monitor_ready) return false;
    patience.Look([this] { return channels.HasInput() || wake.notified(); });
    return channels.HasInput();
  }

  // True: the bell has rung.
  bool PollSockets(std::int64_t deadline_us) {
    zmq_pollitem_t items[] = {
        {router.handle(), 0, ZMQ_POLLIN, 0},
        {monitor->handle(), 0, ZMQ_POLLIN, 0},
        {nullptr, wake.fd(), ZMQ_POLLIN, 0},
        {authenticator ? authenticator->handle() : nullptr, -1, ZMQ_POLLIN, 0}};
    PollUntil({items, authenticator ? std::size(items) : std::size(items) - 1}, deadline_us);
    polled_at_us = MonotonicUs();
    if (items[0].revents != 0) router_ready = true;
    if (items[1].revents != 0) monitor_ready = true;
    return items[2].revents != 0;
  }

  BrokerOptions options;
  BrokerCoreOptions core_options;
  std::unique_ptr<zmq::context_t> own_context;
  zmq::context_t& context;
  std::optional<AccessList> access;
  std::unique_ptr<Authenticator> authenticator;  // before the sockets that ask it
  zmq::socket_t router;
  std::unique_ptr<Monitor> monitor;
  bool router_ready = true;        // there may be something to receive
  std::uint64_t unread_turns = 0;  // in a row, after which there was
  bool monitor_ready = true;
  std::unique_ptr<Listeners> listeners;
  Bell wake;
  Patience patience;
  SegmentTable segments;
  ChannelTable channels;
  Outbox outbox;
  std::unordered_map<ClientId, std::optional<Sharing>> offers;  // of Hellos not yet answered
  Connections connections;
  std::uint64_t known_failed = 0;  // connections
  std::int64_t look_at_keys_us = 0;
  LogPause pause;
  std::mutex mutex;  // guards what follows
  std::optional<AccessList> new_list;
  std::atomic<bool> stop{false};
  BrokerCore core;
  Encoder encoder;
  Receiver receiver;
  ReceivedMultipart message;
  std::int64_t polled_at_us = 0;
  std::size_t next_probe = kProbes;
  std::int64_t disconnected_at_us = 0;
};

Broker::Broker(BrokerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Broker::~Broker() = default;

const std::vector<std::string>& Broker::endpoints() const {
  return impl_->listeners->endpoints();
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
