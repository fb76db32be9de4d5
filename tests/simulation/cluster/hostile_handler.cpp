#include "cluster/hostile_handler.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>
#include <variant>

#include "acan/core/access_roles.h"
#include "acan/core/names.h"
#include "cluster/jobs.h"
#include "fmt/format.h"
#include "world/cluster_network.h"

namespace acan::simulation {

using namespace tuplespace;  // NOLINT: this file is about its messages

namespace {

constexpr std::size_t kMaxRemembered = 256;
constexpr std::uint64_t kIds = 3;  // under which it joins
constexpr std::int64_t kMaxLeaseUs = 3'600'000'000;
constexpr std::size_t kHostileSecretBytes = 32;
constexpr std::uint64_t kMostBoasted = 1ull << 40;  // bytes of memory

AccessList MakeAccess() {
  const std::string key(40, '0');
  return AccessList(AccessRoles(), {AllowedPeer{kHostileName, key, kHandlerRole}});
}

}  // namespace

HostileHandler::HostileHandler(std::uint64_t seed, bool lies)
    : random_(seed),
      habits_(seed, lies, random_),
      access_(MakeAccess()),
      who_(access_.Find(std::string(40, '0'))) {
  DrawFields(Random(seed ^ 0xf1e1d5));
  OnBroker();
}

bool HostileHandler::Is(const ClientId& client) {
  return client.starts_with(ClientIdPrefix(kHostileName));
}

std::string HostileHandler::Describe() const {
  return fmt::format("{}{}{}{}, with these weights: {}", habits_.DescribeTimes(),
                     habits_.listens() ? ", listens and sends nothing" : "",
                     fields_ ? ", sets all fields" : "",
                     habits_.agrees() ? ", agrees with itself" : "", habits_.DescribeDeeds());
}

void HostileHandler::OnBroker() {
  sessions_.clear();
  known_.fresh_leases.clear();
  for (std::uint64_t i = 0; i < kIds; ++i) {
    sessions_[ClientIdPrefix(kHostileName) + std::to_string(i)] = 0;
  }
}

template <class Value>
void HostileHandler::Remember(std::vector<Value>* values, const Value& value) {
  if (values->size() < kMaxRemembered) return values->push_back(value);
  (*values)[random_.Below(values->size())] = value;
}

void HostileHandler::Overhear(const Request& request) {
  if (const auto* put = std::get_if<Put>(&request.body)) {
    for (const Tuple& tuple : put->tuples) Remember(&known_.keys, tuple.key);
  } else if (const auto* complete = std::get_if<Complete>(&request.body)) {
    Remember(&known_.leases, complete->lease);
    for (const Tuple& tuple : complete->results) {
      Remember(&known_.keys, tuple.key);
      if (!habits_.lies() && !habits_.Does(HostileDeed::kKeep)) continue;
      if (tuple.payload.size() > 0) Remember(&known_.results, {tuple.key, tuple.payload});
    }
  } else if (const auto* extend = std::get_if<Extend>(&request.body)) {
    Remember(&known_.leases, extend->lease);
  }
}

void HostileHandler::OnAnswer(const ClientId& client, const ToClient& envelope) {
  for (const BrokerMessage& message : envelope.messages) {
    if (const auto* welcome = std::get_if<Welcome>(&message)) {
      sessions_[client] = welcome->session;
    } else if (const auto* error = std::get_if<RequestError>(&message)) {
      if (error->code == ErrorCode::kHelloRequired) sessions_[client] = 0;
    } else if (const auto* reply = std::get_if<Reply>(&message)) {
      const auto* grants = std::get_if<Grants>(&reply->body);
      if (grants == nullptr) continue;
      for (const Grant& grant : grants->grants) {
        Remember(&known_.own_leases, LeaseRef{grant.key, grant.fence});
        Remember(&known_.fresh_leases, {client, LeaseRef{grant.key, grant.fence}});
        Remember(&known_.keys, grant.key);
        if (!grant.task) known_.turns[client] = {grant.key, grant.fence};
      }
    }
  }
}

// ---- requests -----------------------------------------------------------------------------------

HostileHandler::Said HostileHandler::Say(const Observer& observer) {
  Said said;
  auto at = sessions_.begin();
  std::advance(at, static_cast<std::ptrdiff_t>(random_.Below(random_.OneIn(2) ? 1 : kIds)));
  said.client = at->first;
  said.envelope.session = !habits_.clings() && random_.OneIn(64) ? random_.Next() : at->second;
  if (at->second == 0) said.envelope.messages.emplace_back(Hello{++nonce_, said.client});
  if (habits_.listens() && at->second != 0 && said.envelope.session == at->second &&
      listens_in_.insert(at->second).second) {
    said.envelope.messages.emplace_back(
        Listening{kHostileEndpoint, std::string(40, '0'), std::string(kHostileSecretBytes, 's')});
    said.what = "listen";
  }
  const std::uint64_t deeds = random_.OneIn(4) ? 1 + random_.Below(6) : 1;
  for (std::uint64_t i = 0; i < deeds; ++i) {
    const HostileDeed deed = habits_.Draw(random_);
    Do(deed, observer, &said);
    said.what += fmt::format("{}{}", said.what.empty() ? "" : ", ", NameOf(deed));
  }
  return said;
}

void HostileHandler::Do(HostileDeed deed, const Observer& observer, Said* said) {
  switch (deed) {
    case HostileDeed::kGet:
      return Ask(said, AnyGet());
    case HostileDeed::kCompleteOwn:
      return Ask(said, AnyCompletion(AnyLease(known_.own_leases), observer));
    case HostileDeed::kCompleteOthers:
      return Ask(said, AnyCompletion(AnyLease(known_.leases), observer));
    case HostileDeed::kCompleteInvented:
      return Ask(said, AnyCompletion({AnyKey(), random_.Next()}, observer));
    case HostileDeed::kExtend:
      if (habits_.clings()) return Ask(said, Extend{AnyLease(known_.own_leases), kMaxLeaseUs});
      return Ask(said, Extend{AnyLease(random_.OneIn(8) ? known_.leases : known_.own_leases),
                              AnyDuration()});
    case HostileDeed::kStore:
      return Ask(said, Release{AnyLease(random_.OneIn(8) ? known_.leases : known_.own_leases)});
    case HostileDeed::kFail: {
      const LeaseRef lease = random_.OneIn(8) ? AnyLease(known_.leases) : FreshLease(said->client);
      return Ask(said, Fail{lease, std::string(random_.Below(random_.OneIn(8) ? 6000 : 20), 'x')});
    }
    case HostileDeed::kPutCapacity:
      return Ask(said, Put{{Capacity(said->client)}, AnyUnder()});
    case HostileDeed::kPutReports: {
      Put put{{}, AnyUnder()};
      for (std::uint64_t i = random_.Below(40); i > 0; --i) {
        put.tuples.push_back(Report(said->client));
      }
      return Ask(said, std::move(put));
    }
    case HostileDeed::kPutAnything:
      return Ask(said, Put{{AnyTuple()}, AnyUnder()});
    case HostileDeed::kRead:
      return Ask(said, AnyRead());
    case HostileDeed::kListOrCount:
      return Ask(said, AnyListOrCount());
    case HostileDeed::kRetire: {
      const Pattern reports = ReportsBefore(said->client, random_.Between(-10, 200));
      return Ask(said,
                 Retire{random_.OneIn(2) ? reports : AnyPattern(), random_.OneIn(2), AnyUnder()});
    }
    case HostileDeed::kHold:
      return Ask(said, AnyHold());
    case HostileDeed::kCancel:
      return Ask(said, Cancel{random_.Below(next_request_ + 2)});
    case HostileDeed::kSupply:
      return Ask(said, AnySupply());
    case HostileDeed::kFlood:
      // Sometimes more requests than the broker handles in one turn.
      for (std::uint64_t i = random_.OneIn(8) ? 1500 : 40; i > 0; --i) Ask(said, GetStats{});
      return;
    case HostileDeed::kJoinAgain:
      said->envelope.messages.emplace_back(
          Hello{random_.OneIn(4) ? random_.Below(nonce_ + 1) : ++nonce_, std::string("evil")});
      return;
    case HostileDeed::kLeave:
      said->envelope.messages.emplace_back(Bye{});
      return;
    case HostileDeed::kLie:
      return Ask(said, AnyLie(FreshLease(said->client), observer));
    case HostileDeed::kKeep:
      return Ask(said, AnyKeeping(FreshLease(said->client), observer));
    case HostileDeed::kBorrow:
      for (std::uint64_t i = random_.Below(4); i > 0; --i) Ask(said, AnyBorrowing(said->client));
      return;
    case HostileDeed::kCount:
      return;
  }
}

void HostileHandler::Ask(Said* said, RequestBody body) {
  said->envelope.messages.emplace_back(Request{next_request_++, std::move(body)});
}

RequestBody HostileHandler::AnyGet() {
  Get get;
  get.pattern = random_.OneIn(16) ? AnyPattern() : RunnableTasks(true, random_.OneIn(2));
  get.offer_bytes = random_.OneIn(2) ? UINT64_MAX : random_.Below(300'000);
  get.max_count = random_.OneIn(3) ? static_cast<std::uint32_t>(random_.Magnitude(1, 4096)) : 1;
  get.with_inputs = random_.OneIn(4);
  get.lease_us = random_.OneIn(4) ? AnyDuration() : 0;
  get.wait_us = random_.OneIn(4) ? AnyDuration() : random_.OneIn(2) ? kForeverUs : 0;
  get.share = random_.OneIn(4);
  SetFields(&get);
  return get;
}

RequestBody HostileHandler::AnyRead() {
  Read read;
  for (std::uint64_t i = 1 + random_.Below(4); i > 0; --i) read.patterns.push_back(AnyPattern());
  read.all = random_.OneIn(2);
  read.metadata_only = random_.OneIn(2);
  read.wait_us = random_.OneIn(2) ? kForeverUs : AnyDuration();
  SetFields(&read);
  return read;
}

// Asks for the turn to measure the link, or misuses the last one.
RequestBody HostileHandler::AnyBorrowing(const ClientId& client) {
  const auto turn = known_.turns.find(client);
  if (turn == known_.turns.end() || random_.OneIn(2)) {
    Get get;
    get.pattern = Pattern::Of(ProbeTurnKey());
    get.lease_us = AnyDuration();
    get.wait_us = random_.OneIn(4) ? AnyDuration() : kForeverUs;
    SetFields(&get);
    return get;
  }
  if (random_.OneIn(8)) return Complete{turn->second, {}};
  if (random_.OneIn(2)) return Release{turn->second};
  return Extend{turn->second, AnyDuration()};
}

RequestBody HostileHandler::AnyHold() {
  Hold hold;
  for (std::uint64_t i = random_.Below(20); i > 0; --i) hold.held.push_back(AnyKey());
  for (std::uint64_t i = random_.Below(20); i > 0; --i) hold.dropped.push_back(AnyKey());
  return hold;
}

RequestBody HostileHandler::AnyListOrCount() {
  if (random_.OneIn(2)) return Count{AnyPattern()};
  return List{AnyPattern(), random_.Next() >> random_.Below(64), random_.OneIn(2)};
}

// Any claims. A job is cut so that the handlers with the most memory can take its tasks, so memory
// that it does not have costs the run some time.
Tuple HostileHandler::Capacity(const ClientId& client) {
  static constexpr std::array<double, 8> kSpeeds = {-1e300, -1, 0, 1e-300, 1, 1e6, 1e15, 1e300};
  acan::Capacity capacity;
  capacity.name = capacity.device = "evil";
  capacity.memory_bytes = random_.OneIn(2) ? random_.Below(3) : kMinMemoryBytes;
  // If nobody could check its tasks, it would never be caught, and the run would have its pace.
  const std::uint64_t most = habits_.agrees() ? kLargeMemoryBytes : kMostBoasted;
  if (random_.OneIn(4)) capacity.memory_bytes = most;
  capacity.limit_bytes = AnyCount();
  capacity.threads = static_cast<int>(random_.Between(-1, 1) * random_.Magnitude(1, 2'000'000'000));
  capacity.gflops = kSpeeds[random_.Below(kSpeeds.size())];
  capacity.exact = random_.OneIn(2);
  capacity.fast = random_.OneIn(2);
  capacity.own_memory = random_.OneIn(2);
  Tuple tuple;
  tuple.key = random_.OneIn(8) ? HandlerKey("handler 0") : HandlerKey(client);
  tuple.payload = random_.OneIn(8) ? AnyPayload() : Payload::Copy(CapacityToJson(capacity));
  tuple.ephemeral = random_.OneIn(2);
  return tuple;
}

std::uint64_t HostileHandler::AnyCount() {
  return random_.Next() >> random_.Below(64);
}

Tuple HostileHandler::Report(const ClientId& client) {
  acan::Report report;
  report.tasks = AnyCount();
  report.failed = AnyCount();
  report.tile_hits = AnyCount();
  report.peak_bytes = AnyCount();
  report.busy_s = static_cast<double>(random_.Between(-1'000'000, 1'000'000'000));
  report.gflop = static_cast<double>(random_.Between(-1'000'000, 1'000'000'000)) *
                 (random_.OneIn(4) ? 1e200 : 1);
  Tuple tuple;
  tuple.key = ReportKey(client, random_.Between(-5, 200));
  tuple.payload = random_.OneIn(8) ? AnyPayload() : Payload::Copy(ReportToJson(report));
  if (random_.OneIn(128)) tuple.payload = Payload::Copy(std::string(kMaxReportBytes + 1, ' '));
  tuple.ephemeral = random_.OneIn(2);
  return tuple;
}

Tuple HostileHandler::AnyTuple() {
  Tuple tuple;
  tuple.key = AnyKey();
  if (random_.OneIn(4)) {
    tuple.resident_bytes = 1 + random_.Below(1000);
  } else {
    tuple.payload = AnyPayload();
  }
  tuple.held = random_.OneIn(4);
  tuple.ephemeral = random_.OneIn(8);
  if (random_.OneIn(8)) {
    tuple.task.emplace();
    tuple.task->inputs = {AnyKey()};
    tuple.task->results = {AnyKey()};
    SetFields(&*tuple.task);
  }
  return tuple;
}

Payload HostileHandler::AnyPayload() {
  return Payload::Copy(std::string(random_.Below(200), 'e'));
}

// A key that it has seen, sometimes moved to another step.
Key HostileHandler::AnyKey() {
  if (known_.keys.empty() || random_.OneIn(32)) return Key{"evil", static_cast<std::int64_t>(1)};
  const Key& key = known_.keys[random_.Below(known_.keys.size())];
  if (random_.OneIn(2)) return key;
  std::vector<Field> fields = key.Fields();
  if (fields.size() < 3 || !std::holds_alternative<std::int64_t>(fields[1])) return key;
  fields[1] = std::get<std::int64_t>(fields[1]) + random_.Between(-2, 5);
  return Key(fields);
}

Pattern HostileHandler::AnyPattern() {
  switch (random_.Below(5)) {
    case 0:
      return AllHandlers();
    case 1:
      return AllReports();
    case 2:
      return RunnableTasks(true, true);
    default:
      return Pattern::Of(AnyKey());
  }
}

LeaseRef HostileHandler::AnyLease(const std::vector<LeaseRef>& known) {
  if (known.empty()) return {AnyKey(), random_.Below(10)};
  // The newest leases are the most likely to be valid.
  const std::size_t last = std::min<std::size_t>(known.size(), 8);
  LeaseRef lease = random_.OneIn(3) ? known[random_.Below(known.size())]
                                    : known[known.size() - 1 - random_.Below(last)];
  if (random_.OneIn(16)) lease.fence += random_.Below(5) - 2;
  return lease;
}

// Mostly a lease that `client` was granted, each once; sometimes one of another of its clients.
LeaseRef HostileHandler::FreshLease(const ClientId& client) {
  const auto mine = [&](const auto& lease) { return lease.first == client; };
  const auto at = std::find_if(known_.fresh_leases.begin(), known_.fresh_leases.end(), mine);
  if (at == known_.fresh_leases.end() || random_.OneIn(4)) return AnyLease(known_.own_leases);
  const LeaseRef lease = at->second;
  known_.fresh_leases.erase(at);
  return lease;
}

std::int64_t HostileHandler::AnyDuration() {
  switch (random_.Below(8)) {
    case 0:
      return 0;
    case 1:
      return -1;
    case 2:
      return INT64_MAX;
    case 3:
    case 4:
      return kMaxLeaseUs;
    default:
      return random_.Magnitude(1, 100'000'000);
  }
}

}  // namespace acan::simulation
