// The end of leases, failures, and tasks that exclude clients.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "space_driver.h"

namespace tuplespace {
namespace {

using testing::Every;
using testing::GetOf;
using testing::Making;
using testing::Plain;
using testing::SpaceDriver;
using testing::Task;
using testing::UpTo;

class LeaseTest : public ::testing::Test {
 protected:
  void SetUp() override { Begin({}); }
  void Begin(SpaceLimits limits) {
    d = std::make_unique<SpaceDriver>(limits);
    for (const char* client : {"m", "a", "b"}) d->Join(client);
  }
  LeaseRef Take(const ClientId& client) { return d->TakeNow(client, Every("t")); }
  bool CanTake(const ClientId& client) { return !d->GetNow(client, Every("t")).empty(); }
  LeaseStatus FailIt(const ClientId& client, const LeaseRef& lease) {
    return d->Ask<LeaseReply>(client, Fail{lease, "out of memory"}).lease;
  }
  std::unique_ptr<SpaceDriver> d;
};

TEST_F(LeaseTest, CompletingPutsTheResultsAndRemembersTheTask) {
  d->PutOne("m", Making(Task(Key{"t", 1}), {Key{"r", 1}, Key{"r", 2}}));
  const LeaseRef lease = Take("a");
  const auto reply = d->Done("a", lease, {Plain(Key{"r", 1}, "x"), Plain(Key{"r", 2}, "y")});
  EXPECT_EQ(reply.lease, LeaseStatus::kOk);
  EXPECT_EQ(reply.results, (std::vector{PutStatus::kStored, PutStatus::kStored}));
  EXPECT_EQ(d->CountOf("m", Every("t")), 0u);
  EXPECT_EQ(d->CountOf("m", Every("r")), 2u);
  EXPECT_EQ(d->PutOne("m", Task(Key{"t", 1})), PutStatus::kDuplicate);
  EXPECT_FALSE(CanTake("b"));
  // The same Complete again, as after a lost reply.
  const auto again = d->Done("a", lease, {Plain(Key{"r", 1}, "x"), Plain(Key{"r", 2}, "y")});
  EXPECT_EQ(again.lease, LeaseStatus::kStale);
  EXPECT_EQ(again.results, (std::vector{PutStatus::kDuplicate, PutStatus::kDuplicate}));
  // The space remembers the key until it is retired.
  d->Ask<RetireReply>("m", Retire{Every("t"), false});
  EXPECT_EQ(d->PutOne("m", Task(Key{"t", 1})), PutStatus::kStored);
}

TEST_F(LeaseTest, CompletedTasksCountAsTuplesUntilRetired) {
  SpaceLimits limits;
  limits.tuples = 3;
  Begin(limits);
  for (int i = 0; i < 3; ++i) {
    d->PutOne("m", Task(Key{"t", i}));
    d->Done("a", Take("a"));
  }
  EXPECT_EQ(d->Ask<RequestError>("m", Put{{Plain(Key{"k", 1})}}).code, ErrorCode::kBusy);
  EXPECT_EQ(d->Ask<RetireReply>("m", Retire{UpTo("t", 1)}).removed, 0u);
  EXPECT_EQ(d->PutOne("m", Plain(Key{"k", 1})), PutStatus::kStored);
}

TEST_F(LeaseTest, CompletingIsAllOrNothing) {
  SpaceLimits limits;
  limits.payload_bytes = 10;
  Begin(limits);
  d->PutOne("m", Making(Task(Key{"t", 1}), {Key{"r", 1}, Key{"r", 2}}));
  const LeaseRef lease = Take("a");
  const RequestError busy = d->Ask<RequestError>(
      "a", Complete{lease, {Plain(Key{"r", 1}, "12"), Plain(Key{"r", 2}, "34567")}});
  EXPECT_EQ(busy.code, ErrorCode::kBusy);
  EXPECT_EQ(d->CountOf("m", Every("r")), 0u);
  EXPECT_EQ(d->space.GetStatistics().tasks_leased, 1u);
  EXPECT_EQ(d->Ask<RequestError>("a", Complete{lease, {Plain(Key())}}).code,
            ErrorCode::kBadRequest);
  EXPECT_EQ(d->Done("a", lease, {Plain(Key{"r", 1}, "12"), Plain(Key{"r", 2}, "3")}).lease,
            LeaseStatus::kOk);
}

TEST_F(LeaseTest, ResultsMakeTheNextTasksReady) {
  d->PutOne("m", Making(Task(Key{"t", 1}), {Key{"r", 1}}));
  d->PutOne("m", Task(Key{"t", 2}, {Key{"r", 1}}));
  const LeaseRef first = Take("a");
  const RequestId waiting = d->Send("b", GetOf(Every("t")));
  d->Done("a", first, {Plain(Key{"r", 1})});
  EXPECT_EQ(d->Granted("b", waiting).key, (Key{"t", 2}));
}

// For example, a leader's messages were under way for longer than its lead lasted.
TEST_F(LeaseTest, APutOrARetireUnderALeaseCountsOnlyWhileTheLeaseDoes) {
  d->PutOne("m", Plain(Key{"t", 1}));
  const LeaseRef lease = Take("a");
  const auto put_under = [&](const ClientId& client, int i, const LeaseRef& under) {
    return d->Ask<PutReply>(client, Put{{Plain(Key{"k", i}), Plain(Key{"l", i})}, under}).status;
  };
  const std::vector stored{PutStatus::kStored, PutStatus::kStored};
  const std::vector refused{PutStatus::kRefused, PutStatus::kRefused};
  EXPECT_EQ(put_under("a", 1, lease), stored);
  EXPECT_EQ(put_under("b", 2, lease), refused) << "it is the lease of another client";
  EXPECT_EQ(put_under("a", 2, {lease.key, lease.fence + 1}), refused);
  EXPECT_EQ(put_under("a", 2, {Key{"nowhere"}, lease.fence}), refused);
  EXPECT_EQ(d->Ask<LeaseReply>("a", Release{lease}).lease, LeaseStatus::kOk);
  EXPECT_EQ(put_under("a", 2, lease), refused);
  const LeaseRef second = Take("b");
  EXPECT_EQ(put_under("a", 2, lease), refused);
  EXPECT_EQ(put_under("b", 2, second), stored);

  const auto retire_under = [&](const ClientId& client, const LeaseRef& under) {
    return d->Ask<RetireReply>(client, Retire{UpTo("k", 2), true, under});
  };
  const RetireReply late = retire_under("a", lease);
  EXPECT_EQ(late.lease, LeaseStatus::kStale);
  EXPECT_EQ(late.removed, 0u);
  EXPECT_EQ(d->PutOne("m", Plain(Key{"k", 0})), PutStatus::kStored) << "no watermark was raised";
  const RetireReply in_time = retire_under("b", second);
  EXPECT_EQ(in_time.lease, LeaseStatus::kOk);
  EXPECT_EQ(in_time.removed, 3u);
}

TEST_F(LeaseTest, AnExpiredLeaseIsStaleButItsResultsCount) {
  Tuple task = Making(Task(Key{"t", 1}), {Key{"r", 1}});
  task.task->lease_us = 500;
  d->PutOne("m", task);
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

TEST_F(LeaseTest, ALateCompletionEndsATaskThatNobodyHasTakenAgain) {
  Tuple task = Making(Task(Key{"t", 1}), {Key{"r", 1}});
  task.task->lease_us = 500;
  d->PutOne("m", task);
  const LeaseRef lease = Take("a");
  d->Advance(500);
  EXPECT_EQ(d->space.GetStatistics().tasks_ready, 1u);
  EXPECT_EQ(d->Done("a", lease, {Plain(Key{"r", 1}, "x")}).lease, LeaseStatus::kStale);
  EXPECT_FALSE(CanTake("b"));
  EXPECT_EQ(d->PutOne("m", task), PutStatus::kDuplicate) << "it is remembered as done";
}

TEST_F(LeaseTest, OnlyALeaseThatWasLostCanEndATaskLate) {
  Tuple task = Task(Key{"t", 1});
  task.task->lease_us = 500;
  d->PutOne("m", task);
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
TEST_F(LeaseTest, AResultMayBeUnderWayForManyLeasesOfOthers) {
  Tuple task = Making(Task(Key{"t", 1}), {Key{"r", 1}});
  task.task->lease_us = 500;
  d->PutOne("m", task);
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

TEST_F(LeaseTest, OfOneClientTheFirstLeaseThatRanOutAndTheLastOnesAreRemembered) {
  SpaceLimits limits;
  limits.tasks_in_vain = 1000;
  Begin(limits);
  for (int i = 0; i < 4; ++i) {
    Tuple task = Making(Task(Key{"t", i}), {Key{"r", i}});
    task.task->lease_us = 500;
    d->PutOne("m", task);
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

TEST_F(LeaseTest, OfClientsThatAreGoneTheLastEightLeasesAreRemembered) {
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

TEST_F(LeaseTest, ALeaseThatRanOutIsTwiceAsLongTheNextTime) {
  SpaceLimits limits;
  limits.max_lease_us = 3000;
  Begin(limits);
  Tuple task = Task(Key{"t", 1});
  task.task->lease_us = 500;
  d->PutOne("m", task);
  for (const std::int64_t lease_us : {500, 1000, 2000, 3000, 3000}) {
    Take("a");
    EXPECT_EQ(d->space.NextDeadlineUs(), d->now_us + lease_us);
    d->Advance(lease_us);
  }
}

TEST_F(LeaseTest, ResultsSayHowLongTheTaskTook) {
  Tuple task = Making(Task(Key{"t", 1}), {Key{"r", 1}});
  task.task->lease_us = 500;
  d->PutOne("m", task);
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

TEST_F(LeaseTest, ADeadlineHoldsEvenIfTheTickIsLate) {
  Tuple task = Task(Key{"t", 1});
  task.task->lease_us = 500;
  d->PutOne("m", task);
  const LeaseRef lease = Take("a");
  d->now_us = 501;
  EXPECT_EQ(d->Done("a", lease).lease, LeaseStatus::kStale);
}

TEST_F(LeaseTest, ALeaseCanBeExtended) {
  Tuple task = Task(Key{"t", 1});
  task.task->lease_us = 500;
  d->PutOne("m", task);
  const LeaseRef lease = Take("a");
  d->Advance(400);
  EXPECT_EQ(d->Ask<LeaseReply>("a", Extend{lease, 1000}).lease, LeaseStatus::kOk);
  EXPECT_EQ(d->space.NextDeadlineUs(), 1400);
  d->Advance(999);
  EXPECT_EQ(d->Done("a", lease).lease, LeaseStatus::kOk);
  EXPECT_EQ(d->Ask<LeaseReply>("a", Extend{lease, 1000}).lease, LeaseStatus::kStale);
}

TEST_F(LeaseTest, OnlyTheHolderOfALeaseCanEndIt) {
  d->PutOne("m", Task(Key{"t", 1}));
  const LeaseRef lease = Take("a");
  EXPECT_EQ(d->Done("b", lease).lease, LeaseStatus::kStale);
  EXPECT_EQ(d->Ask<LeaseReply>("b", Release{lease}).lease, LeaseStatus::kStale);
  EXPECT_EQ(d->Ask<LeaseReply>("a", Release{{lease.key, lease.fence + 1}}).lease,
            LeaseStatus::kStale);
  EXPECT_EQ(d->Ask<LeaseReply>("a", Release{{Key{"nowhere"}, 1}}).lease, LeaseStatus::kStale);
  EXPECT_EQ(d->Done("a", lease).lease, LeaseStatus::kOk);
}

TEST_F(LeaseTest, ALostClientsLeasesReturnAtOnce) {
  d->PutOne("m", Task(Key{"t", 1}));
  const LeaseRef lease = Take("a");
  const RequestId waiting = d->Send("b", GetOf(Every("t")));
  d->Lose("a");
  EXPECT_EQ(d->Granted("b", waiting).key, (Key{"t", 1}));
  EXPECT_EQ(d->counters().leases_returned, 1u);
  d->Join("a");
  EXPECT_EQ(d->Done("a", lease).lease, LeaseStatus::kStale);
}

// It may be what kills them.
TEST_F(LeaseTest, ATaskWithWhichThreeClientsWereLostIsNamedOnce) {
  for (const std::int64_t number : {1, 2}) d->PutOne("m", Task(Key{"t", number}));
  for (const char* client : {"1", "2", "3", "4", "5", "6"}) {
    d->Join(client);
    EXPECT_EQ(Take(client).key, (Key{"t", 1}));
    EXPECT_EQ(Take(client).key, (Key{"t", 2})) << "it has not begun this one";
    d->Lose(client);
    EXPECT_EQ(d->notices["m"].size(), client < std::string("3") ? 0u : 1u);
  }
  ASSERT_EQ(d->notices["m"].size(), 1u);
  const Notice& notice = d->notices["m"][0];
  EXPECT_EQ(notice.kind, Notice::Kind::kMistrusted);
  EXPECT_EQ(notice.key, (Key{"t", 1}));
  EXPECT_EQ(notice.by, "3");
  EXPECT_NE(notice.text.find("3 clients were lost while they held it"), std::string::npos);
  EXPECT_TRUE(CanTake("a")) << "it stays ready";
}

TEST_F(LeaseTest, AClientThatReturnsWasNotKilledByItsTask) {
  d->PutOne("m", Task(Key{"t", 1}));
  for (int i = 0; i < 5; ++i) {
    Take("a");
    d->Lose("a");
    d->Join("a");
  }
  EXPECT_TRUE(d->notices["m"].empty());
}

TEST_F(LeaseTest, AReconnectedClientKeepsItsLeasesAndAsksAgain) {
  d->PutOne("m", Task(Key{"t", 1}));
  const LeaseRef lease = Take("a");
  const RequestId open = d->Send("a", GetOf(Every("t")));
  d->Join("a");
  d->PutOne("m", Task(Key{"t", 2}));
  EXPECT_FALSE(d->ReplyTo("a", open));
  d->Step(Incoming{"a", {open, GetOf(Every("t"))}});
  EXPECT_EQ(d->Granted("a", open).key, (Key{"t", 2}));
  EXPECT_EQ(d->Done("a", lease).lease, LeaseStatus::kOk);
}

TEST_F(LeaseTest, AStoredBackTaskIsTakenByTheNext) {
  d->PutOne("m", Task(Key{"t", 1}));
  const LeaseRef lease = Take("a");
  EXPECT_EQ(d->Ask<LeaseReply>("a", Release{lease}).lease, LeaseStatus::kOk);
  EXPECT_EQ(d->counters().released, 1u);
  EXPECT_EQ(Take("b").key, (Key{"t", 1}));
  EXPECT_TRUE(d->notices.empty());
}

TEST_F(LeaseTest, AFailedTaskGoesToOthersFirst) {
  EXPECT_FALSE(CanTake("b"));  // so b counts as a client that asks for tasks
  d->PutOne("m", Task(Key{"t", 1}));
  EXPECT_EQ(FailIt("a", Take("a")), LeaseStatus::kOk);
  EXPECT_FALSE(CanTake("a"));
  EXPECT_EQ(FailIt("a", {Key{"t", 1}, 1}), LeaseStatus::kStale);
  EXPECT_EQ(Take("b").key, (Key{"t", 1}));
}

TEST_F(LeaseTest, AFailedTaskComesBackToItsClientInTheEnd) {
  EXPECT_FALSE(CanTake("b"));
  d->PutOne("m", Task(Key{"t", 1}));
  FailIt("a", Take("a"));
  const RequestId waiting = d->Send("a", GetOf(Every("t")));
  EXPECT_EQ(d->space.NextDeadlineUs(), SpaceLimits{}.default_lease_us);
  d->Advance(SpaceLimits{}.default_lease_us - 1);
  EXPECT_FALSE(d->ReplyTo("a", waiting));
  d->Advance(1);
  EXPECT_EQ(d->Granted("a", waiting).key, (Key{"t", 1}));
}

TEST_F(LeaseTest, ABadDeviceLeavesAFailedTaskToOneThatIsBusy) {
  Tuple task = Task(Key{"t", 1});
  task.task->lease_us = 500'000;
  d->PutOne("m", Task(Key{"t", 0}));
  const LeaseRef long_one = Take("b");
  d->PutOne("m", task);
  FailIt("a", Take("a"));
  d->Send("a", GetOf(Every("t")));
  d->Advance(400'000);
  d->Done("b", long_one);
  EXPECT_EQ(Take("b").key, (Key{"t", 1}));
}

TEST_F(LeaseTest, AFailedTaskComesBackAtOnceIfThereIsNobodyElse) {
  d->PutOne("m", Task(Key{"t", 1}));
  FailIt("a", Take("a"));
  EXPECT_TRUE(CanTake("a"));
}

TEST_F(LeaseTest, ATaskThatFailsTooOftenIsParked) {
  d->PutOne("m", Task(Key{"t", 1}, {}));
  for (int i = 0; i < 3; ++i) FailIt("a", Take("a"));
  EXPECT_FALSE(CanTake("b"));
  EXPECT_EQ(d->space.GetStatistics().tasks_parked, 1u);
  EXPECT_EQ(d->counters().failed, 3u);
  ASSERT_EQ(d->notices["m"].size(), 1u);
  const Notice& notice = d->notices["m"][0];
  EXPECT_EQ(notice.kind, Notice::Kind::kParked);
  EXPECT_EQ(notice.by, "a");
  EXPECT_EQ(notice.text, "out of memory");
  EXPECT_EQ(d->PutOne("m", Task(Key{"t", 1})), PutStatus::kDuplicate);
  EXPECT_EQ(d->Ask<RetireReply>("m", Retire{Every("t"), false}).removed, 1u);
  EXPECT_EQ(d->PutOne("m", Task(Key{"t", 1})), PutStatus::kStored);
  EXPECT_EQ(Take("a").key, (Key{"t", 1}));
}

TEST_F(LeaseTest, AnEphemeralTupleLeasedByItsOwnClientGoesWithIt) {
  Tuple tuple = Plain(Key{"t", 1});
  tuple.ephemeral = true;
  d->PutOne("a", tuple);
  Take("a");
  const RequestId waiting = d->Send("b", GetOf(Every("t")));
  d->Lose("a");
  EXPECT_FALSE(d->ReplyTo("b", waiting));
  EXPECT_EQ(d->space.GetStatistics().tuples, 0u);
}

TEST_F(LeaseTest, TheSameEventsGiveTheSameActions) {
  std::vector<std::string> runs;
  for (int run = 0; run < 2; ++run) {
    Begin({});
    for (int i = 0; i < 50; ++i) d->PutOne("m", Task(Key{"t", i}, {Key{"x", i % 5}}, i % 3, 0));
    for (int i = 0; i < 5; ++i) d->PutOne("m", Plain(Key{"x", i}));
    d->Ask<Ok>("a", Hold{{Key{"x", 0}, Key{"x", 3}}, {}});
    std::string taken;
    for (int i = 0; i < 50; ++i) {
      d->Advance(300);
      for (const Grant& grant : d->GetNow(i % 3 == 0 ? "a" : "b", Every("t"))) {
        taken += grant.key.ToString() + std::to_string(grant.fence);
      }
    }
    runs.push_back(taken);
  }
  EXPECT_EQ(runs[0], runs[1]);
  EXPECT_FALSE(runs[0].empty());
}

Tuple TaskNotBy(Key key, std::vector<ClientId> clients, std::vector<Key> inputs = {},
                std::int32_t affinity = -1) {
  Tuple tuple = Task(std::move(key), std::move(inputs), 0, affinity);
  tuple.task->not_by = std::move(clients);
  return tuple;
}

TEST_F(LeaseTest, ATaskIsKeptFromWhomItNames) {
  const RequestId waiting = d->Send("a", GetOf(Every("t")));
  d->PutOne("m", TaskNotBy(Key{"t", 1}, {"b", "a", "a"}));
  EXPECT_FALSE(d->ReplyTo("a", waiting));
  EXPECT_FALSE(CanTake("b"));
  const auto grants = d->GetNow("m", Every("t"));
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_TRUE(grants[0].task->not_by.empty());  // a grant does not show the exclusions
}

TEST_F(LeaseTest, ATaskStaysKeptFromThemWhateverBecomesOfIt) {
  d->PutOne("m", Plain(Key{"x", 1}));
  d->Ask<Ok>("a", Hold{{Key{"x", 1}}, {}});
  EXPECT_FALSE(CanTake("a"));  // a asks for this pattern and holds the tile
  EXPECT_FALSE(CanTake("b"));
  d->PutOne("m", TaskNotBy(Key{"t", 1}, {"a"}, {Key{"x", 1}}, 0));
  EXPECT_FALSE(CanTake("a"));
  EXPECT_EQ(FailIt("b", Take("b")), LeaseStatus::kOk);
  EXPECT_FALSE(CanTake("a"));
  d->Advance(1'000'000);
  EXPECT_FALSE(CanTake("a"));
  d->Lose("a");
  d->Join("a");
  EXPECT_FALSE(CanTake("a"));
  EXPECT_TRUE(CanTake("b"));
}

TEST_F(LeaseTest, ATaskIsKeptFromAllClientsOfAKey) {
  for (const char* client : {"evil/0", "evil/1", "evil2/0"}) d->Join(client);
  const RequestId waiting = d->Send("evil/0", GetOf(Every("t")));
  d->PutOne("m", Plain(Key{"x", 1}));
  d->Ask<Ok>("evil/0", Hold{{Key{"x", 1}}, {}});
  d->PutOne("m", TaskNotBy(Key{"t", 1}, {"evil/"}, {Key{"x", 1}}, 0));
  EXPECT_FALSE(d->ReplyTo("evil/0", waiting));
  EXPECT_FALSE(CanTake("evil/1"));
  EXPECT_EQ(FailIt("evil2/0", Take("evil2/0")), LeaseStatus::kOk);
  EXPECT_FALSE(CanTake("evil/1"));
  EXPECT_TRUE(CanTake("evil2/0"));  // at once, since no other client could take it
}

TEST_F(LeaseTest, TooManyExclusionsAreRefused) {
  SpaceLimits limits;
  limits.task_exclusions = 2;
  Begin(limits);
  const auto error = d->Ask<RequestError>("m", Put{{TaskNotBy(Key{"t", 1}, {"a", "b", "c"})}});
  EXPECT_EQ(error.code, ErrorCode::kTooLarge);
  EXPECT_NE(error.text.find("limits.task_exclusions"), std::string::npos) << error.text;
}

}  // namespace
}  // namespace tuplespace
