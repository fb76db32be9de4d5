// Which results count, and what happens to a client that keeps tasks from others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "space_driver.h"

namespace tuplespace {
namespace {

using ::testing::ElementsAre;
using testing::Every;
using testing::GetOf;
using ::testing::HasSubstr;
using testing::Making;
using testing::Plain;
using testing::SpaceDriver;
using testing::Task;

constexpr std::int64_t kTrustLeaseUs = 1'000;

// "m" puts tasks; "good" and "bad" take them.
class TrustTest : public ::testing::Test {
 protected:
  TrustTest() {
    for (const char* client : {"m", "good", "bad"}) d.Join(client);
    for (const char* client : {"good", "bad"}) EXPECT_FALSE(CanTake(client));
  }
  // Puts the task ("t", number) with the result ("r", number).
  void PutTask(std::int64_t number) {
    Tuple task = Making(Task(Key{"t", number}), {Key{"r", number}});
    task.task->lease_us = kTrustLeaseUs;
    ASSERT_EQ(d.PutOne("m", task), PutStatus::kStored);
  }
  LeaseRef Take(const ClientId& client) { return d.TakeNow(client, Every("t")); }
  bool CanTake(const ClientId& client) { return !d.GetNow(client, Every("t")).empty(); }
  std::string CompletionProblem(const LeaseRef& lease, std::vector<Tuple> results) {
    return d.Ask<RequestError>("bad", Complete{lease, std::move(results)}).text;
  }
  LeaseStatus ExtendIt(const ClientId& client, const LeaseRef& lease, std::int64_t lease_us) {
    return d.Ask<LeaseReply>(client, Extend{lease, lease_us}).lease;
  }
  std::uint64_t Results() { return d.CountOf("m", Every("r")); }
  std::vector<Notice::Kind> Told() {
    std::vector<Notice::Kind> kinds;
    for (const Notice& notice : d.notices["m"]) kinds.push_back(notice.kind);
    return kinds;
  }
  // Makes the client get benched at once.
  void LoseTrust(const ClientId& client, std::int64_t number) {
    PutTask(number);
    const LeaseRef lease = Take(client);
    d.Ask<RequestError>(client, Complete{lease, {}});
    const LeaseRef done = Take("good");
    d.Done("good", done, {Plain(Key{"r", number}, "x")});
  }
  SpaceDriver d;
};

// ---- which results count ------------------------------------------------------------------------

TEST_F(TrustTest, AnInventedFenceStoresNothing) {
  PutTask(1);
  const CompleteReply reply =
      d.Done("bad", {Key{"no", "task"}, 12345}, {Plain(Key{"r", 1}, "evil"), Plain(Key{"r", 9})});
  EXPECT_EQ(reply.lease, LeaseStatus::kStale);
  EXPECT_THAT(reply.results, ElementsAre(PutStatus::kRefused, PutStatus::kRefused));
  EXPECT_EQ(Results(), 0u);
  EXPECT_EQ(d.counters().refused_results, 2u);
  const LeaseRef lease = Take("good");
  EXPECT_THAT(d.Done("bad", lease, {Plain(Key{"r", 1}, "evil")}).results,
              ElementsAre(PutStatus::kRefused))
      << "the lease is another's";
  EXPECT_THAT(d.Done("good", lease, {Plain(Key{"r", 1}, "right")}).results,
              ElementsAre(PutStatus::kStored));
  EXPECT_EQ(d.counters().conflicts, 0u);
}

TEST_F(TrustTest, WithoutALeaseOneOnlyLearnsWhetherTheVeryBytesAreThere) {
  PutTask(1);
  const LeaseRef lease = Take("good");
  d.Done("good", lease, {Plain(Key{"r", 1}, "right")});
  EXPECT_THAT(d.Done("good", lease, {Plain(Key{"r", 1}, "right")}).results,
              ElementsAre(PutStatus::kDuplicate))
      << "the answer was lost";
  EXPECT_THAT(d.Done("bad", lease, {Plain(Key{"r", 1}, "evil")}).results,
              ElementsAre(PutStatus::kRefused));
  EXPECT_EQ(d.counters().conflicts, 0u);
  EXPECT_TRUE(d.notices["m"].empty());
}

TEST_F(TrustTest, WhoHeldTheTaskIsComparedAfterItIsDone) {
  PutTask(1);
  const LeaseRef late = Take("bad");
  d.Advance(kTrustLeaseUs);
  const LeaseRef second = Take("good");
  d.Done("good", second, {Plain(Key{"r", 1}, "right")});
  EXPECT_THAT(d.Done("bad", late, {Plain(Key{"r", 1}, "evil")}).results,
              ElementsAre(PutStatus::kConflict));
  ASSERT_THAT(Told(), ElementsAre(Notice::Kind::kConflict));
  EXPECT_EQ(d.notices["m"][0].by, "bad");
  EXPECT_THAT(d.notices["m"][0].text, HasSubstr("\"good\""));
  EXPECT_THAT(d.Done("bad", late, {Plain(Key{"r", 1}, "right")}).results,
              ElementsAre(PutStatus::kDuplicate));
  // A late completion does not count for other keys, nor for results that were removed.
  d.PutOne("m", Plain(Key{"data", 1}, "x"));
  EXPECT_THAT(d.Done("bad", late, {Plain(Key{"data", 1}, "evil")}).results,
              ElementsAre(PutStatus::kRefused));
  d.Ask<RetireReply>("m", Retire{Every("r"), false});
  EXPECT_THAT(d.Done("bad", late, {Plain(Key{"r", 1}, "evil")}).results,
              ElementsAre(PutStatus::kRefused));
  EXPECT_EQ(Results(), 0u);
}

TEST_F(TrustTest, AFalseCompletionOfADoneTaskIsNotCompared) {
  PutTask(1);
  const LeaseRef late = Take("bad");
  d.Advance(kTrustLeaseUs);
  d.Done("good", Take("good"), {Plain(Key{"r", 1}, "right")});
  EXPECT_THAT(d.Done("bad", late, {Plain(Key{"r", 1}, "evil"), Plain(Key{"r", 2}, "evil")}).results,
              ElementsAre(PutStatus::kRefused, PutStatus::kRefused));
  EXPECT_THAT(d.Done("bad", late, {Plain(Key{"r", 1}, "evil"), Plain(Key{"r", 1}, "evil")}).results,
              ElementsAre(PutStatus::kRefused, PutStatus::kRefused));
  EXPECT_EQ(d.counters().conflicts, 0u);
  EXPECT_TRUE(d.notices["m"].empty());
}

TEST_F(TrustTest, WhoHoldsTheTaskNowIsComparedWithALateCompletion) {
  PutTask(1);
  const LeaseRef late = Take("bad");
  d.Advance(kTrustLeaseUs);
  const LeaseRef second = Take("good");
  d.Done("bad", late, {Plain(Key{"r", 1}, "evil")});
  EXPECT_THAT(d.Done("good", second, {Plain(Key{"r", 1}, "right")}).results,
              ElementsAre(PutStatus::kConflict));
}

// ---- completions that are not what the task declares -------------------------------------------

TEST_F(TrustTest, ACompletionWithoutItsResultsIsAFailure) {
  PutTask(1);
  const LeaseRef lease = Take("bad");
  EXPECT_THAT(CompletionProblem(lease, {}), HasSubstr("lacks its result (\"r\", 1)"));
  EXPECT_EQ(d.space.GetStatistics().tasks_ready, 1u) << "the task is there for others";
  EXPECT_FALSE(CanTake("bad"));
  EXPECT_EQ(d.counters().false_completions, 1u);
  ASSERT_THAT(Told(), ElementsAre(Notice::Kind::kMistrusted));
  EXPECT_EQ(d.notices["m"][0].by, "bad");
  d.Done("good", Take("good"), {Plain(Key{"r", 1}, "right")});
  EXPECT_EQ(Results(), 1u);
}

TEST_F(TrustTest, ACompletionWithOtherResultsIsAFailure) {
  PutTask(1);
  EXPECT_THAT(CompletionProblem(Take("bad"), {Plain(Key{"r", 1}), Plain(Key{"r", 60})}),
              HasSubstr("did not declare: (\"r\", 60)"));
  EXPECT_EQ(Results(), 0u);
  d.Lose("good");
  d.Advance(kTrustLeaseUs);  // until then the task is kept for others
  EXPECT_THAT(CompletionProblem(Take("bad"), {Plain(Key{"r", 1}), Plain(Key{"r", 1})}),
              HasSubstr("brings twice (\"r\", 1)"));
  EXPECT_EQ(Results(), 0u);
}

TEST_F(TrustTest, ALateCompletionWithoutItsResultsLeavesTheTaskAlone) {
  PutTask(1);
  const LeaseRef late = Take("bad");
  d.Advance(kTrustLeaseUs);
  const LeaseRef second = Take("good");
  EXPECT_THAT(CompletionProblem(late, {}), HasSubstr("lacks its result"));
  EXPECT_EQ(d.Done("good", second, {Plain(Key{"r", 1})}).lease, LeaseStatus::kOk);
}

TEST_F(TrustTest, ResultsMayComeInAnyOrder) {
  d.PutOne("m", Making(Task(Key{"t", 1}), {Key{"r", 1}, Key{"r", 2}}));
  EXPECT_THAT(d.Done("bad", Take("bad"), {Plain(Key{"r", 2}), Plain(Key{"r", 1})}).results,
              ElementsAre(PutStatus::kStored, PutStatus::kStored));
}

TEST_F(TrustTest, APlainTupleMayBeReplacedByAnything) {
  d.PutOne("m", Plain(Key{"t", 1}, "1"));
  EXPECT_THAT(d.Done("good", Take("good"), {Plain(Key{"t", 2}, "2")}).results,
              ElementsAre(PutStatus::kStored));
}

// ---- failures ----------------------------------------------------------------------------------

TEST_F(TrustTest, OneThatFailsEverythingDoesNotEndWhatOthersCanDo) {
  PutTask(1);
  for (int i = 0; i < 10; ++i) {
    const auto grants = d.GetNow("bad", Every("t"));
    for (const Grant& grant : grants) {
      d.Ask<LeaseReply>("bad", Fail{{grant.key, grant.fence}, "no"});
    }
    d.Advance(SpaceLimits{}.most_bench_us);
  }
  EXPECT_GT(d.counters().failed, 3u);
  EXPECT_EQ(d.space.GetStatistics().tasks_parked, 0u);
  d.Done("good", Take("good"), {Plain(Key{"r", 1})});
  EXPECT_EQ(Results(), 1u);
}

TEST_F(TrustTest, ATaskThatFailsOnAllIsParked) {
  PutTask(1);
  for (const char* client : {"bad", "good", "bad"}) {
    const auto grants = d.GetNow(client, Every("t"));
    ASSERT_EQ(grants.size(), 1u) << client;
    d.Ask<LeaseReply>(client, Fail{{grants[0].key, grants[0].fence}, "no"});
    d.Advance(kTrustLeaseUs);
  }
  EXPECT_EQ(d.space.GetStatistics().tasks_parked, 1u);
}

TEST_F(TrustTest, ABenchedClientCanStillDoWhatFailedOnOthers) {
  PutTask(9);
  d.Ask<RequestError>("good", Complete{Take("good"), {}});  // this benches it at once
  d.Done("bad", Take("bad"), {Plain(Key{"r", 9})});
  PutTask(1);
  for (int i = 0; i < 3; ++i) d.Ask<LeaseReply>("bad", Fail{Take("bad"), "no"});
  EXPECT_EQ(d.space.GetStatistics().tasks_parked, 0u);
  d.Advance(SpaceLimits{}.first_bench_us);
  d.Done("good", Take("good"), {Plain(Key{"r", 1})});
  EXPECT_EQ(Results(), 2u);
}

TEST_F(TrustTest, ManyClientsOfOneKeyCountAsOne) {
  PutTask(1);
  for (int i = 0; i < 5; ++i) {
    const ClientId client = "evil/" + std::to_string(i);
    d.Step(ClientJoined{client, "evil", {}});
    d.Advance(SpaceLimits{}.most_bench_us);
    const LeaseRef lease = Take(client);
    d.Ask<LeaseReply>(client, Fail{lease, "no"});
    d.Lose(client);
  }
  EXPECT_EQ(d.space.GetStatistics().tasks_parked, 0u);
  EXPECT_TRUE(CanTake("good"));
}

// ---- leases that are extended repeatedly --------------------------------------------------------

TEST_F(TrustTest, AnExtensionEndsWhereOthersWait) {
  PutTask(1);
  const LeaseRef lease = Take("bad");
  const std::int64_t most_us = SpaceLimits{}.lease_extensions * kTrustLeaseUs;
  while (ExtendIt("bad", lease, kTrustLeaseUs) == LeaseStatus::kOk) {
    ASSERT_LE(d.now_us, most_us);
    d.Advance(kTrustLeaseUs / 2);
  }
  EXPECT_EQ(d.now_us, most_us);
  EXPECT_FALSE(CanTake("bad"));
  EXPECT_EQ(Take("good").key, (Key{"t", 1}));
  // The first completion counts.
  EXPECT_THAT(d.Done("bad", lease, {Plain(Key{"r", 1})}).results, ElementsAre(PutStatus::kStored));
}

TEST_F(TrustTest, ALongExtensionIsCut) {
  PutTask(1);
  const LeaseRef lease = Take("bad");
  EXPECT_EQ(ExtendIt("bad", lease, 3'600'000'000), LeaseStatus::kOk);
  EXPECT_EQ(d.space.NextDeadlineUs(), SpaceLimits{}.lease_extensions * kTrustLeaseUs);
  d.Advance(SpaceLimits{}.lease_extensions * kTrustLeaseUs);
  EXPECT_TRUE(CanTake("good"));
}

// Otherwise each client of a hostile key would keep the task twice as long as the one before.
TEST_F(TrustTest, WhoClingsToATaskMakesTheNextLeaseNoLonger) {
  PutTask(1);
  for (int i = 0; i < 6; ++i) {
    const ClientId client = "evil/" + std::to_string(i);
    d.Step(ClientJoined{client, "evil", {}});
    d.Advance(SpaceLimits{}.most_bench_us);
    const auto grants = d.GetNow(client, Every("t"));
    ASSERT_EQ(grants.size(), 1u) << client;
    EXPECT_EQ(grants[0].lease_us, kTrustLeaseUs) << client;
    ExtendIt(client, {grants[0].key, grants[0].fence}, 3'600'000'000);
    d.Advance(SpaceLimits{}.lease_extensions * kTrustLeaseUs);
  }
  EXPECT_TRUE(CanTake("good"));
}

// How often a client is benched whose results never have room while `payload` is in the space.
std::uint64_t BenchedWithoutRoom(const std::string& payload) {
  SpaceLimits limits;
  limits.payload_bytes = 10;
  SpaceDriver d(limits);
  for (const char* client : {"m", "some", "other"}) d.Join(client);
  EXPECT_TRUE(d.GetNow("other", Every("t")).empty());  // it could take the tasks, too
  EXPECT_EQ(d.PutOne("m", Plain(Key{"data", 1}, payload)), PutStatus::kStored);
  for (std::uint32_t i = 0; i < SpaceLimits{}.tasks_in_vain; ++i) {
    Tuple task = Making(Task(Key{"t", i}), {Key{"r", i}});
    task.task->lease_us = kTrustLeaseUs;
    EXPECT_EQ(d.PutOne("m", task), PutStatus::kStored);
    const LeaseRef lease = d.TakeNow("some", Every("t"));
    const auto error =
        d.Ask<RequestError>("some", Complete{lease, {Plain(Key{"r", i}, "123456789")}});
    EXPECT_EQ(error.code, ErrorCode::kBusy);
    d.Advance(kTrustLeaseUs);
    d.Ask<RetireReply>("m", Retire{Every("t"), false});
  }
  return d.counters().benched;
}

TEST(TrustInAFullSpace, AClientWhoseResultsHaveNoRoomIsNotBenched) {
  EXPECT_EQ(BenchedWithoutRoom("12345"), 0u);
}

TEST(TrustInAFullSpace, LargeResultsAreNoExcuseInOneThatIsNotFull) {
  EXPECT_GT(BenchedWithoutRoom(""), 0u);
}

TEST_F(TrustTest, ADoubledLeaseIsNotExtendedForLonger) {
  PutTask(1);
  for (const char* client : {"good", "bad", "good"}) {
    Take(client);
    d.Advance(4 * kTrustLeaseUs);  // it expires
  }
  const LeaseRef lease = Take("bad");
  const std::int64_t since_us = d.now_us;
  ExtendIt("bad", lease, 3'600'000'000);
  EXPECT_EQ(d.space.NextDeadlineUs(), since_us + SpaceLimits{}.lease_extensions * kTrustLeaseUs);
}

TEST_F(TrustTest, ALeaseIsExtendedOnAndOnWhereNobodyElseIs) {
  d.Lose("good");
  PutTask(1);
  const LeaseRef lease = Take("bad");
  for (int i = 0; i < 100; ++i) {
    d.Advance(kTrustLeaseUs / 2);
    ASSERT_EQ(ExtendIt("bad", lease, kTrustLeaseUs), LeaseStatus::kOk);
  }
  EXPECT_EQ(d.Done("bad", lease, {Plain(Key{"r", 1})}).lease, LeaseStatus::kOk);
}

// A device that failed the task may try it again when the lease ends, so it counts as another
// client.
TEST_F(TrustTest, AnExtensionEndsWhereTheOtherHasFailedBefore) {
  PutTask(1);
  d.Ask<LeaseReply>("good", Fail{Take("good"), "once"});
  const LeaseRef lease = Take("bad");
  const std::int64_t most_us = d.now_us + SpaceLimits{}.lease_extensions * kTrustLeaseUs;
  while (ExtendIt("bad", lease, kTrustLeaseUs) == LeaseStatus::kOk) {
    ASSERT_LE(d.now_us, most_us);
    d.Advance(kTrustLeaseUs / 2);
  }
  EXPECT_EQ(d.now_us, most_us);
  EXPECT_THAT(Told(), ElementsAre(Notice::Kind::kMistrusted)) << "and it is benched";
  PutTask(2);
  EXPECT_FALSE(CanTake("bad"));
  d.Done("good", Take("good"), {Plain(Key{"r", 1})});
  EXPECT_EQ(Results(), 1u);
}

// Otherwise a slow handler that alone can hold the largest tasks would be benched repeatedly for
// tasks that no other client could have taken, and the run would crawl.
TEST(TrustOfUnequalClientsTest, WhoHasTooLittleMemoryIsNobodyElse) {
  SpaceDriver d;
  for (const char* client : {"m", "large", "small"}) d.Join(client);
  EXPECT_TRUE(d.GetNow("large", Every("t"), 1000).empty());
  EXPECT_TRUE(d.GetNow("small", Every("t"), 99).empty());
  Tuple task = Making(Task(Key{"t", 1}, {}, 100), {Key{"r", 1}});
  task.task->lease_us = kTrustLeaseUs;
  d.PutOne("m", task);
  const LeaseRef lease = d.TakeNow("large", Every("t"));
  for (int i = 0; i < 100; ++i) {
    d.Advance(kTrustLeaseUs / 2);
    ASSERT_EQ(d.Ask<LeaseReply>("large", Extend{lease, kTrustLeaseUs}).lease, LeaseStatus::kOk);
  }
  d.Ask<LeaseReply>("large", Fail{lease, "once"});
  EXPECT_FALSE(d.GetNow("large", Every("t"), 1000).empty()) << "it need not wait for the other";
  EXPECT_EQ(d.counters().benched, 0u);
}

TEST_F(TrustTest, AnExtensionDoesNotEndWhereTheTaskExcludesTheOther) {
  Tuple task = Making(Task(Key{"t", 1}), {Key{"r", 1}});
  task.task->lease_us = kTrustLeaseUs;
  task.task->not_by = {"good"};
  d.PutOne("m", task);
  const LeaseRef lease = Take("bad");
  for (int i = 0; i < 100; ++i) {
    d.Advance(kTrustLeaseUs / 2);
    ASSERT_EQ(ExtendIt("bad", lease, kTrustLeaseUs), LeaseStatus::kOk);
  }
}

// Otherwise one Extend while no other client is there would keep the task for an hour.
TEST_F(TrustTest, WhoComesLaterWaitsForOneLeaseOnly) {
  d.Lose("good");
  PutTask(1);
  const LeaseRef lease = Take("bad");
  const std::int64_t most_us = SpaceLimits{}.lease_extensions * kTrustLeaseUs;
  d.Advance(kTrustLeaseUs / 2);
  EXPECT_EQ(ExtendIt("bad", lease, 3'600'000'000), LeaseStatus::kOk);
  EXPECT_EQ(d.space.NextDeadlineUs(), most_us);
  d.Advance(most_us - 1 - d.now_us);
  EXPECT_EQ(ExtendIt("bad", lease, 3'600'000'000), LeaseStatus::kOk);
  EXPECT_EQ(d.space.NextDeadlineUs(), d.now_us + kTrustLeaseUs);
  d.Join("late");
  const RequestId waiting = d.Send("late", GetOf(Every("t")));
  EXPECT_EQ(ExtendIt("bad", lease, 3'600'000'000), LeaseStatus::kOk);
  d.Advance(kTrustLeaseUs);
  EXPECT_EQ(d.Expect<Grants>("late", waiting).grants.size(), 1u);
}

TEST_F(TrustTest, ALockIsExtendedOnAndOn) {
  d.PutOne("m", Plain(Key{"t", 1}));
  const LeaseRef lease = Take("good");
  for (int i = 0; i < 1000; ++i) {
    d.Advance(9'000'000);
    ASSERT_EQ(ExtendIt("good", lease, 10'000'000), LeaseStatus::kOk);
  }
}

// ---- the bench ---------------------------------------------------------------------------------

TEST_F(TrustTest, TheBenchEndsAndIsLongerTheNextTime) {
  LoseTrust("bad", 1);
  const RequestId waiting = d.Send("bad", GetOf(Every("t")));
  PutTask(2);
  EXPECT_FALSE(d.ReplyTo("bad", waiting));
  EXPECT_EQ(d.space.NextDeadlineUs(), SpaceLimits{}.first_bench_us);
  d.Advance(SpaceLimits{}.first_bench_us);
  EXPECT_TRUE(d.Expect<Grants>("bad", waiting).grants.empty()) << "it asks again";
  EXPECT_TRUE(CanTake("bad"));
  const std::int64_t begin_us = d.now_us;
  LoseTrust("bad", 3);
  const RequestId again = d.Send("bad", GetOf(Every("t")));
  while (d.space.NextDeadlineUs() < kForeverUs) d.Advance(d.space.NextDeadlineUs() - d.now_us);
  EXPECT_TRUE(d.ReplyTo("bad", again));
  EXPECT_EQ(d.now_us - begin_us, 2 * SpaceLimits{}.first_bench_us);
}

TEST_F(TrustTest, AnOpenGetIsBenchedToo) {
  PutTask(1);
  const LeaseRef lease = Take("bad");
  const RequestId waiting = d.Send("bad", GetOf(Every("t")));
  CompletionProblem(lease, {});
  PutTask(2);
  EXPECT_FALSE(d.ReplyTo("bad", waiting));
  d.Ask<Ok>("bad", Cancel{waiting});
  EXPECT_TRUE(d.ReplyTo("bad", waiting));
}

TEST_F(TrustTest, WhatABenchedClientDoesStillCounts) {
  PutTask(1);
  PutTask(2);
  const LeaseRef first = Take("bad");
  const LeaseRef second = Take("bad");
  CompletionProblem(first, {});
  EXPECT_EQ(d.Done("bad", second, {Plain(Key{"r", 2})}).lease, LeaseStatus::kOk);
}

TEST_F(TrustTest, TasksThatRunOutInARowBenchTheirTaker) {
  for (std::uint32_t i = 0; i < SpaceLimits{}.tasks_in_vain; ++i) {
    EXPECT_EQ(d.counters().benched, 0u);
    PutTask(i);
    Take("bad");
    d.Advance(kTrustLeaseUs);
    d.Done("good", Take("good"), {Plain(Key{"r", static_cast<std::int64_t>(i)})});
  }
  EXPECT_EQ(d.counters().benched, 1u);
}

TEST_F(TrustTest, ABenchedClientIsBetterThanNobody) {
  LoseTrust("bad", 1);
  const RequestId waiting = d.Send("bad", GetOf(Every("t")));
  PutTask(2);
  d.Lose("good");
  EXPECT_TRUE(d.Expect<Grants>("bad", waiting).grants.empty());
  EXPECT_TRUE(CanTake("bad"));
}

TEST_F(TrustTest, WhoIsAloneIsNeverBenched) {
  d.Lose("good");
  for (int i = 0; i < 20; ++i) {
    PutTask(i);
    const LeaseRef lease = Take("bad");
    d.Advance(kTrustLeaseUs);
    d.Done("bad", lease, {Plain(Key{"r", i})});
  }
  EXPECT_EQ(d.counters().benched, 0u);
}

TEST_F(TrustTest, GoodWorkIsRemembered) {
  LoseTrust("bad", 0);
  d.Advance(SpaceLimits{}.first_bench_us);
  for (std::uint32_t i = 1; i <= SpaceLimits{}.forgiven_after; ++i) {
    PutTask(i);
    d.Done("bad", Take("bad"), {Plain(Key{"r", static_cast<std::int64_t>(i)})});
  }
  LoseTrust("bad", 1000);
  d.Send("bad", GetOf(Every("t")));
  EXPECT_EQ(d.space.NextDeadlineUs(), d.now_us + SpaceLimits{}.first_bench_us);
}

}  // namespace
}  // namespace tuplespace
