// Tuples with long keys and tasks that name many tuples: what they count as in the limits of the
// space, and how many of them one answer grants.
#include "space_key_bytes.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "space_driver.h"

namespace tuplespace {
namespace {

using internal::kUncountedKeyBytes;
using testing::Every;
using testing::GetOf;
using testing::Making;
using testing::Plain;
using testing::SpaceDriver;
using testing::Task;

Key LongKey(const std::string& kind, std::int64_t number) {
  std::vector<Field> fields = {kind, number};
  fields.resize(kMaxKeyFields, Field(std::string(kMaxStringFieldBytes, 'x')));
  return Key(fields);
}

std::vector<Key> LongKeys(const std::string& kind, std::uint32_t count) {
  std::vector<Key> keys;
  for (std::uint32_t i = 0; i < count; ++i) keys.push_back(LongKey(kind, i));
  return keys;
}

// Also those with long keys.
Pattern All(const std::string& kind) {
  return {{FieldPattern::Exact(kind)}, true};
}

class KeyBytesTest : public ::testing::Test {
 protected:
  void SetUp() override { Begin({}); }
  void Begin(SpaceLimits limits) {
    d = std::make_unique<SpaceDriver>(limits);
    for (const char* client : {"m", "a", "b"}) d->Join(client);
  }
  std::uint64_t Counted() const { return d->space.GetStatistics().payload_bytes; }
  void Remove(const std::string& kind) { d->Ask<RetireReply>("m", Retire{All(kind), false}); }
  std::size_t TakenAtOnce(std::uint32_t most) {
    return d->GetNow("a", Every("t"), UINT64_MAX, most).size();
  }

  // A client of a key, whose tuples may count as much as this one.
  void JoinWithRoomFor(const Tuple& tuple) {
    ClientLimits limits;
    limits.own_payload_bytes = internal::CountedBytes(tuple);
    limits.leaves_nothing = true;
    d->Step(ClientJoined{"k/1", "k", limits});
  }

  const std::uint64_t of_long_key = LongKey("k", 0).bytes().size() - kUncountedKeyBytes;
  std::unique_ptr<SpaceDriver> d;
};

TEST_F(KeyBytesTest, LongKeysFillTheSpace) {
  SpaceLimits limits;
  limits.payload_bytes = 2 * of_long_key;
  Begin(limits);
  EXPECT_EQ(d->PutOne("m", Plain(LongKey("k", 0))), PutStatus::kStored);
  EXPECT_EQ(d->PutOne("m", Plain(LongKey("k", 1))), PutStatus::kStored);
  EXPECT_EQ(Counted(), 2 * of_long_key);
  const RequestError full = d->Ask<RequestError>("m", Put{{Plain(LongKey("k", 2))}});
  EXPECT_EQ(full.code, ErrorCode::kBusy);
  EXPECT_NE(full.text.find("limits.payload_bytes"), std::string::npos) << full.text;
  EXPECT_EQ(d->PutOne("m", Plain(LongKey("k", 0))), PutStatus::kDuplicate);
  EXPECT_EQ(d->PutOne("m", Plain(Key{"k", 3})), PutStatus::kStored) << "it counts nothing";
  Remove("k");
  EXPECT_EQ(Counted(), 0u);
}

TEST_F(KeyBytesTest, TheNamesInTasksFillTheSpace) {
  constexpr std::uint32_t kKeys = 100;
  SpaceLimits limits;
  limits.payload_bytes = 2 * (kKeys + 10) * LongKey("k", 0).bytes().size();
  Begin(limits);
  const std::vector<Key> keys = LongKeys("r", kKeys);
  EXPECT_EQ(d->PutOne("m", Making(Task(Key{"t", 1}), keys)), PutStatus::kStored);
  EXPECT_EQ(d->Ask<RequestError>("m", Put{{Task(Key{"t", 2}, keys)}}).code, ErrorCode::kBusy)
      << "an input that is not there takes twice as much";
  Remove("t");
  EXPECT_EQ(Counted(), 0u);
  EXPECT_EQ(d->PutOne("m", Task(Key{"t", 2}, keys)), PutStatus::kStored);
  EXPECT_EQ(d->Ask<RequestError>("m", Put{{Making(Task(Key{"t", 1}), keys)}}).code,
            ErrorCode::kBusy);
  Tuple many = Task(Key{"t", 3});
  many.task->not_by.assign(limits.task_exclusions, std::string(kMaxClientIdBytes, 'x'));
  EXPECT_GT(internal::CountedKeyBytes(many.key, &*many.task), 0u);
}

TEST_F(KeyBytesTest, UsualTasksCountTheirPayloadOnly) {
  d->PutOne("m", Making(Task(Key{"t", 1}, {Key{"x", 1}, Key{"x", 2}, Key{"x", 3}}), {Key{"r", 1}}));
  EXPECT_EQ(Counted(), std::string("task").size());
}

// Others that held the task may still bring results, so these are remembered, too.
TEST_F(KeyBytesTest, ADoneTaskCountsWhatIsRemembered) {
  constexpr std::int64_t kShortLeaseUs = 1000;
  const Key key = LongKey("t", 1);
  const Key result = LongKey("r", 1);
  Tuple task = Making(Task(key), {result});
  task.task->lease_us = kShortLeaseUs;
  d->PutOne("m", std::move(task));
  d->TakeNow("a", All("t"));
  d->Advance(kShortLeaseUs);
  const LeaseRef second = d->TakeNow("b", All("t"));
  EXPECT_EQ(d->Done("b", second, {Plain(result)}).lease, LeaseStatus::kOk);
  EXPECT_GT(Counted(), 2 * of_long_key) << "the done task, its result, and the name of that";
  Remove("r");
  EXPECT_GE(Counted(), of_long_key + result.bytes().size());
  Remove("t");
  EXPECT_EQ(Counted(), 0u);
}

TEST_F(KeyBytesTest, LongKeysCountForTheirClient) {
  JoinWithRoomFor(Plain(LongKey("k", 1)));
  EXPECT_EQ(d->PutOne("k/1", Plain(LongKey("k", 1))), PutStatus::kStored);
  EXPECT_EQ(d->Ask<RequestError>("k/1", Put{{Plain(LongKey("k", 2))}}).code, ErrorCode::kBusy);
  d->Lose("k/1");
  EXPECT_EQ(Counted(), 0u);
}

TEST_F(KeyBytesTest, ADoneTaskNoLongerCountsForItsClient) {
  const Tuple task = Making(Task(LongKey("t", 1)), {Key{"r", 1}});
  JoinWithRoomFor(task);
  EXPECT_EQ(d->PutOne("k/1", task), PutStatus::kStored);
  EXPECT_EQ(Counted(), internal::CountedBytes(task));
  EXPECT_EQ(d->Ask<RequestError>("k/1", Put{{Plain(LongKey("k", 1))}}).code, ErrorCode::kBusy);
  EXPECT_EQ(d->Done("a", d->TakeNow("a", All("t")), {Plain(Key{"r", 1})}).lease, LeaseStatus::kOk);
  EXPECT_EQ(Counted(), of_long_key) << "the key of the done task";
  EXPECT_EQ(d->PutOne("k/1", Plain(LongKey("k", 1))), PutStatus::kStored);
  d->Lose("k/1");
  EXPECT_EQ(Counted(), of_long_key) << "the done task outlasts its client";
  Remove("t");
  EXPECT_EQ(Counted(), 0u);
}

TEST_F(KeyBytesTest, AnOrphanedTaskStillCountsForItsClient) {
  const Tuple task = Task(LongKey("t", 1), {LongKey("x", 1)});
  JoinWithRoomFor(task);
  d->PutOne("m", Plain(LongKey("x", 1)));
  EXPECT_EQ(d->PutOne("k/1", task), PutStatus::kStored);
  EXPECT_EQ(Counted(), of_long_key + internal::CountedBytes(task));
  Remove("x");
  EXPECT_EQ(d->space.GetStatistics().tasks_parked, 1u);
  EXPECT_EQ(Counted(), internal::CountedBytes(task));
  EXPECT_EQ(d->Ask<RequestError>("k/1", Put{{Plain(LongKey("k", 1))}}).code, ErrorCode::kBusy);
  d->Lose("k/1");
  EXPECT_EQ(Counted(), 0u);
}

// ---- answers ------------------------------------------------------------------------------------

TEST_F(KeyBytesTest, AnAnswerNamesAtMostSoManyTuples) {
  SpaceLimits limits;
  limits.granted_tuples = 10;
  Begin(limits);
  std::vector<Key> inputs;
  for (int i = 0; i < 12; ++i) {
    d->PutOne("m", Plain(Key{"x", i}));
    inputs.push_back(Key{"x", i});
  }
  for (int i = 0; i < 5; ++i) {
    d->PutOne("m", Task(Key{"t", i}, {inputs[0], inputs[1], inputs[2]}));
  }
  EXPECT_EQ(TakenAtOnce(5), 2u);
  EXPECT_EQ(TakenAtOnce(5), 2u);
  EXPECT_EQ(TakenAtOnce(5), 1u);
  for (int i = 5; i < 7; ++i) d->PutOne("m", Task(Key{"t", i}, inputs));
  EXPECT_EQ(TakenAtOnce(5), 1u) << "alone, it may name more";
  EXPECT_EQ(TakenAtOnce(5), 1u);
}

TEST_F(KeyBytesTest, AnAnswerToAWaitingGetNamesAtMostSoManyTuples) {
  SpaceLimits limits;
  limits.granted_tuples = 3;
  Begin(limits);
  Get get = GetOf(Every("t"));
  get.max_count = 5;
  const RequestId waiting = d->Send("a", get);
  std::vector<Tuple> tasks;
  for (int i = 0; i < 5; ++i) tasks.push_back(Task(Key{"t", i}));
  d->Ask<PutReply>("m", Put{tasks});
  EXPECT_EQ(d->Expect<Grants>("a", waiting).grants.size(), 3u);
  EXPECT_EQ(TakenAtOnce(5), 2u);
}

TEST_F(KeyBytesTest, AnAnswerHasAtMostSoManyBytesOfKeys) {
  const Key input = LongKey("x", 1);
  const std::vector<Key> inputs = {input};
  const Tuple one = Task(Key{"t", 1}, inputs);
  SpaceLimits limits;
  limits.granted_key_bytes = 2 * internal::CountedKeyBytes(one.key, &*one.task);
  Begin(limits);
  d->PutOne("m", Plain(input));
  for (int i = 0; i < 5; ++i) d->PutOne("m", Task(Key{"t", i}, inputs));
  EXPECT_EQ(TakenAtOnce(5), 2u);
  EXPECT_EQ(TakenAtOnce(5), 2u);
  EXPECT_EQ(TakenAtOnce(5), 1u);
}

// Each input may be a frame of its own, and a message has at most 131,072.
TEST_F(KeyBytesTest, TheLargestTasksTakeSeveralAnswers) {
  constexpr std::uint32_t kInputs = 4096;
  constexpr std::uint32_t kTasks = 40;
  std::vector<Key> inputs;
  Put data;
  for (std::uint32_t i = 0; i < kInputs; ++i) {
    data.tuples.push_back(Plain(inputs.emplace_back(Key{"x", i})));
  }
  d->Ask<PutReply>("m", std::move(data));
  Put tasks;
  for (std::uint32_t i = 0; i < kTasks; ++i) tasks.tuples.push_back(Task(Key{"t", i}, inputs));
  d->Ask<PutReply>("m", std::move(tasks));
  std::size_t taken = 0;
  while (taken < kTasks) {
    const std::size_t now = TakenAtOnce(kTasks);
    ASSERT_GT(now, 0u);
    EXPECT_LE(now * (kInputs + 1), 65'536u);
    taken += now;
  }
}

}  // namespace
}  // namespace tuplespace
