// Compares what reaches the clients of a Trial with the model.
#include "space_trial.h"

namespace tuplespace::testing {

void Trial::Absorb() {
  for (auto& [client, notices] : d_.notices) {
    for (const Notice& notice : std::exchange(notices, {})) AbsorbNotice(client, notice);
  }
  for (auto& [client, replies] : d_.replies) {
    for (Reply& reply : replies) {
      if (auto* grants = std::get_if<Grants>(&reply.body)) {
        for (const Grant& grant : grants->grants) new_grants_.push_back({client, reply.id, grant});
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

void Trial::AbsorbNotice(const ClientId& client, const Notice& notice) {
  const auto at = model_.tuples.find(notice.key);
  if (notice.kind == Notice::Kind::kWanted) {
    ASSERT_NE(at, model_.tuples.end());
    EXPECT_EQ(at->second.resident_with, client);
    EXPECT_TRUE(wanted_.emplace(notice.key, client).second) << "asked for twice";
  } else if (notice.kind == Notice::Kind::kReleased) {
    EXPECT_TRUE(at == model_.tuples.end() || at->second.resident_with != client);
    wanted_.erase(notice.key);
    ++counts_.released;
  } else if (notice.kind == Notice::Kind::kLost) {
    EXPECT_EQ(at, model_.tuples.end());
    ++counts_.told;
  }
}

void Trial::AbsorbRead(const ClientId& client, RequestId id, const Found& found) {
  const auto at = open_reads_.find({client, id});
  ASSERT_NE(at, open_reads_.end());
  std::vector<Key> expected;
  for (const Pattern& pattern : at->second.patterns) {
    for (const auto& [key, tuple] : model_.tuples) {
      const bool readable = at->second.metadata_only
                                ? !at->second.in_space || tuple.resident_with.empty()
                                : Model::IsReadable(tuple, client) ||
                                      (at->second.direct && IsPlaced(tuple, client).value());
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
    const bool resident = !known->second.resident_with.empty();
    EXPECT_EQ(tuple.payload_bytes, resident ? kResidentBytes : known->second.bytes.size());
    if (tuple.place) {
      EXPECT_TRUE(at->second.direct && !at->second.metadata_only);
      AbsorbPlaced(client, tuple, known->second);
      continue;
    }
    EXPECT_EQ(tuple.resident, resident);
    if (at->second.metadata_only) continue;
    EXPECT_EQ(tuple.payload.text(), known->second.bytes);
    EXPECT_FALSE(at->second.direct && IsPlaced(known->second, client).value_or(false));
  }
  EXPECT_EQ(keys, expected);
  const std::size_t enough = at->second.all ? at->second.patterns.size() : 1;
  EXPECT_EQ(found.timed_out, expected.size() < enough);
  open_reads_.erase(at);
}

void Trial::AbsorbPlaced(const ClientId& client, const FoundTuple& found, const ModelTuple& tuple) {
  EXPECT_TRUE(IsPlaced(tuple, client).value_or(true)) << found.key.ToString();
  EXPECT_TRUE(found.resident && found.payload.empty());
  EXPECT_EQ(found.put_by, tuple.put_by);
  if (tuple.resident_with.empty()) ++counts_.placed_twice;
}

void Trial::AbsorbGrant(const NewGrant& given) {
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
  EXPECT_TRUE(!grant.task || (grant.task->not_by.empty() && grant.task->prefers.empty()));
  if (tuple.task && !tuple.task->not_by.empty()) ++counts_.grants_kept_from_some;
  EXPECT_EQ(grant.payload.text(), tuple.bytes);
  const std::uint64_t need_bytes = tuple.task ? tuple.task->need_bytes : 0;
  ASSERT_LE(need_bytes, open->second.offer_bytes);
  open->second.offer_bytes -= need_bytes;
  ASSERT_GE(open->second.max_count--, 1u);
  if (open->second.with_inputs && tuple.task) {
    ASSERT_EQ(grant.inputs.size(), tuple.task->inputs.size());
    for (std::size_t i = 0; i < grant.inputs.size(); ++i) {
      const FoundTuple& input = grant.inputs[i];
      EXPECT_EQ(input.key, tuple.task->inputs[i]);
      if (!input.place && !grant.input_sent[i]) continue;
      ModelTuple& known = model_.tuples.at(input.key);
      if (input.place) {
        EXPECT_TRUE(open->second.direct && !grant.input_sent[i]);
        AbsorbPlaced(given.client, input, known);
      }
      if (!grant.input_sent[i]) continue;
      EXPECT_EQ(input.payload.text(), known.bytes);
      EXPECT_FALSE(input.resident);
      EXPECT_FALSE(open->second.direct && IsPlaced(known, given.client).value_or(false));
      // The space may now count it as held (Get::ns_per_kib).
      if (known.put_by == given.client) known.maker_holds = std::nullopt;
    }
  }
  tuple.leased_by = given.client;
  tuple.fence = grant.fence;
  tuple.lease_end_us = d_.now_us + grant.lease_us;
  leases_.push_back({given.client, {grant.key, grant.fence}});
}

void Trial::CompareStatistics() {
  Stats expected;
  for (const auto& [key, tuple] : model_.tuples) {
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
  EXPECT_EQ(stats.payload_bytes, model_.PayloadBytes());
  EXPECT_EQ(stats.tasks_parked, expected.tasks_parked);
  EXPECT_EQ(stats.tasks_leased, expected.tasks_leased);
  EXPECT_EQ(stats.tasks_waiting, expected.tasks_waiting);
  EXPECT_EQ(stats.tasks_ready, expected.tasks_ready);
  EXPECT_EQ(stats.clients, joined_.size());
  EXPECT_EQ(stats.open_gets, open_gets_.size());
  EXPECT_EQ(stats.open_reads, open_reads_.size());
}

}  // namespace tuplespace::testing
