// A client that takes tasks only to give them back is benched, and no honest client is mistaken for
// one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "space_key_trust.h"

namespace tuplespace {
namespace {

using testing::Every;
using testing::GetOf;
using ::testing::HasSubstr;
using testing::KeyTrustTest;
using testing::kLeaseUs;
using testing::kLimits;
using testing::Making;
using testing::Plain;
using testing::Task;

constexpr std::uint32_t kMaxReturns = kLimits.tasks_in_vain * kLimits.returns_in_vain;

// "bad/0" has completed a task as well.
class GivenBackTest : public KeyTrustTest {
 protected:
  GivenBackTest() {
    Join("bad/0");
    PutTask();
    CompleteOne("bad/0");
  }
  void GiveBack(const ClientId& client, const LeaseRef& lease) {
    EXPECT_EQ(d.Ask<LeaseReply>(client, Release{lease}).lease, LeaseStatus::kOk);
  }
  // The client takes a task, keeps it for `kept_us` and gives it back.
  void TakeAndGiveBack(const ClientId& client, std::int64_t kept_us = 0) {
    const std::vector<Grant> grants = Take(client);
    ASSERT_EQ(grants.size(), 1u) << client;
    d.Advance(kept_us);
    GiveBack(client, {grants[0].key, grants[0].fence});
  }
};

// Among waiting Gets, the one with the smallest offer gets the task. So a client with two waiting
// Gets receives the task that it has just given back.
TEST_F(GivenBackTest, TwoGetsDoNotPassATaskToEachOtherForEver) {
  RequestId gets[] = {d.Send("bad/0", GetOf(Every("t"), 1)), d.Send("bad/0", GetOf(Every("t"), 1))};
  const RequestId honest = d.Send("handler/0", GetOf(Every("t"), UINT64_MAX));
  PutTask();
  std::uint32_t times = 0;
  for (; d.counters().benched == 0; ++times) {
    ASSERT_LT(times, kMaxReturns);
    const LeaseRef lease = d.Granted("bad/0", gets[times % 2]);
    gets[times % 2] = d.Send("bad/0", GetOf(Every("t"), 1));
    GiveBack("bad/0", lease);
  }
  EXPECT_EQ(times, kMaxReturns);
  EXPECT_THAT(d.notices["m"].back().text, HasSubstr("\"bad/0\" gives back the tasks"));
  const LeaseRef lease = d.Granted("handler/0", honest);
  EXPECT_EQ(d.Done("handler/0", lease, {Plain(Key{"r", next_ - 1})}).lease, LeaseStatus::kOk);
}

TEST_F(GivenBackTest, WhatIsKeptUntilShortlyBeforeTheLeaseEndsCountsAsIfItHadEnded) {
  PutTask();
  for (std::uint32_t i = 0; i < kLimits.tasks_in_vain; ++i) {
    EXPECT_EQ(d.counters().benched, 0u);
    TakeAndGiveBack("bad/0", kLeaseUs - 1);
  }
  EXPECT_EQ(d.counters().benched, 1u);
}

// Otherwise a client could extend a lease as long as possible and give the task back just in time.
TEST_F(GivenBackTest, WhatIsKeptForManyLeasesIsEnoughForABench) {
  PutTask();
  const std::vector<Grant> grants = Take("bad/0");
  ASSERT_EQ(grants.size(), 1u);
  const LeaseRef lease{grants[0].key, grants[0].fence};
  d.Ask<LeaseReply>("bad/0", Extend{lease, 3'600'000'000});
  d.Advance(kLimits.lease_extensions * kLeaseUs - 1);
  GiveBack("bad/0", lease);
  EXPECT_EQ(d.counters().benched, 1u);
}

TEST_F(GivenBackTest, NewIdsOfAKeyCountAsOne) {
  PutTask();
  for (std::uint32_t i = 0; i < kMaxReturns; ++i) {
    EXPECT_EQ(d.counters().benched, 0u);
    const ClientId client = "evil/" + std::to_string(i);
    Join(client);
    TakeAndGiveBack(client);
    d.Lose(client);
  }
  EXPECT_EQ(d.counters().benched, 1u);
  Join("evil/new");
  EXPECT_EQ(CanTake("evil/new"), 0u);
}

// ---- honest clients ----------------------------------------------------------------------------

TEST_F(GivenBackTest, WhatCameWithOneAnswerIsGivenBackForOneReason) {
  for (std::uint32_t i = 0; i < 64; ++i) PutTask();
  for (std::uint32_t times = 1; times < kMaxReturns; ++times) EXPECT_EQ(CanTake("bad/0", 64), 64u);
  EXPECT_EQ(d.counters().benched, 0u);
}

TEST_F(GivenBackTest, WhoCompletesTasksMayGiveSomeBack) {
  for (int i = 0; i < 10; ++i) {
    PutTask();
    for (std::uint32_t times = 1; times < kMaxReturns; ++times) TakeAndGiveBack("bad/0");
    CompleteOne("bad/0");
  }
  EXPECT_EQ(d.counters().benched, 0u);
}

TEST_F(GivenBackTest, WhoIsAloneMayGiveBackWhatItLikes) {
  d.Lose("handler/0");
  PutTask();
  for (int i = 0; i < 100; ++i) TakeAndGiveBack("bad/0", i % 2 == 0 ? 0 : kLeaseUs - 1);
  EXPECT_EQ(d.counters().benched, 0u);
  CompleteOne("bad/0");
}

// No other client could have done the task.
TEST_F(GivenBackTest, WhoseInputIsGoneMayGiveTheTaskBack) {
  for (std::int64_t i = 0; i < 100; ++i) {
    d.PutOne("m", Plain(Key{"input", i}));
    d.PutOne("m", Making(Task(Key{"t", 1000 + i}, {Key{"input", i}}), {Key{"r", 1000 + i}}));
    const LeaseRef lease = d.TakeNow("bad/0", Every("t"));
    d.Ask<RetireReply>("m", Retire{Pattern::Of(Key{"input", i}), false});
    GiveBack("bad/0", lease);
  }
  EXPECT_EQ(d.counters().benched, 0u);
}

// The holder asked for the payload and waits for its maker.
TEST_F(GivenBackTest, WhoWaitsForThePayloadOfAnotherMayGiveTheTaskBack) {
  Tuple task = Making(Task(Key{"t", 1000}), {Key{"input", 1}});
  task.task->lease_us = kLeaseUs;
  d.PutOne("m", task);
  Tuple stays = Plain(Key{"input", 1}, "");
  stays.resident_bytes = 8;
  d.Done("handler/0", d.TakeNow("handler/0", Every("t")), {stays});
  d.PutOne("m", Making(Task(Key{"t", 1001}, {Key{"input", 1}}), {Key{"r", 1001}}));
  for (int i = 0; i < 100; ++i) {
    Get get = GetOf(Every("t"), UINT64_MAX, 0);
    get.with_inputs = true;
    const auto grants = d.Ask<Grants>("bad/0", get).grants;
    ASSERT_EQ(grants.size(), 1u);
    GiveBack("bad/0", {grants[0].key, grants[0].fence});
  }
  EXPECT_EQ(d.counters().benched, 0u);
}

}  // namespace
}  // namespace tuplespace
