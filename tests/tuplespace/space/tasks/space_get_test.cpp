// Gets: which client gets which task, offers, and inputs that come with the task.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "space_get.h"

namespace tuplespace {
namespace {

using testing::Every;
using testing::GetOf;
using testing::GetTest;
using testing::Plain;
using testing::Task;

TEST_F(GetTest, ATakenTupleIsNobodyElses) {
  d->PutOne("m", Plain(Key{"t", 1}, "x"));
  const auto grants = d->GetNow("a", Every("t"));
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].payload.text(), "x");
  EXPECT_FALSE(grants[0].task);
  EXPECT_EQ(grants[0].lease_us, SpaceLimits{}.default_lease_us);
  EXPECT_TRUE(d->GetNow("b", Every("t")).empty());
  // A taken tuple stays in the space until it is completed, so it can be read.
  EXPECT_EQ(d->CountOf("b", Every("t")), 1u);
  EXPECT_EQ(d->Done("a", {grants[0].key, grants[0].fence}).lease, LeaseStatus::kOk);
  EXPECT_EQ(d->CountOf("b", Every("t")), 0u);
}

TEST_F(GetTest, AQueueOfPlainTuplesLeavesNothingBehind) {
  SpaceLimits limits;
  limits.tuples = 4;
  Begin(limits);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(d->PutOne("m", Plain(Key{"t", i % 7}, "x")), PutStatus::kStored);
    d->Done("a", d->TakeNow("a", Every("t")));
  }
  EXPECT_EQ(d->space.GetStatistics().tuples, 0u);
}

TEST_F(GetTest, OrderIsPriorityThenLargestNeedThenOldest) {
  std::vector<Tuple> tasks = {Task(Key{"t", 1}, {}, 10), Task(Key{"t", 2}, {}, 30),
                              Task(Key{"t", 3}, {}, 10), Task(Key{"t", 4}, {}, 50),
                              Task(Key{"t", 5}, {}, 1)};
  tasks[3].task->priority = 1;
  tasks[4].task->priority = -1;
  d->Ask<PutReply>("m", Put{tasks});
  EXPECT_EQ(NextKey("a", 5), (Key{"t", 5}));
  EXPECT_EQ(NextKey("a", 29), (Key{"t", 1}));
  EXPECT_EQ(NextKey("a", 9), Key());
  EXPECT_EQ(NextKey("a"), (Key{"t", 2}));
  EXPECT_EQ(NextKey("a"), (Key{"t", 3}));
  EXPECT_EQ(NextKey("a"), (Key{"t", 4}));
  EXPECT_EQ(NextKey("a"), Key());
}

TEST_F(GetTest, SeveralGrantsShareTheOffer) {
  for (int i = 0; i < 5; ++i) d->PutOne("m", Task(Key{"t", i}, {}, 40));
  const auto grants = d->GetNow("a", Every("t"), 100, 5);
  EXPECT_EQ(grants.size(), 2u);
  EXPECT_LT(grants[0].fence, grants[1].fence);
  EXPECT_EQ(d->GetNow("a", Every("t"), UINT64_MAX, 5).size(), 3u);
}

TEST_F(GetTest, WhoSharesLeavesTasksToOthers) {
  for (int i = 0; i < 40; ++i) d->PutOne("m", Task(Key{"t", i}));
  Get get = GetOf(Every("t"), UINT64_MAX, 0);
  get.max_count = 64;
  get.share = true;
  const auto taken = [&](const ClientId& client) {
    return d->Ask<Grants>(client, Get(get)).grants.size();
  };
  EXPECT_EQ(taken("a"), 20u) << "half of all: nobody else has asked for these";
  EXPECT_EQ(taken("b"), 5u) << "of 20 half of its half";
  EXPECT_EQ(taken("c"), 2u) << "of 15 half of its third";
  get.max_count = 1;
  EXPECT_EQ(taken("a"), 1u);
  get.max_count = 64;
  std::size_t left = 40 - 20 - 5 - 2 - 1;
  while (left > 0) {
    const std::size_t some = taken("b");
    ASSERT_GE(some, 1u) << "the last ones, too";
    left -= some;
  }
  EXPECT_EQ(taken("b"), 0u);
  get.share = false;
  for (int i = 40; i < 50; ++i) d->PutOne("m", Task(Key{"t", i}));
  EXPECT_EQ(taken("c"), 10u);
}

TEST_F(GetTest, TheSmallestSufficientOfferIsServed) {
  const RequestId large = Wait("a", 1000);
  const RequestId small = Wait("b", 10);
  const RequestId fits = Wait("c", 100);
  d->PutOne("m", Task(Key{"t", 1}, {}, 50));
  EXPECT_EQ(d->Granted("c", fits).key, (Key{"t", 1}));
  d->PutOne("m", Task(Key{"t", 2}, {}, 5));
  EXPECT_EQ(d->Granted("b", small).key, (Key{"t", 2}));
  d->PutOne("m", Task(Key{"t", 3}, {}, 5000));
  EXPECT_FALSE(d->ReplyTo("a", large));
  d->PutOne("m", Task(Key{"t", 4}, {}, 5));
  EXPECT_EQ(d->Granted("a", large).key, (Key{"t", 4}));
}

TEST_F(GetTest, AmongEqualOffersTheLongestWaitingIsServed) {
  const RequestId first = Wait("b");
  const RequestId second = Wait("a");
  d->PutOne("m", Task(Key{"t", 1}));
  EXPECT_TRUE(d->ReplyTo("b", first));
  EXPECT_FALSE(d->ReplyTo("a", second));
}

TEST_F(GetTest, ABatchIsSpreadBeforeAnybodyGetsASecond) {
  Get get = GetOf(Every("t"));
  get.max_count = 2;
  const RequestId first = d->Send("a", get);
  const RequestId second = d->Send("b", get);
  d->Ask<PutReply>("m", Put{{Task(Key{"t", 1}), Task(Key{"t", 2}), Task(Key{"t", 3})}});
  EXPECT_EQ(d->Expect<Grants>("a", first).grants.size(), 2u);
  EXPECT_EQ(d->Expect<Grants>("b", second).grants.size(), 1u);
}

TEST_F(GetTest, TheLargestOfABatchGoesOutFirst) {
  const RequestId small = Wait("a", 10);
  const RequestId large = Wait("b", 100);
  d->Ask<PutReply>("m", Put{{Task(Key{"t", 1}, {}, 10), Task(Key{"t", 2}, {}, 100)}});
  EXPECT_EQ(d->Granted("a", small).key, (Key{"t", 1}));
  EXPECT_EQ(d->Granted("b", large).key, (Key{"t", 2}));
}

TEST_F(GetTest, ANewOfferReplacesTheOldOneAndKeepsItsPlace) {
  const RequestId first = Wait("a", 10);
  const RequestId second = Wait("b", 100);
  d->Step(Incoming{"a", {first, GetOf(Every("t"), 100)}});
  EXPECT_EQ(d->space.GetStatistics().open_gets, 2u);
  d->PutOne("m", Task(Key{"t", 1}, {}, 50));
  EXPECT_TRUE(d->ReplyTo("a", first));
  EXPECT_FALSE(d->ReplyTo("b", second));
  // A new offer that suffices is answered at once.
  d->PutOne("m", Task(Key{"t", 2}, {}, 500));
  d->Step(Incoming{"b", {second, GetOf(Every("t"), 500)}});
  EXPECT_EQ(d->Granted("b", second).key, (Key{"t", 2}));
  EXPECT_EQ(d->space.GetStatistics().open_gets, 0u);
}

TEST_F(GetTest, AnOfferThatIsRefusedEndsTheOneThatItReplaces) {
  const RequestId id = Wait("a", 10);
  Get bad = GetOf(Every("t"), 100);
  bad.max_count = 0;
  d->Step(Incoming{"a", {id, bad}});
  EXPECT_EQ(d->Expect<RequestError>("a", id).code, ErrorCode::kBadRequest);
  EXPECT_EQ(d->space.GetStatistics().open_gets, 0u);
  d->PutOne("m", Task(Key{"t", 1}));
  EXPECT_EQ(NextKey("b"), (Key{"t", 1}));
}

TEST_F(GetTest, AGetTimesOutEmptyAndCanBeCancelled) {
  const RequestId timed = d->Send("a", GetOf(Every("t"), 1, 70));
  const RequestId cancelled = d->Send("b", GetOf(Every("t"), 1, 700));
  d->Ask<Ok>("b", Cancel{cancelled});
  EXPECT_TRUE(d->Expect<Grants>("b", cancelled).grants.empty());
  EXPECT_EQ(d->space.NextDeadlineUs(), 70);
  d->Advance(70);
  EXPECT_TRUE(d->Expect<Grants>("a", timed).grants.empty());
  d->PutOne("m", Task(Key{"t", 1}));
  EXPECT_EQ(NextKey("c"), (Key{"t", 1}));
}

TEST_F(GetTest, GetsOfOneKeyWork) {
  const RequestId id = d->Send("a", GetOf(Pattern::Of(Key{"t", 5})));
  d->Ask<PutReply>("m", Put{{Plain(Key{"t", 4}), Plain(Key{"t", 5})}});
  EXPECT_EQ(d->Granted("a", id).key, (Key{"t", 5}));
  EXPECT_EQ(NextKey("b"), (Key{"t", 4}));
}

TEST_F(GetTest, ATaskCanBeTakenOnlyWhenAllItsInputsAreThere) {
  const RequestId id = Wait("a");
  d->PutOne("m", Plain(Key{"x", 1}));
  d->PutOne("m", Task(Key{"t", 1}, {Key{"x", 1}, Key{"x", 2}, Key{"x", 2}}));
  EXPECT_EQ(d->space.GetStatistics().tasks_waiting, 1u);
  EXPECT_FALSE(d->ReplyTo("a", id));
  d->PutOne("b", Plain(Key{"x", 2}));
  EXPECT_EQ(d->Granted("a", id).key, (Key{"t", 1}));
}

TEST_F(GetTest, AGrantCarriesTheInputsThatTheTakerLacks) {
  d->PutOne("m", Plain(Key{"x", 1}, "one"));
  Tuple held = Plain(Key{"x", 2}, "two");
  held.payload = Payload::Copy("two").WithHash(PayloadHash{1, 2});
  held.held = true;
  d->PutOne("a", held);
  d->PutOne("m", Task(Key{"t", 1}, {Key{"x", 2}, Key{"x", 1}}));
  Get get = GetOf(Every("t"));
  get.with_inputs = true;
  const auto grants = d->Ask<Grants>("a", get).grants;
  ASSERT_EQ(grants.size(), 1u);
  ASSERT_EQ(grants[0].inputs.size(), 2u);
  EXPECT_EQ(grants[0].input_sent, (std::vector{false, true}));
  EXPECT_EQ(grants[0].inputs[0].key, (Key{"x", 2}));
  EXPECT_TRUE(grants[0].inputs[0].payload.empty());
  EXPECT_EQ(grants[0].inputs[0].payload_bytes, 3u);
  EXPECT_FALSE(grants[0].inputs[0].hash) << "its taker has it";
  EXPECT_TRUE(grants[0].inputs[0].put_by.empty());
  EXPECT_EQ(grants[0].inputs[1].payload.text(), "one");
  EXPECT_EQ(grants[0].inputs[1].put_by, "m");
  EXPECT_EQ(grants[0].task->inputs.size(), 2u);
}

// Somebody may have put a tuple that is larger than the task's maker expects.
TEST_F(GetTest, AGrantCarriesNoMoreThanTheTaskNeeds) {
  d->PutOne("m", Plain(Key{"x", 1}, std::string(60, 'x')));
  d->PutOne("b", Plain(Key{"x", 2}, std::string(1'000, 'y')));
  d->PutOne("m", Plain(Key{"x", 3}, std::string(40, 'z')));
  Tuple task = Task(Key{"t", 1}, {Key{"x", 1}, Key{"x", 2}, Key{"x", 3}});
  for (const bool says : {true, false}) {
    task.key = Key{"t", says ? 1 : 2};
    task.task->need_bytes = says ? 100 : 0;
    d->PutOne("m", task);
    Get get = GetOf(Every("t"));
    get.with_inputs = true;
    const auto grants = d->Ask<Grants>("a", get).grants;
    ASSERT_EQ(grants.size(), 1u);
    EXPECT_EQ(grants[0].input_sent, (std::vector{true, !says, true}));
    EXPECT_EQ(grants[0].inputs[1].payload_bytes, 1'000u);
    EXPECT_EQ(grants[0].inputs[1].payload.empty(), says);
  }
}

}  // namespace
}  // namespace tuplespace
