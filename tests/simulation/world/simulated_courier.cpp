// Implements tuplespace/peer/internal/courier.h. The decisions of holders and readers are the
// product's own; messages between them take virtual time, and connections fail. A reader whose
// fetch fails must get its payload through the broker.
#include <fmt/format.h>

#include <map>
#include <memory>
#include <utility>

#include "courier.h"
#include "offered.h"
#include "wake_up.h"
#include "world/cluster_network.h"
#include "world/world.h"

namespace tuplespace {
namespace {

using acan::simulation::Process;
using acan::simulation::World;

constexpr std::int64_t kMinDelayUs = 50;
constexpr std::int64_t kMaxDelayUs = 5'000;
constexpr std::uint64_t kBreaksOneIn = 40;  // per message
constexpr const char* kBroken = "the connection broke";
constexpr std::uint64_t kHostileNumber =
    UINT64_MAX;  // of the hostile handler, which is none of All
constexpr std::int64_t kAnnoysEveryUs = 1'000'000;

}  // namespace

struct Courier::Impl {
  Impl(CourierOptions given, WakeUp& owner_wake)
      : options(std::move(given)),
        owner(owner_wake),
        process(World::CurrentTask().process()),
        number(NextNumber()),
        listening{fmt::format("tcp://127.0.0.1:{}", number), "", MakeTicketSecret()},
        holder(listening.secret, options.holder_limits) {
    All()[number] = this;
  }
  ~Impl() { All().erase(number); }

  // The existing couriers by number. Messages under way may arrive when their courier is gone.
  static std::map<std::uint64_t, Impl*>& All() {
    static std::map<std::uint64_t, Impl*> all;
    return all;
  }
  static std::uint64_t NextNumber() {
    static std::uint64_t next = 0;
    if (All().empty()) next = 0;  // in a new world, a seed gets the same numbers again
    return ++next;
  }
  static Impl* Find(std::uint64_t number) {
    const auto at = All().find(number);
    // A stopped process does not answer.
    return at == All().end() || at->second->process.stopped() ? nullptr : at->second;
  }
  // The number of the holder with this endpoint; 0: there is none.
  static std::uint64_t NumberOf(const std::string& endpoint) {
    if (endpoint == acan::simulation::kHostileEndpoint) return kHostileNumber;
    for (const auto& [number, courier] : All()) {
      if (courier->listening.endpoint == endpoint) return number;
    }
    return 0;
  }
  template <typename What>
  static void Later(What what) {
    World& world = World::current();
    world.After(
        kMinDelayUs + static_cast<std::int64_t>(world.random().Below(kMaxDelayUs - kMinDelayUs)),
        std::move(what));
  }

  void Fetch(WantedPayload wanted, const Place& place) {
    const std::uint64_t at = NumberOf(place.endpoint);
    const bool fresh = !links.contains(at);
    PeerReader& reader = links.try_emplace(at, options.reader_limits).first->second;
    reader.Fetch(std::move(wanted), process.LocalUs());
    const std::uint64_t one_in = acan::simulation::ClusterNetwork().conditions.unreachable_one_in;
    if (at == 0 || (fresh && World::current().random().OneIn(one_in))) {
      reader.Fail("nobody listens there");
    }
    Pump(at);
    if (fresh && at == kHostileNumber) Annoy(number);
  }

  // The hostile handler says that it does not have what nobody has asked for.
  static void Annoy(std::uint64_t from) {
    World::current().After(kAnnoysEveryUs, [from] {
      Impl* const self = Find(from);
      if (self == nullptr || !self->links.contains(kHostileNumber)) return;
      self->links.at(kHostileNumber)
          .Receive(EncodePeer(RefusalFrame{0, FetchRefusal::kGone}), self->process.LocalUs());
      self->Pump(kHostileNumber);
      Annoy(from);
    });
  }

  // Sends the messages of this link's reader and reports the payloads that it got.
  void Pump(std::uint64_t at) {
    PeerReader& reader = links.at(at);
    for (std::vector<std::byte>& message : reader.TakeOutput()) {
      Later([from = number, at, message = std::move(message)] { Arrive(from, at, message); });
    }
    for (FetchedPayload& fetched : reader.TakeFetched()) {
      ++(fetched.payload.empty() ? counts.failed_fetches : counts.fetched_payloads);
      counts.fetched_bytes += fetched.payload.size();
      acan::simulation::ClusterNetwork().CountFetch(!fetched.payload.empty());
      Say(std::move(fetched));
    }
    if (reader.idle()) {
      links.erase(at);
      return;
    }
    World::current().At(process.ToWorldUs(reader.NextDeadlineUs()), [from = number, at] {
      Impl* const self = Find(from);
      if (self == nullptr || !self->links.contains(at)) return;
      PeerReader& waiting = self->links.at(at);
      if (self->process.LocalUs() < waiting.NextDeadlineUs()) return;
      waiting.Tick(self->process.LocalUs());
      self->Pump(at);
    });
  }

  static void Arrive(std::uint64_t from, std::uint64_t at, const std::vector<std::byte>& message) {
    Impl* const holding = Find(at);
    if (holding == nullptr) return;  // the reader notices by its timeout
    if (World::current().random().OneIn(kBreaksOneIn)) return Break(from, at);
    holding->holder.Receive(std::to_string(from), "", message, holding->process.LocalUs());
    holding->Send();
  }

  static void Break(std::uint64_t from, std::uint64_t at) {
    if (Impl* const holding = Find(at)) holding->holder.PeerGone(std::to_string(from));
    Impl* const self = Find(from);
    if (self == nullptr || !self->links.contains(at)) return;
    self->links.at(at).Fail(kBroken);
    self->Pump(at);
  }

  void Send() {
    for (Key& key : holder.TakeAsked()) {
      const Payload payload = offered.Find(key);
      if (payload.empty()) {
        Say(Asked{std::move(key)});
      } else {
        holder.Provide(key, payload, process.LocalUs());
      }
    }
    while (std::optional<PeerHolder::Outgoing> out = holder.TakeOutput()) {
      std::vector<std::byte> message = out->head;
      message.insert(message.end(), out->body.begin(), out->body.end());
      Later([to = std::stoull(out->peer), at = number, message = std::move(message)] {
        Impl* const self = Find(to);
        if (self == nullptr || !self->links.contains(at)) return;
        self->links.at(at).Receive(message, self->process.LocalUs());
        self->Pump(at);
      });
    }
  }

  template <typename What>
  void Say(What what) {
    events.emplace_back(std::in_place_type<What>, std::move(what));
    owner.Notify();
  }

  const CourierOptions options;
  ClientId fetches_as = options.client;
  WakeUp& owner;
  Process& process;
  const std::uint64_t number;
  const Listening listening;
  PeerHolder holder;
  std::map<std::uint64_t, PeerReader> links;  // by the holder's number
  Offered offered;
  std::vector<Event> events;
  CourierCounts counts;
};

Courier::Courier(CourierOptions options, WakeUp& wake)
    : impl_(std::make_unique<Impl>(std::move(options), wake)) {}
Courier::~Courier() = default;

const Listening& Courier::listening() const {
  return impl_->listening;
}

void Courier::ChangeClient(ClientId client) {
  impl_->fetches_as = std::move(client);
}

void Courier::SessionBegan(std::uint64_t session, std::int64_t broker_us) {
  impl_->holder.SessionBegan(session, broker_us, impl_->process.LocalUs());
}

void Courier::SessionEnded() {
  impl_->offered.Clear();
  impl_->holder.SessionEnded();
  impl_->Send();
}

std::vector<Courier::Event> Courier::TakeEvents() {
  return std::exchange(impl_->events, {});
}

void Courier::Provide(const Key& key, Payload payload) {
  impl_->holder.Provide(key, payload, impl_->process.LocalUs());
  impl_->Send();
}

void Courier::Offer(const Key& key, Payload payload) {
  impl_->offered.Add(key, std::move(payload));
}

void Courier::Withdraw(const Key& key) {
  if (impl_->offered.Remove(key)) return;
  impl_->holder.Withdraw(key);
  impl_->Send();
}

void Courier::Fetch(std::uint64_t id, const Key& key, std::uint64_t bytes, const Place& place,
                    const ClientId& /*holder*/, const std::optional<PayloadHash>& hash) {
  impl_->Fetch({id, key, bytes, place.ticket, impl_->fetches_as, hash}, place);
}

void Courier::Forget(std::uint64_t id) {
  for (auto at = impl_->links.begin(); at != impl_->links.end();) {
    const auto here = at++;
    here->second.Forget(id);
    here->second.Tick(impl_->process.LocalUs());  // the next may begin
    impl_->Pump(here->first);
  }
}

CourierCounts Courier::counts() const {
  CourierCounts counts = impl_->counts;
  counts.holder = impl_->holder.counts();
  return counts;
}

}  // namespace tuplespace
