// The requests of a Trial, and their effects on the model.
#include "space_trial.h"

namespace tuplespace::testing {

Key Trial::AnyKey() {
  constexpr std::int64_t kLongOf = 8;
  constexpr std::int64_t kLong = 3;
  constexpr std::size_t kFieldsOfLong = 7;
  static const std::vector<std::string> kKinds = {"t", "x", "y"};
  std::vector<Field> fields = {kKinds[Below(3)]};
  const std::int64_t number = base_ + static_cast<std::int64_t>(Below(8));
  fields.emplace_back(number);
  if (number % kLongOf == kLong) {
    fields.resize(kFieldsOfLong, Field(std::string(kMaxStringFieldBytes, 'x')));
  }
  return Key(fields);
}

// Those that are not whole keys are open, so that long keys match, too.
Pattern Trial::AnyPattern() {
  switch (Below(5)) {
    case 0:
      return Pattern::Of(AnyKey());
    case 1:
      return {{}, true};
    case 2:
      return {{FieldPattern::Any(), FieldPattern::AtLeast(base_ + 3)}, true};
    default:
      return {{FieldPattern::Exact(Below(2) == 0 ? "t" : "x"), FieldPattern::Any()}, true};
  }
}

Tuple Trial::AnyTuple() {
  Key key = AnyKey();
  Tuple tuple = Plain(key, Below(12) == 0 ? "other" : "same");
  tuple.ephemeral = Below(10) == 0;
  tuple.held = Below(4) == 0;
  if (Below(8) == 0) return Resident(std::move(key));
  if (Below(2) == 0) return tuple;
  tuple.task = TaskSpec{};
  for (std::uint64_t i = Below(3); i > 0; --i) {
    Key input = AnyKey();
    if (input != key) tuple.task->inputs.push_back(std::move(input));
  }
  std::set<Key> results;
  for (std::uint64_t i = Below(3); i > 0; --i) results.insert(AnyKey());
  tuple.task->results.assign(results.begin(), results.end());
  tuple.task->need_bytes = Below(5) * 10;
  tuple.task->priority = static_cast<std::int64_t>(Below(3));
  tuple.task->lease_us = static_cast<std::int64_t>(Below(3) * 1000);
  if (!tuple.task->inputs.empty()) tuple.task->affinity = static_cast<int>(Below(2)) - 1;
  if (Below(3) == 0) {
    for (std::uint64_t i = 1 + Below(3); i > 0; --i) {
      const ClientId& one = kClients[Below(kClients.size())];
      tuple.task->not_by.push_back(i == 3 ? "k/" : one);  // or all clients of a key
    }
  }
  if (Below(3) == 0) {
    tuple.task->prefers = kClients[Below(kClients.size())];
    tuple.task->prefer_us = static_cast<std::int64_t>(Below(3) * 250);
  }
  return tuple;
}

Tuple Trial::Resident(Key key) {
  Tuple tuple = Plain(std::move(key));
  tuple.resident_bytes = kResidentBytes;
  return tuple;
}

// Sometimes one of the most recent leases of any client.
std::optional<LeaseRef> Trial::SometimesALease() {
  if (leases_.empty() || Below(4) != 0) return std::nullopt;
  return leases_[leases_.size() - 1 - Below(std::min<std::size_t>(leases_.size(), 6))].second;
}

void Trial::PutSome(const ClientId& client) {
  if (!joined_.contains(client)) return;
  Put put;
  std::vector<PutStatus> expected;
  for (std::uint64_t i = 1 + Below(4); i > 0; --i) put.tuples.push_back(AnyTuple());
  put.under = SometimesALease();
  const bool counts = !put.under || model_.Leased(client, *put.under) != nullptr;
  for (const Tuple& tuple : put.tuples) {
    expected.push_back(counts ? model_.PutOne(client, tuple) : PutStatus::kRefused);
  }
  EXPECT_EQ(Ask<PutReply>(client, put).status, expected);
}

void Trial::GetSome(const ClientId& client) {
  if (!joined_.contains(client)) return;
  Get get;
  get.pattern = AnyPattern();
  get.offer_bytes = Below(4) == 0 ? UINT64_MAX : Below(80);
  get.max_count = 1 + static_cast<std::uint32_t>(Below(3));
  get.wait_us = Below(3) == 0 ? 0 : Below(2) == 0 ? kForeverUs : 1000;
  get.with_inputs = Below(2) == 0;
  constexpr std::uint32_t kNsPerKib = 200'000'000;  // 0.2 ms for each byte
  get.ns_per_kib = Below(3) == 0 ? kNsPerKib : 0;
  get.holds_from_bytes = 1;
  get.direct = Below(2) == 0;
  const RequestId id = Send(client, get);
  open_gets_[{client, id}] = get;
  Absorb();
}

void Trial::CompleteOne(const ClientId& client) {
  if (!joined_.contains(client) || leases_.empty()) return;
  // One of the most recent leases, mostly an old one of this client.
  const auto& [owner, lease] =
      leases_[leases_.size() - 1 - Below(std::min<std::size_t>(leases_.size(), 6))];
  if (owner != client && Below(4) != 0) return;
  const Complete complete{lease, ResultsFor(lease)};
  ModelTuple* tuple = model_.Leased(client, lease);
  CompleteReply expected;
  expected.lease = tuple != nullptr ? LeaseStatus::kOk : LeaseStatus::kStale;
  const bool completes = tuple != nullptr || model_.MayCompleteLate(client, lease);
  const auto declared =
      completes ? Model::IsWhatWasDeclared(model_.tuples.at(lease.key), complete.results)
                : std::nullopt;
  if (declared == false) {
    ++counts_.false_completions;
    const auto follow = [&] {
      if (tuple != nullptr) FailInModel(client, *tuple);
    };
    EXPECT_EQ(AskThen<RequestError>(client, complete, follow).code, ErrorCode::kBadRequest);
    return;
  }
  if (completes) {
    counts_.late += tuple == nullptr ? 1 : 0;
    model_.CompleteTask(client, lease);
  }
  const bool compares = !completes && model_.Compares(client, complete);
  for (const Tuple& result : complete.results) {
    if (!completes) {
      expected.results.push_back(model_.CompareLate(client, compares, result));
    } else if (!declared && result.resident_bytes > 0) {
      expected.results.push_back(PutStatus::kRefused);
    } else {
      Tuple stored = result;
      if (declared) stored.ephemeral = false;  // it is the task's
      expected.results.push_back(model_.PutOne(client, stored));
    }
  }
  const auto reply = Ask<CompleteReply>(client, complete);
  EXPECT_EQ(reply.lease, expected.lease);
  EXPECT_EQ(reply.results, expected.results);
}

std::vector<Tuple> Trial::ResultsFor(const LeaseRef& lease) {
  const auto task = model_.tuples.find(lease.key);
  const auto done = model_.completed.find(lease.key);
  std::vector<Key> keys;
  if (task != model_.tuples.end() && task->second.task) keys = task->second.task->results;
  if (done != model_.completed.end()) keys = done->second.results;
  if (keys.empty() || Below(6) == 0) keys = {AnyKey()};
  if (Below(6) == 0) keys.pop_back();
  std::vector<Tuple> results;
  for (const Key& key : keys) {
    results.push_back(Below(3) == 0 ? Resident(key)
                                    : Plain(key, Below(12) == 0 ? "other" : "same"));
    results.back().ephemeral = results.size() == 2 && results.back().resident_bytes == 0;
  }
  return results;
}

void Trial::FailInModel(const ClientId& client, ModelTuple& tuple) {
  model_.EndLease(tuple);
  if (!tuple.task) return;
  ++tuple.failures[client];
  const bool parked = std::exchange(parked_, d_.counters().parked) != d_.counters().parked;
  if (tuple.parked) return;  // its inputs are gone
  int failures = 0;
  int most_of_one = 0;
  for (const auto& [by, times] : tuple.failures) {
    failures += times;
    most_of_one = std::max(most_of_one, times);
  }
  EXPECT_TRUE(!parked || failures >= 3);
  const bool by_enough = failures - most_of_one >= 3;
  EXPECT_TRUE(parked || !by_enough || tuple.failures.size() > 4);  // it counts only four clients
  tuple.parked = parked;
}

void Trial::EndOne(const ClientId& client) {
  if (!joined_.contains(client) || leases_.empty()) return;
  const auto& [owner, lease] =
      leases_[leases_.size() - 1 - Below(std::min<std::size_t>(leases_.size(), 6))];
  if (owner != client && Below(4) != 0) return;
  ModelTuple* tuple = model_.Leased(client, lease);
  const LeaseStatus expected = tuple != nullptr ? LeaseStatus::kOk : LeaseStatus::kStale;
  RequestBody body = Release{lease};
  const std::uint64_t how = Below(3);
  if (how == 0) {
    body = Extend{lease, 7000};
  } else if (how == 1) {
    body = Fail{lease, "no"};
  }
  const auto follow = [&] {
    if (tuple == nullptr) return;
    if (how == 0) {
      tuple->lease_end_us = d_.now_us + 7000;
    } else if (how == 1) {
      FailInModel(client, *tuple);
    } else {
      model_.EndLease(*tuple);
    }
  };
  EXPECT_EQ(AskThen<LeaseReply>(client, body, follow).lease, expected);
}

void Trial::RetireSome(const ClientId& client) {
  if (!joined_.contains(client)) return;
  Retire retire;
  retire.watermark = Below(2) == 0;
  if (retire.watermark) {
    // Keys advance as steps do; otherwise all would soon be retired.
    base_ += static_cast<std::int64_t>(Below(2));
    retire.pattern =
        UpTo(Below(2) == 0 ? "t" : "x", base_ - 1 + static_cast<std::int64_t>(Below(2)));
    retire.pattern.open = true;
  } else {
    retire.pattern = Pattern::Of(AnyKey());
  }
  retire.under = SometimesALease();
  const bool counts = !retire.under || model_.Leased(client, *retire.under) != nullptr;
  const std::size_t expected = counts ? model_.RetireAll(retire) : 0;
  const RetireReply reply = Ask<RetireReply>(client, retire);
  EXPECT_EQ(reply.removed, expected);
  EXPECT_EQ(reply.lease, counts ? LeaseStatus::kOk : LeaseStatus::kStale);
}

void Trial::SupplySome(const ClientId& client) {
  if (!joined_.contains(client)) return;
  // A wanted payload, or any other.
  const auto asked = std::find_if(wanted_.begin(), wanted_.end(),
                                  [&](const auto& item) { return item.second == client; });
  Supplies(client, asked != wanted_.end() && Below(3) != 0 ? Key(asked->first) : AnyKey());
}

void Trial::Supplies(const ClientId& client, const Key& key) {
  Supply supply{{Plain(key, Below(12) == 0 ? "rest" : "same")}};
  supply.tuples[0].held = Below(2) == 0;
  const PutStatus expected = model_.SupplyOne(client, supply.tuples[0]);
  counts_.supplied += expected == PutStatus::kStored ? 1 : 0;
  if (expected == PutStatus::kStored) wanted_.erase(key);
  EXPECT_EQ(Ask<PutReply>(client, supply).status, std::vector{expected});
}

void Trial::ReadSome(const ClientId& client) {
  if (!joined_.contains(client)) return;
  Read read;
  for (std::uint64_t i = 1 + Below(3); i > 0; --i) read.patterns.push_back(AnyPattern());
  read.all = Below(2) == 0;
  read.metadata_only = Below(3) == 0;
  read.in_space = read.metadata_only && Below(2) == 0;
  read.direct = Below(2) == 0;
  read.wait_us = Below(2) == 0 ? kForeverUs : static_cast<std::int64_t>(Below(2) * 1000);
  const RequestId id = Send(client, read);
  open_reads_[{client, id}] = read;
  Absorb();
}

void Trial::CancelOne(const ClientId& client) {
  if (!joined_.contains(client)) return;
  const auto at = open_gets_.lower_bound({client, 0});
  if (at != open_gets_.end() && at->first.first == client) {
    Ask<Ok>(client, Cancel{at->first.second});
  }
}

void Trial::ListAll(const ClientId& client) {
  if (!joined_.contains(client)) return;
  const Pattern pattern = AnyPattern();
  const Found found = Ask<Found>(client, List{pattern});
  std::map<Key, std::string> listed;
  std::map<Key, std::string> expected;
  for (const FoundTuple& tuple : found.tuples) listed[tuple.key] = tuple.payload.text();
  for (const auto& [key, tuple] : model_.tuples) {
    if (pattern.Matches(key)) expected[key] = tuple.bytes;
  }
  EXPECT_EQ(listed.size(), found.tuples.size());
  EXPECT_TRUE(listed == expected) << pattern.ToString();
}

}  // namespace tuplespace::testing
