// Trial: random events for a space and for its model. After every event the replies, the statistics
// and the space's own invariants must agree.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "space_driver.h"
#include "space_model.h"

namespace tuplespace::testing {

class Trial {
 public:
  explicit Trial(std::uint64_t seed) : random_(seed), d_(Limits()) {
    for (const ClientId& client : kClients) JoinOne(client);
  }

  void Step() {
    const ClientId client = kClients[Below(kClients.size())];
    if (!joined_.contains(client) && Below(4) != 0) return JoinOne(client);
    switch (Below(18)) {
      case 0:
      case 1:
      case 2:
        return PutSome(client);
      case 3:
      case 4:
      case 5:
        return GetSome(client);
      case 6:
      case 7:
      case 8:
        return CompleteOne(client);
      case 9:
        return EndOne(client);
      case 10:
        return Below(4) == 0 ? LoseOne(client) : ReadSome(client);
      case 11:
        return RetireSome(client);
      case 12:
        return HoldSome(client);
      case 13:
        return Pass(static_cast<std::int64_t>(Below(3000)));
      case 14:
        return ListAll(client);
      case 15:
      case 16:
        return SupplySome(client);
      default:
        return CancelOne(client);
    }
  }

  // With enough time every reservation ends: then no Get may wait beside a tuple that it could
  // take.
  void CheckNobodyStarves() {
    Pass(60 * Limits().steal_after_us);
    for (const auto& [who, get] : open_gets_) {
      for (const auto& [key, tuple] : model_.tuples) {
        const std::uint64_t need_bytes = tuple.task ? tuple.task->need_bytes : 0;
        EXPECT_FALSE(model_.IsReady(tuple) && !MayBeReserved(tuple) && get.pattern.Matches(key) &&
                     need_bytes <= get.offer_bytes && !Model::IsKeptFrom(tuple, who.first))
            << key.ToString() << " is there, and " << who.first << " waits for it";
      }
    }
  }

  // When everybody has supplied what he was asked for, nobody waits for what is there.
  void CheckWhoAsksGetsTheBytes() {
    while (!wanted_.empty()) {
      const auto [key, client] = *wanted_.begin();
      Supplies(client, key);
    }
    for (const auto& [who, read] : open_reads_) {
      const auto matches = [&](const Pattern& pattern) {
        return std::any_of(model_.tuples.begin(), model_.tuples.end(),
                           [&](const auto& item) { return pattern.Matches(item.first); });
      };
      const auto& patterns = read.patterns;
      const bool there = read.all ? std::all_of(patterns.begin(), patterns.end(), matches)
                                  : std::any_of(patterns.begin(), patterns.end(), matches);
      EXPECT_FALSE(there) << who.first << " waits for what is there";
    }
  }

  // And one that comes then and asks for all gets all, whoever it was kept for.
  void CheckALateComerGetsAll() {
    JoinOne("late");
    while (!open_gets_.empty()) {
      const auto [client, id] = open_gets_.begin()->first;
      Ask<Ok>(client, Cancel{id});
    }
    Get get;
    get.pattern = Pattern{{}, true};
    get.max_count = 1000;
    get.wait_us = 0;
    const RequestId id = Send("late", get);
    open_gets_[{"late", id}] = get;
    Absorb();
    for (const auto& [key, tuple] : model_.tuples) {
      EXPECT_FALSE(model_.IsReady(tuple) && !MayBeReserved(tuple))
          << key.ToString() << " was not given";
    }
  }
  // A lease ran out just now, and a holder of what the task needs still goes first.
  bool MayBeReserved(const ModelTuple& tuple) const {
    return d_.now_us < tuple.lease_end_us + Limits().steal_after_us;
  }

  Counters counters() const { return d_.counters(); }
  std::uint64_t late() const { return late_; }  // tasks done under a lease that was lost
  std::uint64_t false_completions() const { return false_completions_; }
  std::uint64_t grants_kept_from_some() const { return grants_kept_from_some_; }
  std::uint64_t supplied() const { return supplied_; }
  std::uint64_t released() const { return released_; }
  std::uint64_t told() const { return told_; }  // of lost results

 private:
  static SpaceLimits Limits() {
    SpaceLimits limits;
    limits.get_patterns = 3;
    limits.default_lease_us = 5000;
    limits.steal_after_us = 200;
    limits.supply_us = 1'000'000'000'000;  // nobody is given up
    limits.lease_extensions = 1'000'000;   // nor is a lease: space_trust_test.cpp has that
    limits.first_bench_us = 20;
    limits.most_bench_us = 100;
    return limits;
  }

  std::uint64_t Below(std::uint64_t bound) { return random_() % bound; }
  Key AnyKey() {
    static const std::vector<std::string> kKinds = {"t", "x", "y"};
    return Key{kKinds[Below(3)], base_ + static_cast<std::int64_t>(Below(8))};
  }
  Pattern AnyPattern() {
    switch (Below(5)) {
      case 0:
        return Pattern::Of(AnyKey());
      case 1:
        return {{}, true};
      case 2:
        return {{FieldPattern::Any(), FieldPattern::AtLeast(base_ + 3)}, false};
      default:
        return Every(Below(2) == 0 ? "t" : "x");
    }
  }
  Tuple AnyTuple() {
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
        tuple.task->not_by.push_back(i == 3 ? "k/" : one);  // or a key with all its clients
      }
    }
    return tuple;
  }

  static Tuple Resident(Key key) {
    Tuple tuple = Plain(std::move(key));
    tuple.resident_bytes = kResidentBytes;
    return tuple;
  }

  void JoinOne(const ClientId& client) {
    d_.Join(client);
    joined_.insert(client);
    Absorb();
  }
  void LoseOne(const ClientId& client) {
    if (!joined_.erase(client)) return;
    std::erase_if(open_gets_, [&](const auto& item) { return item.first.first == client; });
    std::erase_if(open_reads_, [&](const auto& item) { return item.first.first == client; });
    model_.Lose(client);
    std::erase_if(wanted_, [&](const auto& item) { return item.second == client; });
    d_.Lose(client);
    Absorb();
  }
  RequestId Send(const ClientId& client, RequestBody body) {
    const RequestId id = d_.Send(client, std::move(body));
    return id;
  }
  template <typename T>
  T Ask(const ClientId& client, RequestBody body) {
    return AskThen<T>(client, std::move(body), [] {});
  }
  // The model follows after the space has taken the request.
  template <typename T, typename Follow>
  T AskThen(const ClientId& client, RequestBody body, Follow follow) {
    parked_ = d_.counters().parked;
    const RequestId id = Send(client, std::move(body));
    follow();
    T reply = d_.Expect<T>(client, id);
    Absorb();
    return reply;
  }

  void PutSome(const ClientId& client) {
    if (!joined_.contains(client)) return;
    Put put;
    std::vector<PutStatus> expected;
    for (std::uint64_t i = 1 + Below(4); i > 0; --i) put.tuples.push_back(AnyTuple());
    for (const Tuple& tuple : put.tuples) expected.push_back(model_.PutOne(client, tuple));
    EXPECT_EQ(Ask<PutReply>(client, put).status, expected);
  }
  void GetSome(const ClientId& client) {
    if (!joined_.contains(client)) return;
    Get get;
    get.pattern = AnyPattern();
    get.offer_bytes = Below(4) == 0 ? UINT64_MAX : Below(80);
    get.max_count = 1 + static_cast<std::uint32_t>(Below(3));
    get.wait_us = Below(3) == 0 ? 0 : Below(2) == 0 ? kForeverUs : 1000;
    get.with_inputs = Below(2) == 0;
    const RequestId id = Send(client, get);
    open_gets_[{client, id}] = get;
    Absorb();
  }
  void CompleteOne(const ClientId& client) {
    if (!joined_.contains(client) || leases_.empty()) return;
    // Any lease that ever was, mostly a late one of this client.
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
      ++false_completions_;
      const auto follow = [&] {
        if (tuple != nullptr) FailInModel(client, *tuple);
      };
      EXPECT_EQ(AskThen<RequestError>(client, complete, follow).code, ErrorCode::kBadRequest);
      return;
    }
    if (completes) {
      late_ += tuple == nullptr ? 1 : 0;
      model_.CompleteTask(client, lease);
    }
    for (const Tuple& result : complete.results) {
      if (!completes) {
        expected.results.push_back(model_.CompareLate(client, lease, result));
      } else if (!declared && result.resident_bytes > 0) {
        expected.results.push_back(PutStatus::kRefused);
      } else {
        expected.results.push_back(model_.PutOne(client, result));
      }
    }
    const auto reply = Ask<CompleteReply>(client, complete);
    EXPECT_EQ(reply.lease, expected.lease);
    EXPECT_EQ(reply.results, expected.results);
  }
  // Mostly what was declared.
  std::vector<Tuple> ResultsFor(const LeaseRef& lease) {
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
    }
    return results;
  }
  // After the space has heard of it: whether others are there that could take the task, only the
  // space knows.
  void FailInModel(const ClientId& client, ModelTuple& tuple) {
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
    EXPECT_TRUE(parked || !by_enough || tuple.failures.size() > 4);  // of four it keeps count
    tuple.parked = parked;
  }
  void EndOne(const ClientId& client) {
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
  void RetireSome(const ClientId& client) {
    if (!joined_.contains(client)) return;
    Retire retire;
    retire.watermark = Below(2) == 0;
    if (retire.watermark) {
      // Keys move on as steps do, or all would soon be retired.
      base_ += static_cast<std::int64_t>(Below(2));
      retire.pattern =
          UpTo(Below(2) == 0 ? "t" : "x", base_ - 1 + static_cast<std::int64_t>(Below(2)));
    } else {
      retire.pattern = Pattern::Of(AnyKey());
    }
    const std::size_t expected = model_.RetireAll(retire);
    EXPECT_EQ(Ask<RetireReply>(client, retire).removed, expected);
  }
  void SupplySome(const ClientId& client) {
    if (!joined_.contains(client)) return;
    // What it was asked for, or anything.
    const auto asked = std::find_if(wanted_.begin(), wanted_.end(),
                                    [&](const auto& item) { return item.second == client; });
    Supplies(client, asked != wanted_.end() && Below(3) != 0 ? Key(asked->first) : AnyKey());
  }
  void Supplies(const ClientId& client, const Key& key) {
    Supply supply{{Plain(key, Below(12) == 0 ? "rest" : "same")}};
    const PutStatus expected = model_.SupplyOne(client, supply.tuples[0]);
    supplied_ += expected == PutStatus::kStored ? 1 : 0;
    if (expected == PutStatus::kStored) wanted_.erase(key);
    EXPECT_EQ(Ask<PutReply>(client, supply).status, std::vector{expected});
  }
  void HoldSome(const ClientId& client) {
    if (!joined_.contains(client)) return;
    Ask<Ok>(client, Hold{{AnyKey(), AnyKey()}, {AnyKey()}});
  }
  void ReadSome(const ClientId& client) {
    if (!joined_.contains(client)) return;
    Read read;
    for (std::uint64_t i = 1 + Below(3); i > 0; --i) read.patterns.push_back(AnyPattern());
    read.all = Below(2) == 0;
    read.metadata_only = Below(3) == 0;
    read.wait_us = Below(2) == 0 ? kForeverUs : static_cast<std::int64_t>(Below(2) * 1000);
    const RequestId id = Send(client, read);
    open_reads_[{client, id}] = read;
    Absorb();
  }
  void CancelOne(const ClientId& client) {
    if (!joined_.contains(client)) return;
    const auto at = open_gets_.lower_bound({client, 0});
    if (at != open_gets_.end() && at->first.first == client) {
      Ask<Ok>(client, Cancel{at->first.second});
    }
  }
  void Pass(std::int64_t duration_us) {
    // Never past a deadline: leases end one after the other, as they do for a broker.
    const std::int64_t end_us = d_.now_us + duration_us;
    while (d_.space.NextDeadlineUs() <= end_us) {
      const std::int64_t next_us = std::max(d_.now_us, d_.space.NextDeadlineUs());
      model_.Expire(next_us);
      d_.Advance(next_us - d_.now_us);
      Absorb();
      ASSERT_GT(d_.space.NextDeadlineUs(), d_.now_us);
    }
    d_.Advance(end_us - d_.now_us);
    Absorb();
  }
  void ListAll(const ClientId& client) {
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

  // Takes in what came unasked: grants and reads that waited; then all must agree.
  void Absorb() {
    for (auto& [client, notices] : d_.notices) {
      for (const Notice& notice : std::exchange(notices, {})) AbsorbNotice(client, notice);
    }
    for (auto& [client, replies] : d_.replies) {
      for (Reply& reply : replies) {
        if (auto* grants = std::get_if<Grants>(&reply.body)) {
          for (const Grant& grant : grants->grants)
            new_grants_.push_back({client, reply.id, grant});
          closed_gets_.push_back({client, reply.id});
        } else if (auto* found = std::get_if<Found>(&reply.body)) {
          AbsorbRead(client, reply.id, *found);
        } else if (auto* error = std::get_if<RequestError>(&reply.body)) {
          EXPECT_EQ(error->code, ErrorCode::kBusy) << error->text;
          EXPECT_NE(error->text.find("get_patterns"), std::string::npos) << error->text;
          closed_gets_.push_back({client, reply.id});
        } else {
          ADD_FAILURE() << "an unexpected reply to " << reply.id;
        }
      }
      replies.clear();
    }
    std::sort(new_grants_.begin(), new_grants_.end(),
              [](const auto& a, const auto& b) { return a.grant.fence < b.grant.fence; });
    for (const NewGrant& given : std::exchange(new_grants_, {})) AbsorbGrant(given);
    for (const auto& who : std::exchange(closed_gets_, {})) open_gets_.erase(who);
    CompareStatistics();
  }
  void AbsorbNotice(const ClientId& client, const Notice& notice) {
    const auto at = model_.tuples.find(notice.key);
    if (notice.kind == Notice::Kind::kWanted) {
      ASSERT_NE(at, model_.tuples.end());
      EXPECT_EQ(at->second.resident_with, client);
      EXPECT_TRUE(wanted_.emplace(notice.key, client).second) << "asked for twice";
    } else if (notice.kind == Notice::Kind::kReleased) {
      EXPECT_TRUE(at == model_.tuples.end() || at->second.resident_with != client);
      wanted_.erase(notice.key);
      ++released_;
    } else if (notice.kind == Notice::Kind::kLost) {
      EXPECT_EQ(at, model_.tuples.end());
      ++told_;
    }
  }
  void AbsorbRead(const ClientId& client, RequestId id, const Found& found) {
    const auto at = open_reads_.find({client, id});
    ASSERT_NE(at, open_reads_.end());
    std::vector<Key> expected;
    for (const Pattern& pattern : at->second.patterns) {
      for (const auto& [key, tuple] : model_.tuples) {
        const bool readable = at->second.metadata_only || Model::IsReadable(tuple, client);
        if (!pattern.Matches(key) || !readable) continue;
        expected.push_back(key);
        break;
      }
    }
    std::vector<Key> keys;
    for (const FoundTuple& tuple : found.tuples) {
      keys.push_back(tuple.key);
      const auto known = model_.tuples.find(tuple.key);
      ASSERT_NE(known, model_.tuples.end());
      EXPECT_EQ(tuple.resident, !known->second.resident_with.empty());
      EXPECT_EQ(tuple.payload_bytes, tuple.resident ? kResidentBytes : known->second.bytes.size());
      if (!at->second.metadata_only) {
        EXPECT_EQ(tuple.payload.text(), known->second.bytes);
      }
    }
    EXPECT_EQ(keys, expected);
    const std::size_t enough = at->second.all ? at->second.patterns.size() : 1;
    EXPECT_EQ(found.timed_out, expected.size() < enough);
    open_reads_.erase(at);
  }
  struct NewGrant {
    ClientId client;
    RequestId id;
    Grant grant;
  };
  void AbsorbGrant(const NewGrant& given) {
    const Grant& grant = given.grant;
    EXPECT_GT(grant.fence, last_fence_);
    last_fence_ = grant.fence;
    const auto open = open_gets_.find({given.client, given.id});
    ASSERT_NE(open, open_gets_.end());
    const auto at = model_.tuples.find(grant.key);
    ASSERT_NE(at, model_.tuples.end()) << grant.key.ToString();
    ModelTuple& tuple = at->second;
    EXPECT_TRUE(model_.IsReady(tuple)) << grant.key.ToString();
    EXPECT_TRUE(open->second.pattern.Matches(grant.key));
    EXPECT_FALSE(Model::IsKeptFrom(tuple, given.client)) << grant.key.ToString();
    EXPECT_TRUE(!grant.task || grant.task->not_by.empty());
    if (tuple.task && !tuple.task->not_by.empty()) ++grants_kept_from_some_;
    EXPECT_EQ(grant.payload.text(), tuple.bytes);
    const std::uint64_t need_bytes = tuple.task ? tuple.task->need_bytes : 0;
    ASSERT_LE(need_bytes, open->second.offer_bytes);
    open->second.offer_bytes -= need_bytes;
    ASSERT_GE(open->second.max_count--, 1u);
    if (open->second.with_inputs && tuple.task) {
      ASSERT_EQ(grant.inputs.size(), tuple.task->inputs.size());
      for (std::size_t i = 0; i < grant.inputs.size(); ++i) {
        EXPECT_EQ(grant.inputs[i].key, tuple.task->inputs[i]);
        if (grant.input_sent[i]) {
          EXPECT_EQ(grant.inputs[i].payload.text(), model_.tuples.at(grant.inputs[i].key).bytes);
          EXPECT_FALSE(grant.inputs[i].resident);
        }
      }
    }
    tuple.leased_by = given.client;
    tuple.fence = grant.fence;
    tuple.lease_end_us = d_.now_us + grant.lease_us;
    leases_.push_back({given.client, {grant.key, grant.fence}});
  }
  void CompareStatistics() {
    Stats expected;
    for (const auto& [key, tuple] : model_.tuples) {
      expected.payload_bytes += tuple.bytes.size();
      if (!tuple.task) continue;
      if (tuple.parked) {
        ++expected.tasks_parked;
      } else if (!tuple.leased_by.empty()) {
        ++expected.tasks_leased;
      } else if (model_.Waits(tuple)) {
        ++expected.tasks_waiting;
      } else {
        ++expected.tasks_ready;
      }
    }
    const Stats stats = d_.space.GetStatistics();
    EXPECT_EQ(stats.tuples, model_.tuples.size());
    EXPECT_EQ(stats.payload_bytes, expected.payload_bytes);
    EXPECT_EQ(stats.tasks_parked, expected.tasks_parked);
    EXPECT_EQ(stats.tasks_leased, expected.tasks_leased);
    EXPECT_EQ(stats.tasks_waiting, expected.tasks_waiting);
    EXPECT_EQ(stats.tasks_ready, expected.tasks_ready);
    EXPECT_EQ(stats.clients, joined_.size());
    EXPECT_EQ(stats.open_gets, open_gets_.size());
    EXPECT_EQ(stats.open_reads, open_reads_.size());
  }

  static constexpr std::uint64_t kResidentBytes = 4;
  inline static const std::vector<ClientId> kClients = {"a", "k/b", "k/c", "m"};

  std::mt19937_64 random_;
  SpaceDriver d_;
  Model model_;
  std::set<ClientId> joined_;
  std::int64_t base_ = 0;
  std::map<std::pair<ClientId, RequestId>, Get> open_gets_;
  std::map<std::pair<ClientId, RequestId>, Read> open_reads_;
  std::vector<std::pair<ClientId, LeaseRef>> leases_;
  std::uint64_t last_fence_ = 0;
  std::uint64_t late_ = 0;
  std::uint64_t false_completions_ = 0;
  std::uint64_t parked_ = 0;  // before the request at work
  std::uint64_t grants_kept_from_some_ = 0;
  std::uint64_t supplied_ = 0, released_ = 0, told_ = 0;
  std::map<Key, ClientId> wanted_;  // and not supplied or gone
  std::vector<NewGrant> new_grants_;
  std::vector<std::pair<ClientId, RequestId>> closed_gets_;
};

}  // namespace tuplespace::testing
