// Leases and their ends: tasks are completed, given back or lost with their client.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "space_lease.h"

namespace tuplespace {
namespace {

using testing::Every;
using testing::GetOf;
using testing::LeaseTest;
using testing::Making;
using testing::Plain;
using testing::Task;
using testing::UpTo;

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

TEST_F(LeaseTest, ALeaseCanBeExtended) {
  PutWithLease(500, Task(Key{"t", 1}));
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

}  // namespace
}  // namespace tuplespace
