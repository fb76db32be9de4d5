// Leases that run out, and results that come after that.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "space_lease.h"

namespace tuplespace {
namespace {

using testing::Every;
using testing::LeaseTest;
using testing::Making;
using testing::Plain;
using testing::Task;

class LateResultTest : public LeaseTest {};

TEST_F(LateResultTest, AnExpiredLeaseIsStaleButItsResultsCount) {
  PutWithLease(500, Making(Task(Key{"t", 1}), {Key{"r", 1}}));
  const LeaseRef lease = Take("a");
  EXPECT_EQ(d->space.NextDeadlineUs(), 500);
  d->Advance(499);
  EXPECT_FALSE(CanTake("b"));
  d->Advance(1);
  EXPECT_EQ(d->counters().leases_expired, 1u);
  const LeaseRef second = Take("b");
  EXPECT_GT(second.fence, lease.fence);
  const auto late = d->Done("a", lease, {Plain(Key{"r", 1}, "x")});
  EXPECT_EQ(late.lease, LeaseStatus::kStale);
  EXPECT_EQ(late.results, std::vector{PutStatus::kStored});
  const auto repeated = d->Done("b", second, {Plain(Key{"r", 1}, "x")});
  EXPECT_EQ(repeated.lease, LeaseStatus::kStale) << "the late one has done the task";
  EXPECT_EQ(repeated.results, std::vector{PutStatus::kDuplicate});
  EXPECT_EQ(d->counters().completed, 1u);
  EXPECT_EQ(d->counters().stale, 2u);
  EXPECT_EQ(d->counters().conflicts, 0u);
}

TEST_F(LateResultTest, ALateCompletionEndsATaskThatNobodyHasTakenAgain) {
  const Tuple task = PutWithLease(500, Making(Task(Key{"t", 1}), {Key{"r", 1}}));
  const LeaseRef lease = Take("a");
  d->Advance(500);
  EXPECT_EQ(d->space.GetStatistics().tasks_ready, 1u);
  EXPECT_EQ(d->Done("a", lease, {Plain(Key{"r", 1}, "x")}).lease, LeaseStatus::kStale);
  EXPECT_FALSE(CanTake("b"));
  EXPECT_EQ(d->PutOne("m", task), PutStatus::kDuplicate) << "it is remembered as done";
}

TEST_F(LateResultTest, OnlyALeaseThatWasLostCanEndATaskLate) {
  PutWithLease(500, Task(Key{"t", 1}));
  const LeaseRef given_back = Take("a");
  EXPECT_EQ(d->Ask<LeaseReply>("a", Release{given_back}).lease, LeaseStatus::kOk);
  d->Done("a", given_back);
  const LeaseRef lost = Take("a");
  d->Advance(500);
  d->Done("b", lost);                        // the lease of another client
  d->Done("a", {lost.key, lost.fence + 1});  // a fence that was never granted
  EXPECT_EQ(d->counters().completed, 0u);
  EXPECT_TRUE(CanTake("b"));
}

// Over a slow link, and behind other results.
TEST_F(LateResultTest, AResultMayBeUnderWayForManyLeasesOfOthers) {
  PutWithLease(500, Making(Task(Key{"t", 1}), {Key{"r", 1}}));
  const LeaseRef lease = Take("a");
  d->Advance(500);
  for (int i = 0; i < 20; ++i) {
    const ClientId other = "o" + std::to_string(i);
    d->Join(other);
    Take(other);
    d->Advance(4000);  // the longest lease of this task
  }
  const auto late = d->Done("a", lease, {Plain(Key{"r", 1}, "x")});
  EXPECT_EQ(late.lease, LeaseStatus::kStale);
  EXPECT_EQ(late.results, std::vector{PutStatus::kStored});
}

TEST_F(LateResultTest, OfOneClientTheFirstLeaseThatRanOutAndTheLastOnesAreRemembered) {
  SpaceLimits limits;
  limits.tasks_in_vain = 1000;
  Begin(limits);
  for (int i = 0; i < 4; ++i) {
    PutWithLease(500, Making(Task(Key{"t", i}), {Key{"r", i}}));
    std::vector<LeaseRef> leases;
    for (int times = 0; times < 12; ++times) {
      leases.push_back(Take("a"));
      d->Advance(4000);
    }
    const bool counts = i != 1 && i != 2;
    const LeaseRef& lease = leases.at(std::vector{0u, 1u, 4u, 5u}.at(static_cast<unsigned>(i)));
    EXPECT_EQ(d->Done("a", lease, {Plain(Key{"r", i}, "x")}).results,
              std::vector{counts ? PutStatus::kStored : PutStatus::kRefused})
        << i;
    d->Ask<RetireReply>("m", Retire{Every("t"), false});
  }
}

TEST_F(LateResultTest, OfClientsThatAreGoneTheLastEightLeasesAreRemembered) {
  d->PutOne("m", Making(Task(Key{"t", 1}), {Key{"r", 1}}));
  std::vector<LeaseRef> leases;
  const auto client = [](std::size_t i) { return "o" + std::to_string(i); };
  for (std::size_t i = 0; i < 10; ++i) {
    d->Join(client(i));
    leases.push_back(Take(client(i)));
    d->Lose(client(i));
  }
  d->Join(client(0));
  EXPECT_EQ(d->Done(client(0), leases[0], {Plain(Key{"r", 1}, "x")}).results,
            std::vector{PutStatus::kRefused});
  d->Join(client(9));
  EXPECT_EQ(d->Done(client(9), leases[9], {Plain(Key{"r", 1}, "x")}).results,
            std::vector{PutStatus::kStored});
}

TEST_F(LateResultTest, ResultsSayHowLongTheTaskTook) {
  PutWithLease(500, Making(Task(Key{"t", 1}), {Key{"r", 1}}));
  const LeaseRef late = Take("a");
  d->Advance(500);
  Take("b");
  d->Advance(200);
  d->Done("a", late, {Plain(Key{"r", 1}, "x")});
  const auto found = d->Ask<Found>("m", Read{{Every("r")}, true, true, 0});
  ASSERT_EQ(found.tuples.size(), 1u);
  EXPECT_EQ(found.tuples[0].took_us, 700u);
  EXPECT_EQ(found.tuples[0].times_taken, 2u);
  d->PutOne("m", Plain(Key{"p", 1}));
  EXPECT_EQ(d->Ask<Found>("m", Read{{Every("p")}, true, true, 0}).tuples[0].times_taken, 0u);
}

TEST_F(LateResultTest, ADeadlineHoldsEvenIfTheTickIsLate) {
  PutWithLease(500, Task(Key{"t", 1}));
  const LeaseRef lease = Take("a");
  d->now_us = 501;
  EXPECT_EQ(d->Done("a", lease).lease, LeaseStatus::kStale);
}

TEST_F(LateResultTest, ALeaseThatRanOutIsTwiceAsLongTheNextTime) {
  SpaceLimits limits;
  limits.max_lease_us = 3000;
  Begin(limits);
  PutWithLease(500, Task(Key{"t", 1}));
  for (const std::int64_t lease_us : {500, 1000, 2000, 3000, 3000}) {
    Take("a");
    EXPECT_EQ(d->space.NextDeadlineUs(), d->now_us + lease_us);
    d->Advance(lease_us);
  }
}

}  // namespace
}  // namespace tuplespace
