#include "tuplespace/broker.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <utility>

#include "access_control.h"
#include "adaptive_spin.h"
#include "broker_core.h"
#include "broker_sockets.h"
#include "channel_table.h"
#include "connection_probes.h"
#include "connections.h"
#include "descriptor_shares.h"
#include "ending.h"
#include "intake.h"
#include "log_pause.h"
#include "outbox.h"
#include "running_clock.h"
#include "segment_table.h"
#include "sender.h"
#include "tuplespace/clock.h"
#include "wake_up.h"

namespace tuplespace {

namespace {

constexpr std::uint64_t kUnreadTurns = 64;
constexpr std::int64_t kMinSilenceUs = 10'000;
constexpr std::size_t kMaxChannels = 64;     // further clients use sockets
constexpr std::int64_t kUnpolledUs = 1'000;  // sockets have their turn at least this often
constexpr const char* kEnded = "its connection ended";

BrokerCoreOptions CoreOptions(const BrokerOptions& options) {
  BrokerCoreOptions core;
  core.limits = options.limits;
  core.first_tuples = options.first_tuples;
  core.clients_per_key = options.clients_per_key;
  core.waiting_cost = std::max(core.waiting_cost, 2 * std::min(core.limits.tuples, UINT64_MAX / 2));
  core.client_silence_us = options.client_silence_us;
  core.control_frame_bytes = std::min<std::uint64_t>(options.control_frame_bytes, kMaxControlBytes);
  core.first_session = RandomNumber();
  core.key_secret = RandomNumber();
  core.waiting_bytes = options.waiting_bytes;
  core.waiting_bytes_of_all = 2 * std::min(options.waiting_bytes, UINT64_MAX / 4);
  return core;
}

PackingLimits Packing(const BrokerOptions& options, const BrokerCoreOptions& core) {
  return {core.control_frame_bytes, core.limits.message_bytes,
          options.connections.unfinished_bytes_of_key};
}

BrokerDescriptors Possible(std::uint64_t segments) {
  return ShareBrokerDescriptors(DescriptorLimit(), segments, segments > 0 ? kMaxChannels : 0);
}

// ZeroMQ retries without a pause when it runs out of descriptors, so that must not happen.
ConnectionLimits Within(ConnectionLimits limits, const BrokerDescriptors& possible) {
  limits.connections = std::min(limits.connections, possible.connections);
  return limits;
}

BrokerOptions Checked(BrokerOptions options) {
  if (options.client_silence_us < kMinSilenceUs) {
    throw std::invalid_argument(fmt::format("client_silence_us is {}; at least {} are needed",
                                            options.client_silence_us, kMinSilenceUs));
  }
  return options;
}

}  // namespace

std::uint64_t PossibleConnections(std::uint64_t shared_segments) {
  return Possible(shared_segments).connections;
}

// The loop that runs a broker's parts.
struct Broker::Impl {
  explicit Impl(BrokerOptions given)
      : options(Checked(std::move(given))),
        core_options(CoreOptions(options)),
        access(options.access),
        sockets(options, Packing(options, core_options)),
        possible(Possible(options.shared_segments)),
        segments(possible.segments),
        channels(possible.channels, wake.fd()),
        outbox(sockets.router(), channels, options.client_queue_bytes),
        connections(Within(options.connections, possible), options.client_silence_us),
        core(core_options),
        sender(clock, core, connections, segments, channels, outbox,
               [this](const ClientId& client, const std::string& why) { Lose(client, why); }),
        intake(options, core_options.control_frame_bytes, clock, access, sockets, connections,
               segments, channels, core, sender),
        ending(options.linger) {}
  ~Impl() {
    Try([this] {
      core.SayGoodbye();
      Flush();
    });
    Try([this] { sockets.Close(); });
  }

  // For actions whose failure must not end the process: the caller's context may be gone, so that
  // goodbyes cannot be sent, or there may be no memory for the last messages.
  template <class Act>
  static void Try(Act act) {
    try {
      act();
    } catch (const std::exception&) {
    }
  }

  void Run() {
    while (!MustEnd()) {
      core.SetUnixTime(static_cast<std::uint64_t>(UnixUs()));
      // Receives the last messages of clients whose connection is known to have ended first.
      const int received = intake.ReceiveTurn();
      for (const ClientId& client : channels.Broken()) Lose(client, "its channel is damaged");
      // A client that sends without a pause must not delay the loss of others for ever.
      unread_turns = sockets.has_input() ? unread_turns + 1 : 0;
      if (!sockets.has_input() || unread_turns % kUnreadTurns == 0) LoseEnded();
      const std::int64_t now_us = clock.NowUs();
      if (access.TakeNewPeers() || access.EndKeys(now_us)) {
        core.SendAwayOthers(access.list(), now_us);
      }
      const std::vector<std::string> bound = sockets.BindLost(now_us);
      for (const std::string& line : bound) Log(line);
      // Binding may have consumed the socket's signal that a message has come.
      if (!bound.empty()) sockets.ExpectInput();
      WatchConnections(now_us);
      if (sockets.authenticator() != nullptr) {
        sockets.authenticator()->Answer(access.list(), now_us);
      }
      core.Tick(now_us);
      Probe();
      RetryOutbox();
      Flush();
      if (outbox.TakeUsedSocket()) sockets.ExpectInput();
      if (received == 0 && !connections.HasEndedClients()) {
        Wait();
      } else if (MonotonicUs() >= sockets.polled_at_us() + kUnpolledUs) {
        sockets.Poll(0, wake.fd());
      }
    }
    ending.Forget();
  }

  bool MustEnd() {
    const auto log = [this](const std::string& line) { Log(line); };
    return ending.IsAsked() && ending.IsDue(core, clock.NowUs(), log);
  }

  void WatchConnections(std::int64_t now_us) {
    const Monitor::Seen seen = sockets.TakeNews();
    bool ended = false;
    // Silent connections had no session to lose, but their messages may still wait to be received.
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
    if (ended || (mute > 0 && !probes.active())) {
      probes.Begin(now_us);
    }
    // Everything that came during a pause waits to be received.
    if (clock.TakePause()) connections.LookAtOnce();
    connections.Tick(now_us);
    core.SetConnectionCounts(connections.refused(), connections.failed());
    // The authenticator and the limits have logged theirs.
    if (connections.failed() > known_failed + seen.refused && pause.IsOver("failed", now_us)) {
      Log(fmt::format(
          "a connection failed: the other side does not speak ZeroMQ, went away, or has {} ({} so "
          "far)",
          access.has_keys() ? "no keys, or not this broker's" : "keys, and this broker has none",
          connections.failed()));
    }
    known_failed = connections.failed();
  }

  // Probing also finds clients whose connection has ended, unless another connection has taken the
  // id.
  void LoseEnded() {
    for (const ClientId& client : connections.TakeEndedClients()) Lose(client, kEnded);
  }

  // Finds clients whose connection has ended. With keys most connections are known, and a probe
  // would only wake their clients.
  void Probe() {
    if (!probes.active() || !probes.Take(clock.NowUs())) return;
    sockets.ExpectInput();
    const auto connected = connections.ConnectedClients();
    for (const ClientId& client : core.Clients()) {
      if (connected.contains(client) || outbox.Waits(client) || connections.IsEnded(client))
        continue;
      if (sender.IsGone(sockets.router(), client)) Lose(client, kEnded);
    }
  }

  // Messages that it had sent count, like those that ZeroMQ has received.
  void Lose(const ClientId& client, const std::string& why) {
    intake.ReceiveLast(client);
    outbox.Forget(client);
    core.Lost(client, why, clock.NowUs());
  }

  void Flush() {
    // Losing a client may produce answers for others.
    do {
      EndSessions();
      sender.SendAll();
    } while (core.HasOutput());
    sender.ForgetOffers();
    for (const std::string& line : core.TakeLog()) Log(line);
    for (const std::string& line : connections.TakeLog()) Log(line);
    if (sockets.authenticator() == nullptr) return;
    for (const std::string& line : sockets.authenticator()->TakeLog()) Log(line);
  }

  void Log(const std::string& line) {
    if (options.log) options.log(line);
  }

  void EndSessions() {
    for (const auto& [client, session] : core.TakeEnded()) {
      sockets.ForgetUnfinished(client);
      segments.SessionEnded(client, session);
      channels.SessionEnded(client, session);
    }
  }

  void RetryOutbox() {
    const auto knows = [this](const ClientId& client) { return core.Knows(client); };
    const std::int64_t now_us = clock.NowUs();
    for (const ClientId& client : outbox.Retry(knows, now_us)) Lose(client, kEnded);
    for (const auto& [client, why] : outbox.TakeOverLimit(now_us)) Lose(client, why);
  }

  void Wait() {
    // What this turn has done may be the end of the last lease that the broker waits for.
    if (MustEnd() || LookBeforeSleep()) return;
    std::int64_t deadline_us = std::min(core.NextDeadlineUs(), connections.NextDeadlineUs());
    deadline_us = std::min({deadline_us, probes.NextUs(), access.NextLookUs(), sockets.NextLookUs(),
                            ending.DeadlineUs()});
    if (!outbox.empty())
      deadline_us = std::min(deadline_us, clock.NowUs() + Outbox::kSocketRetryUs);
    channels.BeginSleep();
    const bool sleeps =
        wake.BeginSleep() && !channels.HasInput() && !sockets.has_input() && !sockets.has_news();
    const std::int64_t begin_us = MonotonicUs();
    if (sleeps) clock.AnnounceSleep(deadline_us);
    const bool rung = sockets.Poll(sleeps ? clock.ToSourceUs(deadline_us) : 0, wake.fd());
    channels.EndSleep();
    if (sleeps) spin.Slept(sockets.polled_at_us() - begin_us);
    wake.EndSleep(rung);
  }

  // Spins for a while; true if a channel has messages, so that sleeping is not needed.
  bool LookBeforeSleep() {
    if (channels.empty() || sockets.has_input() || sockets.has_news()) return false;
    spin.Spin([this] { return channels.HasInput() || wake.notified(); });
    return channels.HasInput();
  }

  const BrokerOptions options;
  const BrokerCoreOptions core_options;
  AccessControl access;
  BrokerSockets sockets;
  RunningClock clock;
  WakeUp wake;
  AdaptiveSpin spin;
  const BrokerDescriptors possible;
  SegmentTable segments;
  ChannelTable channels;
  Outbox outbox;
  Connections connections;
  BrokerCore core;
  Sender sender;
  Intake intake;
  ConnectionProbes probes;
  std::uint64_t unread_turns = 0;  // consecutive turns that left input to receive
  std::uint64_t known_failed = 0;  // connections
  LogPause pause;
  Ending ending;
};

Broker::Broker(BrokerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Broker::~Broker() = default;

const std::vector<std::string>& Broker::endpoints() const {
  return impl_->sockets.endpoints();
}

void Broker::Run() {
  impl_->Run();
}

void Broker::Stop() {
  impl_->ending.AskNow();
  impl_->wake.Notify();
}

void Broker::StopSoon() {
  impl_->ending.AskSoon();
  impl_->wake.Notify();
}

void Broker::SetPeers(const std::vector<AllowedPeer>& peers) {
  impl_->access.SetPeers(peers);
  impl_->wake.Notify();
}

Stats Broker::GetStatistics() const {
  return impl_->core.GetStatistics();
}

}  // namespace tuplespace
