#include "courier.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <exception>
#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>

#include "offered.h"
#include "peer_link.h"
#include "peer_listener.h"
#include "tuplespace/threads.h"
#include "wake_up.h"

namespace tuplespace {

namespace {

constexpr std::size_t kMaxUnreachable = 1024;
constexpr std::size_t kThreads = 3;  // its own, and two of its ZeroMQ context
constexpr const char* kNoLongerFetches = "this client no longer fetches payloads";

// The client that holds payloads there, as the broker says; an endpoint; a public key. Another
// process may listen at the endpoint later. Any client may name the endpoint of another one, with a
// wrong key or with the right one, and then its tickets are bad there.
using Holder = std::tuple<ClientId, std::string, std::string>;

Holder HolderOf(const ClientId& client, const Place& place) {
  return {client, place.endpoint, place.public_key};
}

// The holders that could not be reached, and until when they are not tried.
class Unreachable {
 public:
  bool Has(const Holder& holder, std::int64_t now_us) const {
    const auto at = until_.find(holder);
    return at != until_.end() && now_us < at->second.until_us;
  }
  void Add(const Holder& holder, std::int64_t now_us) {
    if (until_.size() >= kMaxUnreachable) until_.clear();
    Entry& entry = until_[holder];
    entry.pause_us = std::clamp(2 * entry.pause_us, kUnreachableUs, kMaxUnreachableUs);
    entry.until_us = now_us + entry.pause_us;
  }
  void Remove(const Holder& holder) { until_.erase(holder); }

 private:
  struct Entry {
    std::int64_t until_us = 0;
    std::int64_t pause_us = 0;
  };
  std::map<Holder, Entry> until_;
};

// Signals are for the threads of the program that uses this library. Signals that a thread raises
// by its own faults stay unblocked: if blocked, they would end the process without running their
// handlers.
void BlockSignals() {
  sigset_t all;
  sigfillset(&all);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT}) {
    sigdelset(&all, own);
  }
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

// If ZeroMQ gets no thread, it ends the process by a signal.
void RequireThreads() {
  const ThreadTrial trial = TryThreads({{kThreads}});
  if (trial.error == 0) return;
  throw std::runtime_error(
      fmt::format("the system allows only {} more threads ({}), and direct transfers need {}",
                  trial.started, std::generic_category().message(trial.error), kThreads));
}

}  // namespace

struct Courier::Impl {
  Impl(CourierOptions given, WakeUp& owner_wake)
      : options(std::move(given)),
        owner(owner_wake),
        context(1),
        listener(context, options),
        thread([this] { Run(); }) {}
  ~Impl() {
    stops = true;
    wake.Notify();
    thread.join();
  }

  // ---- the client's thread

  void Do(std::function<void()> what) {
    {
      const std::lock_guard lock(mutex);
      commands.push_back(std::move(what));
    }
    wake.Notify();
  }

  // ---- the courier's thread

  bool is_dead() const { return death != nullptr; }

  void Run() {
    BlockSignals();
    while (!stops) {
      try {
        is_dead() ? DeadTurn() : Turn();
      } catch (const std::exception&) {
        // Without memory or sockets, everything goes through the broker from here on.
        if (!is_dead()) Die(std::current_exception());
      }
    }
  }

  void Turn() {
    RunCommands();
    const std::int64_t now_us = MonotonicUs();
    bool busy = listener.Work(now_us);
    for (const Key& key : listener.holder().TakeAsked()) {
      const Payload payload = offered.Find(key);
      if (payload.empty()) {
        Say(Asked{key});
      } else {
        listener.holder().Provide(key, payload, now_us);
        busy = true;
      }
    }
    for (auto at = links.begin(); at != links.end();) {
      busy = at->second.link->Work(now_us) || busy;
      at = Look(at, now_us);
    }
    Publish();
    if (!busy && !stops) Wait();
  }

  struct Link {
    std::unique_ptr<PeerLink> link;
    std::int64_t used_us = 0;  // when something was last fetched through it

    bool IsIdle() const { return link->reader().idle(); }
  };
  using Links = std::map<Holder, Link>;

  Links::iterator Look(Links::iterator at, std::int64_t now_us) {
    Link& link = at->second;
    PeerReader& reader = link.link->reader();
    for (FetchedPayload& fetched : reader.TakeFetched()) Say(std::move(fetched));
    if (reader.failed()) {
      unreachable.Add(at->first, now_us);
    } else if (reader.delivered()) {
      unreachable.Remove(at->first);
    }
    if (!link.IsIdle()) link.used_us = now_us;
    const bool unused = link.IsIdle() && now_us - link.used_us >= options.idle_link_us;
    const bool over = reader.failed() || unused || (link.link->ended() && link.IsIdle());
    return over ? links.erase(at) : std::next(at);
  }

  // Throws if there is no link to this place of `holder`, and none can be made.
  PeerReader& ReaderAt(const Holder& holder, const Place& place, std::int64_t now_us) {
    const auto known = links.find(holder);
    if (known != links.end()) return known->second.link->reader();
    MakeRoomForLink();
    auto link = std::make_unique<PeerLink>(context, options, place);
    PeerReader& reader = link->reader();
    links[holder] = {std::move(link), now_us};
    return reader;
  }

  // Any holder may name one place after another.
  void MakeRoomForLink() {
    if (links.size() < options.most_links) return;
    auto longest_idle = links.end();
    for (auto at = links.begin(); at != links.end(); ++at) {
      if (!at->second.IsIdle()) continue;
      if (longest_idle != links.end() && longest_idle->second.used_us <= at->second.used_us)
        continue;
      longest_idle = at;
    }
    if (longest_idle == links.end()) {
      throw std::runtime_error(fmt::format(
          "this client fetches from {} holders already, the most at a time", links.size()));
    }
    links.erase(longest_idle);
  }

  void Fetch(WantedPayload wanted, const Place& place, const ClientId& client) {
    const std::int64_t now_us = MonotonicUs();
    const std::uint64_t id = wanted.id;
    if (is_dead()) return Say(FetchedPayload{id, {}, kNoLongerFetches});
    const Holder holder = HolderOf(client, place);
    if (unreachable.Has(holder, now_us)) {
      return Say(FetchedPayload{id, {}, "it was recently unreachable"});
    }
    try {
      if (wanted.ticket.size() != kTicketBytes || wanted.bytes == 0) {
        throw std::invalid_argument("the place has no ticket, or no bytes");
      }
      ReaderAt(holder, place, now_us).Fetch(std::move(wanted), now_us);
    } catch (const std::exception& error) {
      Say(FetchedPayload{id, {}, error.what()});
    }
  }

  void Forget(std::uint64_t id) {
    for (auto& [place, link] : links) link.link->reader().Forget(id);
  }

  // Readers must not wait for a listener that nobody reads. What needs memory is left to DeadTurn,
  // which is tried until it succeeds.
  void Die(std::exception_ptr why) noexcept {
    death = std::move(why);
    listener.Close();
  }

  void DeadTurn() {
    if (!told_death) TellDeath();
    EndLinks();
    RunCommands();
    Publish();
    zmq_pollitem_t item{nullptr, wake.fd(), ZMQ_POLLIN, 0};
    if (wake.BeginSleep()) PollUntil({&item, 1}, kForeverUs);
    wake.EndSleep(item.revents != 0);
  }

  void TellDeath() {
    try {
      std::rethrow_exception(death);
    } catch (const std::exception& error) {
      Say(Died{error.what()});
    }
    told_death = true;
    listener.holder().SessionEnded();
  }

  void EndLinks() {
    while (!links.empty()) {
      PeerReader& reader = links.begin()->second.link->reader();
      reader.Fail(kNoLongerFetches);
      for (FetchedPayload& fetched : reader.TakeFetched()) Say(std::move(fetched));
      links.erase(links.begin());
    }
  }

  // A command that throws does not affect the others.
  void RunCommands() {
    if (taken.empty()) {
      const std::lock_guard lock(mutex);
      taken.swap(commands);
    }
    while (!taken.empty()) {
      const std::function<void()> command = std::move(taken.front());
      taken.pop_front();
      command();
    }
  }

  void Say(Event event) {
    if (const auto* fetched = std::get_if<FetchedPayload>(&event)) {
      if (fetched->payload.empty()) {
        ++own_counts.failed_fetches;
      } else {
        ++own_counts.fetched_payloads;
        own_counts.fetched_bytes += fetched->payload.size();
      }
    }
    said.push_back(std::move(event));
  }

  void Publish() {
    own_counts.holder = listener.holder().counts();
    own_counts.links = links.size();
    const bool news = !said.empty();
    {
      const std::lock_guard lock(mutex);
      shown_counts = own_counts;
      for (Event& event : said) events.push_back(std::move(event));
    }
    said.clear();
    if (news) owner.Notify();
  }

  void Wait() {
    items.clear();
    items.push_back({nullptr, wake.fd(), ZMQ_POLLIN, 0});
    listener.AddTo(items);
    std::int64_t deadline_us = listener.NextDeadlineUs();
    for (auto& [place, link] : links) {
      link.link->AddTo(items);
      const std::int64_t end_us = link.IsIdle() ? link.used_us + options.idle_link_us
                                                : link.link->reader().NextDeadlineUs();
      deadline_us = std::min(deadline_us, end_us);
    }
    PollUntil(items, wake.BeginSleep() ? deadline_us : 0);
    wake.EndSleep(items.front().revents != 0);
  }

  const CourierOptions options;
  ClientId fetches_as = options.client;  // for the owner's thread
  WakeUp& owner;
  WakeUp wake;
  zmq::context_t context;
  PeerListener listener;
  Links links;
  Unreachable unreachable;
  std::vector<zmq_pollitem_t> items;
  Offered offered;
  std::vector<Event> said;
  CourierCounts own_counts;
  std::deque<std::function<void()>> taken;  // commands in progress
  std::exception_ptr death;                 // why it died; null: it lives
  bool told_death = false;
  std::atomic<bool> stops = false;

  mutable std::mutex mutex;  // guards the members below
  std::deque<std::function<void()>> commands;
  std::vector<Event> events;
  CourierCounts shown_counts;

  std::thread thread;  // last, as it uses the other members
};

Courier::Courier(CourierOptions options, WakeUp& wake) {
  RequireThreads();
  impl_ = std::make_unique<Impl>(std::move(options), wake);
}
Courier::~Courier() = default;

const Listening& Courier::listening() const {
  return impl_->listener.listening();
}

void Courier::ChangeClient(ClientId client) {
  impl_->fetches_as = std::move(client);
}

void Courier::SessionBegan(std::uint64_t session, std::int64_t broker_us) {
  impl_->Do([impl = impl_.get(), session, broker_us, now_us = MonotonicUs()] {
    impl->listener.holder().SessionBegan(session, broker_us, now_us);
  });
}

void Courier::SessionEnded() {
  impl_->offered.Clear();
  impl_->Do([impl = impl_.get()] { impl->listener.holder().SessionEnded(); });
}

std::vector<Courier::Event> Courier::TakeEvents() {
  const std::lock_guard lock(impl_->mutex);
  return std::exchange(impl_->events, {});
}

void Courier::Provide(const Key& key, Payload payload) {
  impl_->Do([impl = impl_.get(), key, payload = std::move(payload)] {
    impl->listener.holder().Provide(key, payload, MonotonicUs());
  });
}

void Courier::Offer(const Key& key, Payload payload) {
  impl_->offered.Add(key, std::move(payload));
}

void Courier::Withdraw(const Key& key) {
  if (impl_->offered.Remove(key)) return;
  impl_->Do([impl = impl_.get(), key] { impl->listener.holder().Withdraw(key); });
}

void Courier::Fetch(std::uint64_t id, const Key& key, std::uint64_t bytes, const Place& place,
                    const ClientId& holder, const std::optional<PayloadHash>& hash) {
  impl_->Do([impl = impl_.get(), place, holder,
             wanted = WantedPayload{id, key, bytes, place.ticket, impl_->fetches_as, hash}] {
    impl->Fetch(wanted, place, holder);
  });
}

void Courier::Forget(std::uint64_t id) {
  impl_->Do([impl = impl_.get(), id] { impl->Forget(id); });
}

CourierCounts Courier::counts() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->shown_counts;
}

}  // namespace tuplespace
