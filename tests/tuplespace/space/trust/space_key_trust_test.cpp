// Probation of new clients of a key whose clients kept tasks from others; and one key cannot park a
// task that others could do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
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
using testing::Plain;

// ---- probation ---------------------------------------------------------------------------------

TEST_F(KeyTrustTest, ANewIdOfABenchedKeyGetsNothingEither) {
  Join("evil/0");
  Offend("evil/0");
  d.Lose("evil/0");
  Join("evil/1");
  PutTask();
  EXPECT_EQ(CanTake("evil/1"), 0u);
  d.Advance(kLimits.first_bench_us);
  EXPECT_EQ(CanTake("evil/1"), 1u);
}

TEST_F(KeyTrustTest, EachNewIdIsBenchedForLonger) {
  std::int64_t bench_us = kLimits.first_bench_us;
  for (int i = 0; i < 10; ++i) {
    const ClientId client = "evil/" + std::to_string(i);
    Join(client);
    Offend(client);
    const RequestId waiting = d.Send(client, GetOf(Every("t")));
    EXPECT_EQ(d.space.NextDeadlineUs(), d.now_us + bench_us) << i;
    d.Advance(bench_us);
    EXPECT_TRUE(d.ReplyTo(client, waiting)) << i;
    d.Lose(client);
    bench_us = std::min(2 * bench_us, kLimits.most_bench_us);
  }
}

TEST_F(KeyTrustTest, ANewIdOfABenchedKeyGetsOneTaskAtATimeAndIsBenchedForOne) {
  Join("evil/0");
  Offend("evil/0");
  Join("evil/1");
  d.Advance(kLimits.first_bench_us);
  for (int i = 0; i < 8; ++i) PutTask();
  EXPECT_EQ(CanTake("evil/1", 8), 1u);
  const std::uint64_t before = d.counters().benched;
  FailOne("evil/1");
  EXPECT_EQ(d.counters().benched, before + 1);
}

// An untried client is also held up by the bench of its key, which may be the longer one.
TEST_F(KeyTrustTest, WhatIsSaidOfABenchIsHowLongTheClientGetsNoTasks) {
  constexpr std::int64_t kFirstUs = 8'000'000;
  Join("evil/0");
  Join("evil/1");
  PutTask(kFirstUs);
  PutTask(9 * kFirstUs);
  const std::vector<Grant> first = Take("evil/0");
  ASSERT_EQ(first.size(), 1u);
  ASSERT_EQ(Take("evil/1").size(), 1u);
  d.Ask<LeaseReply>("evil/0", Extend{{first[0].key, first[0].fence}, 3'600'000'000});
  while (d.counters().benched < 2) d.Advance(kFirstUs);
  const std::string& said = d.notices["m"].back().text;
  EXPECT_THAT(said, HasSubstr("\"evil/1\""));
  const RequestId waiting = d.Send("evil/1", GetOf(Every("t")));
  const std::int64_t left_ms = (d.space.NextDeadlineUs() - d.now_us) / 1000;
  EXPECT_THAT(said, HasSubstr("no tasks for the next " + std::to_string(left_ms) + " ms"));
  d.Advance(left_ms * 1000);
  EXPECT_TRUE(d.ReplyTo("evil/1", waiting));
}

TEST_F(KeyTrustTest, OneNewIdIsTriedAtATimeIfTheKeyOffendsAgain) {
  for (const char* client : {"evil/0", "evil/1"}) {
    Join(client);
    Offend(client);
    d.Advance(kLimits.most_bench_us);
  }
  for (const char* client : {"evil/2", "evil/3", "evil/4"}) Join(client);
  const RequestId waiting = d.Send("evil/4", GetOf(Every("t")));
  for (int i = 0; i < 3; ++i) PutTask();
  const LeaseRef trial = d.Granted("evil/4", waiting);
  EXPECT_EQ(CanTake("evil/2"), 0u);
  const RequestId second = d.Send("evil/3", GetOf(Every("t")));
  EXPECT_FALSE(d.ReplyTo("evil/3", second));
  EXPECT_EQ(CanTake("handler/0", 2), 2u) << "others get what they ask for";
  const Key result{"r", std::get<std::int64_t>(trial.key.Fields()[1])};
  d.Done("evil/4", trial, {Plain(result)});
  EXPECT_TRUE(d.Expect<Grants>("evil/3", second).grants.empty()) << "it asks again";
  EXPECT_EQ(Take("evil/3").size(), 1u);
}

TEST_F(KeyTrustTest, ATrialThatRunsOutIsAnOffence) {
  for (const char* client : {"evil/0", "evil/1"}) {
    Join(client);
    Offend(client);
    d.Advance(kLimits.most_bench_us);
  }
  Join("evil/2");
  PutTask();
  EXPECT_EQ(Take("evil/2").size(), 1u);
  const std::uint64_t before = d.counters().benched;
  d.Advance(kLeaseUs);
  EXPECT_EQ(d.counters().benched, before + 1);
}

// Regardless of how long its lease could have lasted. Otherwise one failure would hold up all new
// clients of the key for that long.
TEST_F(KeyTrustTest, ATrialEndsWhenTheTaskIsGivenBack) {
  for (const char* client : {"evil/0", "evil/1"}) {
    Join(client);
    Offend(client);
    d.Advance(kLimits.most_bench_us);
  }
  for (const char* client : {"evil/2", "evil/3"}) Join(client);
  constexpr std::int64_t kLongLeaseUs = 100'000'000;
  PutTask(kLongLeaseUs);
  std::vector<Grant> grants = Take("evil/2");
  ASSERT_EQ(grants.size(), 1u);
  const RequestId second = d.Send("evil/3", GetOf(Every("t")));
  d.Ask<LeaseReply>("evil/2", Release{{grants[0].key, grants[0].fence}});
  EXPECT_TRUE(d.Expect<Grants>("evil/3", second).grants.empty()) << "it asks again";
  grants = Take("evil/3");
  ASSERT_EQ(grants.size(), 1u);
  const RequestId third = d.Send("evil/2", GetOf(Every("t")));
  const std::int64_t begin_us = d.now_us;
  Fail("evil/3", grants[0]);
  CompleteOne("handler/0");
  EXPECT_TRUE(d.Expect<Grants>("evil/2", third).grants.empty()) << "it asks again";
  const RequestId fourth = d.Send("evil/2", GetOf(Every("t")));
  EXPECT_FALSE(d.ReplyTo("evil/2", fourth));
  while (d.space.NextDeadlineUs() < kForeverUs) d.Advance(d.space.NextDeadlineUs() - d.now_us);
  EXPECT_TRUE(d.ReplyTo("evil/2", fourth));
  EXPECT_EQ(d.now_us - begin_us, 4 * kLimits.first_bench_us) << "the bench of the third offence";
}

// Otherwise each task of an honest client would hold up the other clients of its key for the time
// of its lease.
TEST_F(KeyTrustTest, ATrialEndsThoughTheResultStays) {
  for (const char* client : {"evil/0", "evil/1"}) {
    Join(client);
    Offend(client);
    d.Advance(kLimits.most_bench_us);
  }
  for (const char* client : {"evil/2", "evil/3"}) Join(client);
  for (int i = 0; i < 3; ++i) PutTask();
  const std::vector<Grant> grants = Take("evil/2");
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(CanTake("evil/3"), 0u);
  Tuple resident = Plain(Key{"r", std::get<std::int64_t>(grants[0].key.Fields()[1])});
  resident.payload = {};
  resident.resident_bytes = 5;
  d.Done("evil/2", {grants[0].key, grants[0].fence}, {resident});
  EXPECT_EQ(CanTake("evil/3"), 1u);
  EXPECT_EQ(CanTake("evil/2", 2), 1u) << "on probation";
}

TEST_F(KeyTrustTest, NewIdsThatVanishWithTheirTasksAddUp) {
  for (std::uint32_t i = 0; i < kLimits.tasks_in_vain; ++i) {
    EXPECT_EQ(d.counters().benched, 0u);
    const ClientId client = "evil/" + std::to_string(i);
    Join(client);
    PutTask();
    EXPECT_EQ(Take(client).size(), 1u);
    d.Lose(client);
  }
  EXPECT_EQ(d.counters().benched, 1u);
  Join("evil/9");
  EXPECT_EQ(CanTake("evil/9"), 0u);
}

// What it has leased besides does not hide the task.
TEST_F(KeyTrustTest, NewIdsThatVanishWithALockAndATaskAddUp) {
  d.PutOne("m", Plain(Key{"lock"}));
  for (std::uint32_t i = 0; i < kLimits.tasks_in_vain; ++i) {
    const ClientId client = "evil/" + std::to_string(i);
    Join(client);
    PutTask();
    EXPECT_EQ(d.GetNow(client, Pattern::Of(Key{"lock"})).size(), 1u);
    EXPECT_EQ(Take(client).size(), 1u);
    d.Lose(client);
  }
  EXPECT_EQ(d.counters().benched, 1u);
}

TEST_F(KeyTrustTest, WhoHasCompletedATaskIsNotTouchedByOthersOfItsKey) {
  Join("handler/1");
  Offend("handler/1");
  d.Advance(kLimits.first_bench_us);
  Join("handler/2");
  Offend("handler/2");
  for (int i = 0; i < 8; ++i) PutTask();
  EXPECT_EQ(Take("handler/0", 8).size(), 8u);
}

TEST_F(KeyTrustTest, AGoodResultEndsTheProbationButIsNotAllThatCounts) {
  for (const char* client : {"evil/0", "evil/1", "evil/2"}) {
    Join(client);
    Offend(client);
    d.Advance(kLimits.most_bench_us);
  }
  Join("evil/3");
  PutTask();
  CompleteOne("evil/3");
  for (int i = 0; i < 4; ++i) PutTask();
  const std::vector<Grant> grants = Take("evil/3", 4);
  EXPECT_EQ(grants.size(), 4u);
  for (const Grant& grant : grants) Fail("evil/3", grant);
  d.Send("evil/3", GetOf(Every("t")));
  d.Lose("handler/0");  // so the first deadline is that of the bench
  Join("other");
  PutTask();
  EXPECT_EQ(CanTake("evil/3"), 0u);
}

// Otherwise each new client could make a run wait for a payload that never comes.
TEST_F(KeyTrustTest, AResultThatStaysDoesNotEndTheProbationBeforeItIsSupplied) {
  Join("evil/0");
  Offend("evil/0");
  Join("evil/1");
  d.Advance(kLimits.first_bench_us);
  PutTask();
  const std::vector<Grant> grants = Take("evil/1");
  ASSERT_EQ(grants.size(), 1u);
  const Key result{"r", std::get<std::int64_t>(grants[0].key.Fields()[1])};
  Tuple resident = Plain(result);
  resident.payload = {};
  resident.resident_bytes = 5;
  d.Done("evil/1", {grants[0].key, grants[0].fence}, {resident});
  for (int i = 0; i < 4; ++i) PutTask();
  EXPECT_EQ(CanTake("evil/1", 4), 1u) << "on probation";
  d.Ask<PutReply>("evil/1", Supply{{Plain(result, "bytes")}});
  EXPECT_EQ(CanTake("evil/1", 4), 4u);
}

TEST_F(KeyTrustTest, TimeForgivesAKey) {
  Join("evil/0");
  Offend("evil/0");
  d.Advance(kLimits.key_forgiven_us);
  Join("evil/1");
  for (int i = 0; i < 4; ++i) PutTask();
  EXPECT_EQ(CanTake("evil/1", 4), 4u);
}

TEST_F(KeyTrustTest, WhereOnlyNewIdsAreThereTheyGetTasks) {
  for (const char* client : {"evil/0", "evil/1"}) {
    Join(client);
    Offend(client);
    d.Advance(kLimits.most_bench_us);
  }
  Join("evil/2");
  PutTask();
  PutTask();
  EXPECT_EQ(Take("evil/2").size(), 1u);
  EXPECT_EQ(CanTake("evil/1"), 0u) << "another one is tried";
  d.Lose("handler/0");
  EXPECT_EQ(CanTake("evil/1"), 1u);
}

TEST_F(KeyTrustTest, WithoutAKeyEachIdIsItsOwn) {
  d.Join("a");
  EXPECT_EQ(CanTake("a"), 0u);
  Offend("a");
  d.Join("b");
  for (int i = 0; i < 4; ++i) PutTask();
  EXPECT_EQ(CanTake("b", 4), 4u);
}

// ---- parking -----------------------------------------------------------------------------------

TEST_F(KeyTrustTest, OneKeyDoesNotParkWhatFailedOnItsFellowsOnce) {
  Join("evil/0");
  Join("other/0");
  PutTask();
  FailOne("other/0");
  FailOne("handler/0");
  for (int i = 0; i < 20; ++i) {
    for (const Grant& grant : Take("evil/0")) Fail("evil/0", grant);
    d.Advance(kLimits.most_bench_us / 4);
  }
  EXPECT_EQ(Parked(), 0u);
  CompleteOne("other/0");
}

// If the task has failed on all clients, those that failed it earlier may try again before the one
// that failed it last.
TEST_F(KeyTrustTest, WhoFailsATaskLastGetsItLast) {
  Join("evil/0");
  PutTask();
  FailOne("handler/0");
  FailOne("evil/0");
  EXPECT_EQ(CanTake("evil/0"), 0u);
  CompleteOne("handler/0");
}

TEST_F(KeyTrustTest, WhatFailsOnManyKeysIsParked) {
  Join("a/0");
  Join("b/0");
  Join("idle/0");  // the task has not failed on this client
  PutTask();
  for (const char* client : {"a/0", "b/0", "handler/0", "a/0", "b/0"}) {
    EXPECT_EQ(Parked(), 0u);
    FailOne(client);
    d.Advance(kLeaseUs);
  }
  EXPECT_EQ(Parked(), 1u);
}

TEST_F(KeyTrustTest, AloneAKeyParksATaskOnlyAfterAWhile) {
  PutTask();
  std::uint32_t failures = 0;
  while (Parked() == 0) {
    ASSERT_LT(++failures, 100u);
    FailOne("handler/0");
    if (Parked() == 0 && d.space.NextDeadlineUs() < kForeverUs) {
      d.Advance(d.space.NextDeadlineUs() - d.now_us);
    }
  }
  EXPECT_EQ(failures, kLimits.task_failures + kLimits.rounds_alone);
  EXPECT_GT(d.now_us, 500'000'000);
  ASSERT_EQ(d.notices["m"].size(), 1 + kLimits.rounds_alone);
  EXPECT_EQ(d.notices["m"][0].kind, Notice::Kind::kMistrusted);
  EXPECT_THAT(d.notices["m"][0].text, HasSubstr("has failed 3 times, on all present clients"));
  EXPECT_EQ(d.notices["m"].back().kind, Notice::Kind::kParked);
}

TEST_F(KeyTrustTest, NewIdsDoNotShortenThatWhile) {
  d.Lose("handler/0");
  PutTask();
  for (int i = 0; i < 100; ++i) {
    const ClientId client = "evil/" + std::to_string(i);
    d.Step(ClientJoined{client, "evil", {}});
    FailOne(client);
  }
  EXPECT_EQ(Parked(), 0u);
  Join("handler/1");
  CompleteOne("handler/1");
}

TEST_F(KeyTrustTest, WhoeverComesNewMayTakeWhatFailedOnAllAtOnce) {
  PutTask();
  for (std::uint32_t i = 0; i < kLimits.task_failures; ++i) FailOne("handler/0");
  EXPECT_EQ(CanTake("handler/0"), 0u);
  d.Step(ClientJoined{"handler/1", "handler", {}});
  CompleteOne("handler/1");
}

}  // namespace
}  // namespace tuplespace
