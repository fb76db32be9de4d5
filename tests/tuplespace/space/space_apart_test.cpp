// Clients that decide only about some tasks (ClientLimits::judges_apart): what others do with these
// tasks counts for these alone, and such a client cannot use up what all share.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "space_driver.h"

namespace tuplespace {
namespace {

using testing::Every;
using testing::GetOf;
using ::testing::HasSubstr;
using testing::Making;
using testing::Plain;
using testing::SpaceDriver;
using testing::Task;
using testing::UpTo;

constexpr std::int64_t kApartLeaseUs = 1'000;
constexpr SpaceLimits kApartLimits;

// "limited/1" judges apart, "m/1" does not; both put tasks. "a/1" and "b/1" have keys of their own
// and take tasks.
class ApartTest : public ::testing::Test {
 protected:
  ApartTest() {
    ClientLimits limits;
    limits.judges_apart = true;
    limits.exclusions_of_key = 2;
    limits.watermarks_of_key = 2;
    d.Step(ClientJoined{"limited/1", "limited", limits});
    Join("m/1");
    for (const char* client : {"a/1", "b/1"}) JoinTaker(client);
  }
  void Join(const ClientId& client) {
    d.Step(ClientJoined{client, client.substr(0, client.find('/')), {}});
  }
  void JoinTaker(const ClientId& client) {
    Join(client);
    EXPECT_TRUE(d.GetNow(client, Every("t")).empty());
  }
  Key PutTask(const ClientId& owner) {
    const std::int64_t number = next_++;
    Tuple task = Making(Task(Key{"t", number}, {}, 1), {Key{"r", number}});
    task.task->lease_us = kApartLeaseUs;
    EXPECT_EQ(d.PutOne(owner, task), PutStatus::kStored);
    return Key{"t", number};
  }
  // The keys of the tasks that the client gets now.
  std::vector<Key> Take(const ClientId& client, std::uint32_t count = 1) {
    std::vector<Key> keys;
    for (const Grant& grant : d.GetNow(client, Every("t"), UINT64_MAX, count)) {
      keys.push_back(grant.key);
    }
    return keys;
  }
  // Completes a task of this owner in a way that benches the client at once. Another client does
  // the task.
  void Offend(const ClientId& client, const ClientId& owner, const ClientId& other = "b/1") {
    const Key task = PutTask(owner);
    const LeaseRef lease = d.TakeNow(client, Every("t"));
    EXPECT_EQ(lease.key, task);
    const std::uint64_t before = d.counters().benched;
    d.Ask<RequestError>(client, Complete{lease, {}});
    EXPECT_EQ(d.counters().benched, before + 1);
    const std::int64_t number = std::get<std::int64_t>(task.Fields()[1]);
    d.Done(other, d.TakeNow(other, Every("t")), {Plain(Key{"r", number})});
  }

  SpaceDriver d;
  std::int64_t next_ = 0;
};

TEST_F(ApartTest, WhoKeepsSuchTasksStillGetsAllOthers) {
  Offend("a/1", "limited/1");
  EXPECT_THAT(d.notices["limited/1"].back().text, HasSubstr("no tasks of key \"limited\""));
  PutTask("limited/1");
  EXPECT_EQ(Take("a/1").size(), 0u);
  const Key other = PutTask("m/1");
  EXPECT_EQ(Take("a/1", 9), std::vector<Key>{other});
  EXPECT_EQ(Take("b/1", 9).size(), 1u) << "others get it";
}

TEST_F(ApartTest, SoDoesWhoWaits) {
  const RequestId waits = d.Send("a/1", GetOf(Every("t")));
  const Key first = PutTask("limited/1");
  const LeaseRef lease = d.Granted("a/1", waits);
  EXPECT_EQ(lease.key, first);
  d.Ask<RequestError>("a/1", Complete{lease, {}});
  const RequestId again = d.Send("a/1", GetOf(Every("t")));
  EXPECT_EQ(d.TakeNow("b/1", Every("t")).key, first);
  PutTask("limited/1");
  EXPECT_FALSE(d.ReplyTo("a/1", again));
  const Key other = PutTask("m/1");
  EXPECT_EQ(d.Granted("a/1", again).key, other);
}

TEST_F(ApartTest, AnOtherBenchStillCountsForAll) {
  Offend("a/1", "m/1");
  PutTask("limited/1");
  PutTask("m/1");
  EXPECT_EQ(Take("a/1", 9).size(), 0u);
}

TEST_F(ApartTest, AGetThatWaitsEndsWithTheBench) {
  Offend("a/1", "limited/1");
  const RequestId waits = d.Send("a/1", GetOf(Every("t")));
  const Key task = PutTask("limited/1");
  d.Advance(kApartLimits.first_bench_us - 1);
  EXPECT_FALSE(d.ReplyTo("a/1", waits));
  d.Advance(1);
  EXPECT_TRUE(d.Expect<Grants>("a/1", waits).grants.empty());
  EXPECT_EQ(Take("a/1"), std::vector<Key>{task});
}

TEST_F(ApartTest, EachBenchIsTwiceAsLong) {
  Offend("a/1", "limited/1");
  d.Advance(kApartLimits.first_bench_us);
  Offend("a/1", "limited/1");
  d.Advance(2 * kApartLimits.first_bench_us - 1);
  PutTask("limited/1");
  EXPECT_EQ(Take("a/1").size(), 0u);
  d.Advance(1);
  EXPECT_EQ(Take("a/1").size(), 1u);
}

TEST_F(ApartTest, ANewIdOfTheKeyIsNoBetterForTheseTasks) {
  Offend("a/1", "limited/1");
  d.Lose("a/1");
  JoinTaker("a/2");
  PutTask("limited/1");
  EXPECT_EQ(Take("a/2").size(), 0u);
  for (int i = 0; i < 3; ++i) PutTask("m/1");
  EXPECT_EQ(Take("a/2", 3).size(), 3u) << "it is on no probation for others";
}

TEST_F(ApartTest, WhoCompletesATaskIsNotAffectedByNewIdsOfItsKey) {
  JoinTaker("a/2");
  const Key task = PutTask("m/1");
  const std::int64_t number = std::get<std::int64_t>(task.Fields()[1]);
  d.Done("a/2", d.TakeNow("a/2", Every("t")), {Plain(Key{"r", number})});
  Offend("a/1", "limited/1");
  PutTask("limited/1");
  EXPECT_EQ(Take("a/1").size(), 0u);
  EXPECT_EQ(Take("a/2").size(), 1u);
}

// An untried client waits with its key. When it has completed a task it does not any more.
TEST_F(ApartTest, AGetThatWaitsWithItsKeyEndsWithTheFirstCompletedTask) {
  JoinTaker("a/2");
  const Key other = PutTask("m/1");
  const LeaseRef lease = d.TakeNow("a/2", Every("t"));
  EXPECT_EQ(lease.key, other);
  Offend("a/1", "limited/1");
  const RequestId waits = d.Send("a/2", GetOf(Every("t")));
  const Key task = PutTask("limited/1");
  EXPECT_FALSE(d.ReplyTo("a/2", waits));
  d.Done("a/2", lease, {Plain(Key{"r", std::get<std::int64_t>(other.Fields()[1])})});
  EXPECT_TRUE(d.Expect<Grants>("a/2", waits).grants.empty());
  EXPECT_EQ(Take("a/2"), std::vector<Key>{task});
}

TEST_F(ApartTest, TheBenchEndsIfNobodyElseIsLeft) {
  d.GetNow("limited/1", Every("t"), 0);  // it does not count: it takes its own tasks at most
  Offend("a/1", "limited/1");
  const RequestId waits = d.Send("a/1", GetOf(Every("t")));
  const Key task = PutTask("limited/1");
  d.Lose("b/1");
  EXPECT_TRUE(d.Expect<Grants>("a/1", waits).grants.empty());
  EXPECT_EQ(Take("a/1"), std::vector<Key>{task});
}

TEST_F(ApartTest, TasksThatAreKeptForABenchedClientGoToOthers) {
  Offend("a/1", "limited/1");
  Tuple task = Task(Key{"t", 100});
  task.task->prefers = "a/1";
  task.task->prefer_us = 1'000'000;
  d.PutOne("limited/1", task);
  EXPECT_EQ(Take("b/1"), std::vector<Key>{task.key});
}

TEST_F(ApartTest, OneThatTakesItsOwnTasksShortensNobodysReservations) {
  const auto put = [&](const ClientId& owner, std::int64_t number) {
    Tuple task = Task(Key{"t", number}, {}, 1);
    task.task->prefers = "a/1";
    task.task->prefer_us = 1'000'000;
    d.PutOne(owner, task);
  };
  const RequestId elsewhere = d.Send("a/1", GetOf(Every("u")));
  for (std::int64_t number = 100; number < 103; ++number) {
    put("limited/1", number);
    d.Advance(1'000'000);
    d.TakeNow("limited/1", Every("t"));
  }
  put("m/1", 103);
  d.Advance(999'999);
  EXPECT_EQ(Take("b/1").size(), 0u);
  d.Advance(1);
  EXPECT_EQ(Take("b/1").size(), 1u);
  EXPECT_FALSE(d.ReplyTo("a/1", elsewhere));
}

// It could name a client for tasks that others take late.
TEST_F(ApartTest, ItsTasksShortenOnlyTheirOwnReservations) {
  const auto put = [&](const ClientId& owner, std::int64_t number, const ClientId& prefers) {
    Tuple task = Task(Key{"t", number}, {}, 1);
    task.task->prefers = prefers;
    task.task->prefer_us = 1'000'000;
    d.PutOne(owner, task);
  };
  const auto expect_kept = [&](std::int64_t kept_us) {
    d.Advance(kept_us - 1);
    EXPECT_EQ(Take("b/1").size(), 0u);
    d.Advance(1);
    EXPECT_EQ(Take("b/1").size(), 1u);
  };
  d.Send("a/1", GetOf(Every("u")));
  put("limited/1", 100, "a/1");
  expect_kept(1'000'000);
  put("limited/1", 101, "a/1");
  expect_kept(250'000);
  put("m/1", 102, "a/1");
  expect_kept(1'000'000);

  put("limited/1", 103, "a/1");  // it leaves while this one waits for it
  d.Lose("a/1");
  EXPECT_EQ(Take("b/1").size(), 1u);
  JoinTaker("a/2");
  d.Send("a/2", GetOf(Every("u")));
  put("m/1", 104, "a/2");
  expect_kept(250'000);  // because of task 102
  put("limited/1", 105, "a/2");
  expect_kept(15'625);
}

// The space must keep it for no client that cannot take it.
TEST_F(ApartTest, ATaskThatDoesNotFitItsNamedClientIsNotKeptForIt) {
  Join("c/1");
  EXPECT_TRUE(d.GetNow("c/1", Every("t"), 0).empty());  // it has offered nothing so far
  Tuple task = Task(Key{"t", 100}, {}, 1);
  task.task->prefers = "c/1";
  task.task->prefer_us = 1'000'000;
  d.PutOne("m/1", task);
  EXPECT_EQ(Take("b/1"), std::vector<Key>{task.key});
}

// Handlers would go on with what a revoked key has left.
TEST_F(ApartTest, WhenItsKeyEndsItsTasksGoThatNobodyHas) {
  const Key taken = PutTask("limited/1");
  const LeaseRef lease = d.TakeNow("a/1", Every("t"));
  PutTask("limited/1");
  d.PutOne("limited/1", Task(Key{"t", 100}, {Key{"none", 1}}));
  const Key other = PutTask("m/1");
  d.Lose("limited/1");
  d.Step(KeyEnded{"limited"});
  EXPECT_EQ(d.CountOf("m/1", Every("t")), 2u);
  EXPECT_EQ(Take("b/1", 9), std::vector<Key>{other});
  const Key result{"r", std::get<std::int64_t>(taken.Fields()[1])};
  EXPECT_EQ(d.Done("a/1", lease, {Plain(result)}).lease, LeaseStatus::kOk);
}

// A task that is always leased would go on for ever otherwise.
TEST_F(ApartTest, WhenItsKeyEndsTakenTasksGoWithTheirLeases) {
  JoinTaker("c/1");
  for (int i = 0; i < 4; ++i) PutTask("limited/1");
  const LeaseRef released = d.TakeNow("a/1", Every("t"));
  const LeaseRef failed = d.TakeNow("a/1", Every("t"));
  d.TakeNow("b/1", Every("t"));
  d.TakeNow("c/1", Every("t"));
  d.Lose("limited/1");
  d.Step(KeyEnded{"limited"});
  EXPECT_EQ(d.CountOf("m/1", Every("t")), 4u);
  EXPECT_EQ(d.Ask<LeaseReply>("a/1", Release{released}).lease, LeaseStatus::kOk);
  EXPECT_EQ(d.CountOf("m/1", Every("t")), 3u);
  EXPECT_EQ(d.Ask<LeaseReply>("a/1", Fail{failed, "cause"}).lease, LeaseStatus::kOk);
  EXPECT_EQ(d.CountOf("m/1", Every("t")), 2u);
  d.Lose("b/1");
  EXPECT_EQ(d.CountOf("m/1", Every("t")), 1u);
  d.Advance(kApartLeaseUs);
  EXPECT_EQ(d.CountOf("m/1", Every("t")), 0u);
}

TEST_F(ApartTest, WhenItsKeyEndsATaskThatFailsOnceMoreIsNotParked) {
  for (const char* client : {"c/1", "d/1"}) JoinTaker(client);
  PutTask("limited/1");
  for (const char* client : {"a/1", "b/1", "c/1"}) {
    d.Ask<LeaseReply>(client, Fail{d.TakeNow(client, Every("t")), "cause"});
  }
  const LeaseRef last = d.TakeNow("d/1", Every("t"));
  d.Lose("limited/1");
  d.Step(KeyEnded{"limited"});
  d.Ask<LeaseReply>("d/1", Fail{last, "cause"});
  EXPECT_EQ(d.counters().parked, 0u);
  EXPECT_EQ(d.CountOf("m/1", Every("t")), 0u);
}

// A key with the same name may follow. What it puts has nothing to do with the old tasks.
TEST_F(ApartTest, TheNextKeyOfThisNameKeepsItsOwnTasks) {
  PutTask("limited/1");
  const LeaseRef old = d.TakeNow("a/1", Every("t"));
  d.Lose("limited/1");
  d.Step(KeyEnded{"limited"});
  ClientLimits limits;
  limits.judges_apart = true;
  d.Step(ClientJoined{"limited/2", "limited", limits});
  const Key next = PutTask("limited/2");
  const LeaseRef lease = d.TakeNow("b/1", Every("t"));
  EXPECT_EQ(lease.key, next);
  d.Ask<LeaseReply>("b/1", Release{lease});
  d.Ask<LeaseReply>("a/1", Release{old});
  EXPECT_EQ(Take("b/1", 9), std::vector<Key>{next});
}

// ---- what it may use ----------------------------------------------------------------------------

// Each list of clients for which failed tasks are barred costs every Get a look, too.
TEST_F(ApartTest, ListsOfBarredClientsAreLimited) {
  for (const char* client : {"c/1", "d/1"}) JoinTaker(client);
  std::vector<Key> tasks;
  for (int i = 0; i < 3; ++i) tasks.push_back(PutTask("limited/1"));
  std::vector<LeaseRef> leases;
  for (const char* client : {"a/1", "b/1", "c/1"}) leases.push_back(d.TakeNow(client, Every("t")));
  d.Ask<LeaseReply>("a/1", Fail{leases[0], "cause"});
  d.Ask<LeaseReply>("b/1", Fail{leases[1], "cause"});
  d.Ask<LeaseReply>("c/1", Fail{leases[2], "cause"});
  EXPECT_EQ(Take("c/1", 9), tasks) << "nobody waits for others with the third one";
  // The lists end with the time for which tasks are barred, or when somebody takes them.
  const Key fourth = PutTask("limited/1");
  const LeaseRef lease = d.TakeNow("a/1", Every("t"));
  EXPECT_EQ(lease.key, fourth);
  d.Ask<LeaseReply>("a/1", Fail{lease, "cause"});
  EXPECT_EQ(Take("a/1").size(), 0u);
  EXPECT_EQ(Take("d/1"), std::vector<Key>{fourth});
}

// A task that has failed on all clients is barred for these between two attempts.
TEST_F(ApartTest, WithoutRoomForItsListATaskThatAllFailIsParked) {
  for (const char* client : {"a/1", "b/1"}) d.Lose(client);
  const auto fail_alone = [&](const ClientId& client, std::int64_t number,
                              std::vector<ClientId> not_by) {
    JoinTaker(client);
    Tuple task = Task(Key{"t", number}, {}, 1);
    task.task->not_by = std::move(not_by);
    EXPECT_EQ(d.PutOne("limited/1", task), PutStatus::kStored);
    for (int i = 0; i < 3; ++i) {
      d.Ask<LeaseReply>(client, Fail{d.TakeNow(client, Every("t")), "cause"});
    }
    d.Lose(client);
  };
  fail_alone("c/1", 1, {"d/1", "e/1"});
  fail_alone("d/1", 2, {"e/1"});
  EXPECT_EQ(d.counters().parked, 0u);
  fail_alone("e/1", 3, {});
  EXPECT_EQ(d.counters().parked, 1u);
}

TEST_F(ApartTest, ListsOfExcludedClientsAreLimited) {
  const auto task = [](std::int64_t number, std::vector<ClientId> not_by) {
    Tuple tuple = Task(Key{"t", number});
    tuple.task->not_by = std::move(not_by);
    return tuple;
  };
  d.PutOne("limited/1", task(1, {"x"}));
  d.PutOne("limited/1", task(2, {"x", "y"}));
  d.PutOne("limited/1", task(3, {"y", "x", "y"}));
  d.PutOne("limited/1", task(4, {}));
  const RequestError busy = d.Ask<RequestError>("limited/1", Put{{task(5, {"z"})}});
  EXPECT_EQ(busy.code, ErrorCode::kBusy);
  EXPECT_THAT(busy.text, HasSubstr("(different lists not_by): 1 more with 2 there"));
  EXPECT_EQ(d.PutOne("m/1", task(6, {"z"})), PutStatus::kStored) << "others have no limit";
  d.Ask<RetireReply>("limited/1", Retire{Pattern::Of(Key{"t", 2}), false});
  EXPECT_EQ(d.Ask<RequestError>("limited/1", Put{{task(5, {"z"})}}).code, ErrorCode::kBusy);
  d.Ask<RetireReply>("limited/1", Retire{Pattern::Of(Key{"t", 3}), false});
  EXPECT_EQ(d.PutOne("limited/1", task(5, {"z"})), PutStatus::kStored);
}

TEST_F(ApartTest, ManyListsComeAndGo) {
  std::vector<Tuple> tasks;
  for (std::int64_t i = 0; i < 2'000; ++i) {
    tasks.push_back(Task(Key{"t", i}));
    tasks.back().task->not_by = {"x" + std::to_string(i)};
  }
  d.Ask<PutReply>("m/1", Put{std::move(tasks)});
  EXPECT_EQ(d.Ask<RetireReply>("m/1", Retire{Every("t"), false}).removed, 2'000u);
  EXPECT_EQ(d.space.GetStatistics().tuples, 0u);
}

TEST_F(ApartTest, WatermarksAreLimited) {
  const auto mark = [&](const ClientId& client, const char* kind) {
    d.Ask<RetireReply>(client, Retire{UpTo(kind, 5)});
  };
  mark("m/1", "of m");
  for (const char* kind : {"w1", "w2", "w1", "w3"}) mark("limited/1", kind);
  EXPECT_EQ(d.PutOne("m/1", Plain(Key{"w2", 1})), PutStatus::kStored) << "the oldest one is gone";
  EXPECT_EQ(d.PutOne("m/1", Plain(Key{"w1", 1})), PutStatus::kRetired);
  EXPECT_EQ(d.PutOne("m/1", Plain(Key{"w3", 1})), PutStatus::kRetired);
  EXPECT_EQ(d.PutOne("m/1", Plain(Key{"of m", 1})), PutStatus::kRetired);
}

// The broker charges it in its client's turn.
TEST_F(ApartTest, ARetireCountsAsMuchAsItExaminesAndRemoves) {
  std::vector<Tuple> tuples;
  for (std::int64_t i = 0; i < 100; ++i) tuples.push_back(Plain(Key{"p", i}));
  d.Ask<PutReply>("m/1", Put{std::move(tuples)});
  const std::uint64_t before = d.space.ExaminedByScans();
  d.Ask<RetireReply>("m/1", Retire{{{FieldPattern::Exact("p")}, false}, false});
  const std::uint64_t examined = d.space.ExaminedByScans();
  EXPECT_GE(examined, before + 100);
  d.Ask<RetireReply>("m/1", Retire{Every("p"), false});
  EXPECT_GE(d.space.ExaminedByScans(), examined + 200);
}

}  // namespace
}  // namespace tuplespace
