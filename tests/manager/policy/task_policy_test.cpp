// The policies alone, with simulated time and handlers: what they put when, how long they lease
// tasks, and that they never stop before everything is done.
#include "acan/manager/task_policy.h"

#include <gtest/gtest.h>

#include <deque>
#include <numeric>
#include <queue>

#include "policies.h"
#include "tuplespace/messages.h"

namespace acan {
namespace {

constexpr std::int64_t kMs = 1000;
constexpr std::int64_t kSecondUs = 1'000'000;

TaskLimits Limits(Policy policy, std::optional<std::int64_t> pouch = {},
                  std::optional<std::int64_t> timeout_ms = {}) {
  TaskLimits limits;
  limits.policy = policy;
  limits.pouch = pouch;
  limits.timeout_ms = timeout_ms;
  return limits;
}

// ---- response times -----------------------------------------------------------------------------

TEST(ResponseTimesTest, FollowsRfc6298) {
  ResponseTimes times;
  const Work work{TaskKind::kForward, 1000};
  EXPECT_EQ(times.LeaseUs(work), kFirstLeaseUs);
  times.Note(work, 800 * kMs);  // mean 800, deviation 400
  EXPECT_EQ(times.LeaseUs(work), 2400 * kMs);
  times.Note(work, 400 * kMs);  // deviation 3/4 * 400 + 1/4 * 400, mean 7/8 * 800 + 1/8 * 400
  EXPECT_EQ(times.LeaseUs(work), (750 + 4 * 400) * kMs);
}

TEST(ResponseTimesTest, LearnsEachKindAndSizeApart) {
  ResponseTimes times;
  times.Note({TaskKind::kForward, 1000}, kSecondUs);
  EXPECT_EQ(times.LeaseUs({TaskKind::kForward, 1023}), 3 * kSecondUs) << "the same power of two";
  EXPECT_EQ(times.LeaseUs({TaskKind::kForward, 1024}), kFirstLeaseUs);
  EXPECT_EQ(times.LeaseUs({TaskKind::kBackward, 1000}), kFirstLeaseUs);
}

// As in the last step: in all earlier steps the updated tiles stayed on the device.
TEST(ResponseTimesTest, LearnsApartWhatLeavesTheDevice) {
  Task task;
  task.kind = TaskKind::kUpdate;
  task.buffers = {{1024, 1024}};
  task.outputs.push_back({{}, {0, 0, 0, 1024, 1024}, true, true});
  ResponseTimes times;
  for (int i = 0; i < 100; ++i) times.Note(WorkOf(task), kMs);
  EXPECT_EQ(times.LeaseUs(WorkOf(task)), kMinLeaseUs);
  task.outputs[0].may_be_resident = false;
  EXPECT_EQ(WorkOf(task).leaving_bytes, 4 << 20);
  EXPECT_EQ(times.LeaseUs(WorkOf(task)), kFirstLeaseUs);
  task.outputs[0].view = {0, 0, 0, 8, 8};
  EXPECT_EQ(times.LeaseUs(WorkOf(task)), kMinLeaseUs) << "too little to take time";
}

TEST(ResponseTimesTest, StaysWithinBounds) {
  ResponseTimes times;
  const Work quick{TaskKind::kForward, 1}, slow{TaskKind::kForward, 1 << 20};
  for (int i = 0; i < 100; ++i) {
    times.Note(quick, 1);
    times.Note(slow, 24 * 3600 * kSecondUs);
  }
  EXPECT_EQ(times.LeaseUs(quick), kMinLeaseUs);
  EXPECT_EQ(times.LeaseUs(slow), kMaxLeaseUs);
}

TEST(ResponseTimesTest, ALeaseThatWasTooShortGrowsWithTheLateOnes) {
  ResponseTimes times;
  const Work work{TaskKind::kUpdate, 64};
  for (int i = 0; i < 50; ++i) times.Note(work, 300 * kMs);
  const std::int64_t before_us = times.LeaseUs(work);
  for (int i = 0; i < 50; ++i) times.Note(work, 2 * kSecondUs);
  EXPECT_LT(before_us, 2 * kSecondUs);
  EXPECT_GT(times.LeaseUs(work), 2 * kSecondUs);
}

// As if a handler was stopped, or delayed a task on purpose.
TEST(ResponseTimesTest, OneLongTaskDoesNotMakeLeasesLong) {
  ResponseTimes times;
  const Work work{TaskKind::kUpdate, 64};
  for (int i = 0; i < 50; ++i) times.Note(work, kMs);
  times.Note(work, 100 * kSecondUs);
  EXPECT_EQ(times.LeaseUs(work), kMinLeaseUs);
  // All tasks have become slow; each makes the next lease longer.
  for (int i = 0; i < 30; ++i) times.Note(work, 100 * kSecondUs);
  EXPECT_GT(times.LeaseUs(work), 100 * kSecondUs);
}

// ---- chunks -------------------------------------------------------------------------------------

using Sizes = std::vector<std::int64_t>;

TEST(ChunksTest, GuidedAreThoseOfThePaper) {
  EXPECT_EQ(GuidedChunks(1000, 4), (Sizes{250, 188, 141, 106, 79, 59, 45, 33, 25, 19, 14,
                                          11,  8,   6,   4,   3,  3,  2,  1,  1,  1,  1}));
}

TEST(ChunksTest, FactoringHalvesWhatIsLeftInBatches) {
  EXPECT_EQ(FactoringChunks(1000, 4),
            (Sizes{125, 125, 125, 125, 63, 63, 63, 63, 31, 31, 31, 31, 16, 16, 16, 16,
                   8,   8,   8,   8,   4,  4,  4,  4,  2,  2,  2,  2,  1,  1,  1,  1}));
}

TEST(ChunksTest, CoverEverythingForAnyNumbers) {
  for (const std::int64_t tasks : {0, 1, 2, 7, 97}) {
    for (const int handlers : {0, 1, 3, 200}) {
      for (const Sizes& sizes : {GuidedChunks(tasks, handlers), FactoringChunks(tasks, handlers)}) {
        EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}), tasks);
        for (const std::int64_t size : sizes) EXPECT_GE(size, 1);
      }
    }
  }
}

TEST(ChunksTest, AreOfTheTasksOfOneKindAndLayer) {
  std::vector<PlannedTask> tasks(12);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    tasks[i].task.kind = i % 3 == 0 ? TaskKind::kBackward : TaskKind::kForward;
    tasks[i].segment = 1;
  }
  const auto policy = MakeTaskPolicy(Limits(Policy::kGuided));
  policy->OnHandlers(2);
  policy->MarkChunks(tasks);
  std::vector<std::int32_t> forward, backward;
  for (const PlannedTask& task : tasks) {
    (task.task.kind == TaskKind::kForward ? forward : backward).push_back(task.task.chunk);
  }
  EXPECT_EQ(forward, (std::vector<std::int32_t>{4, 4, 4, 4, 2, 2, 1, 1}));
  EXPECT_EQ(backward, (std::vector<std::int32_t>{2, 2, 1, 1}));
  for (const Policy other : {Policy::kAuto, Policy::kPaper, Policy::kFixed}) {
    std::vector<PlannedTask> unmarked(3);
    MakeTaskPolicy(Limits(other))->MarkChunks(unmarked);
    for (const PlannedTask& task : unmarked) EXPECT_EQ(task.task.chunk, 0);
  }
}

// ---- auto ---------------------------------------------------------------------------------------

TEST(AutoPolicyTest, TakesWhatTheJobFixes) {
  const auto policy = MakeTaskPolicy(Limits(Policy::kAuto, 10, 250));
  EXPECT_EQ(policy->Room(1000, 0), 10);
  EXPECT_EQ(policy->LeaseUs({}), 250 * kMs);
  EXPECT_TRUE(policy->timed());
  policy->OnPut(10, 0);
  EXPECT_EQ(policy->Room(1000, 0), 0);
  policy->OnDone(4, {}, 0);
  EXPECT_EQ(policy->Room(1000, 0), 0) << "half a pouch at a time";
  policy->OnDone(1, {}, 0);
  EXPECT_EQ(policy->Room(1000, 0), 5);
  EXPECT_EQ(policy->Room(3, 0), 5) << "or all that there is";
}

TEST(AutoPolicyTest, LeasesAreLearnedAndNotTimed) {
  const auto policy = MakeTaskPolicy(Limits(Policy::kAuto));
  EXPECT_FALSE(policy->timed());
  const Work work{TaskKind::kForward, 77};
  EXPECT_EQ(policy->LeaseUs(work), kFirstLeaseUs);
  policy->OnPut(1, 0);
  policy->OnDone(1, {{work, 100 * kMs, 1}}, kSecondUs);
  EXPECT_EQ(policy->LeaseUs(work), 300 * kMs);
}

// The pouch that the policy settles on for a rate of tasks and a share of waiting tasks.
std::int64_t PouchAt(std::int64_t tasks_per_s, double share_waiting) {
  AutoPolicy policy(Limits(Policy::kAuto));
  policy.OnHandlers(4);
  std::int64_t now_us = 0;
  for (int look = 0; look < 400; ++look, now_us += kSecondUs / 4) {
    const std::int64_t room = std::min<std::int64_t>(1'000'000, policy.Room(1'000'000, now_us));
    if (room > 0) policy.OnPut(room, now_us);
    const auto runnable =
        static_cast<std::int64_t>(static_cast<double>(policy.in_flight()) * (1 - share_waiting));
    const std::int64_t done = std::min(tasks_per_s / 4, runnable);
    policy.OnDone(done, std::vector<TaskDone>(static_cast<std::size_t>(done), {{}, 4 * kMs, 1}),
                  now_us);
    const bool starved = runnable < tasks_per_s / 4;
    policy.OnSpace({static_cast<std::uint64_t>(runnable - done), starved ? 2u : 0u}, now_us);
  }
  return policy.pouch();
}

TEST(AutoPolicyTest, ThePouchGrowsUntilNobodyWaits) {
  EXPECT_LE(PouchAt(400, 0.0), kFirstPouch) << "a few tasks a second need no large one";
  EXPECT_GE(PouchAt(40'000, 0.0), 10'000);
  EXPECT_GE(PouchAt(4'000, 0.9), 5'000) << "most of what is in flight waits for inputs";
  EXPECT_LE(PouchAt(400'000, 0.99), kMaxPouch);
}

TEST(AutoPolicyTest, ThePouchDoesNotGrowForWantOfTasks) {
  AutoPolicy policy(Limits(Policy::kAuto));
  policy.OnPut(std::min<std::int64_t>(50, policy.Room(50, 0)), 0);
  for (int i = 1; i < 20; ++i) policy.OnSpace({0, 4}, i * kSecondUs);
  EXPECT_EQ(policy.pouch(), kFirstPouch) << "all tasks were put: a larger pouch gives no more";
}

TEST(AutoPolicyTest, WantsReadyWhatIsDoneWhileMoreIsOnItsWay) {
  AutoPolicy policy(Limits(Policy::kAuto));
  policy.OnHandlers(3);
  EXPECT_EQ(policy.WantedReady(), 3);
  std::int64_t now_us = 0;
  policy.OnSpace({}, now_us);
  for (int i = 0; i < 30; ++i) {
    policy.OnPut(1000, now_us);
    now_us += kSecondUs;
    policy.OnDone(1000, std::vector<TaskDone>(1000, {{}, 80 * kMs, 1}), now_us);
    policy.OnSpace({}, now_us);
  }
  // 1000 per second, for 80 ms plus the 20 ms of a turn, times two.
  EXPECT_NEAR(static_cast<double>(policy.WantedReady()), 203, 2);
}

// ---- the paper's policy -------------------------------------------------------------------------

TEST(PaperPolicyTest, PutsAPouchAndWaitsForItsEnd) {
  PaperPolicy policy(Limits(Policy::kPaper, 100));
  EXPECT_TRUE(policy.timed());
  EXPECT_EQ(policy.Room(500, 0), 100);
  policy.OnPut(100, 0);
  EXPECT_EQ(policy.LeaseUs({}), kSecondUs);
  EXPECT_EQ(policy.NextDeadlineUs(), kSecondUs);
  policy.OnDone(99, {}, 100 * kMs);
  EXPECT_EQ(policy.Room(400, 100 * kMs), 0) << "one is missing";
  policy.OnDone(1, {}, 200 * kMs);
  EXPECT_EQ(policy.Room(400, 200 * kMs), 100);
  EXPECT_EQ(policy.pouches(), 2);
  // 800 ms were left over, so the time-out shrinks by half of that.
  EXPECT_EQ(policy.timeout_us(), 600 * kMs);
}

TEST(PaperPolicyTest, WhatIsNotDoneInTimeBelongsToTheNextPouch) {
  PaperPolicy policy(Limits(Policy::kPaper, 100));
  policy.OnPut(policy.Room(500, 0), 0);
  policy.OnDone(60, {}, 500 * kMs);
  EXPECT_EQ(policy.Room(400, 999 * kMs), 0);
  EXPECT_EQ(policy.Room(400, kSecondUs), 60) << "40 are left over";
  EXPECT_EQ(policy.timeout_us(), 1400 * kMs) << "40 % were missing";
  EXPECT_EQ(policy.NextDeadlineUs(), kSecondUs + 1400 * kMs);
}

TEST(PaperPolicyTest, DoesNotLearnATimeoutThatTheJobFixes) {
  PaperPolicy policy(Limits(Policy::kPaper, 100, 5));
  policy.OnPut(policy.Room(500, 0), 0);
  policy.OnDone(60, {}, 2 * kMs);
  EXPECT_EQ(policy.Room(400, 5 * kMs), 60) << "40 are left over";
  EXPECT_EQ(policy.pouches(), 2);
  EXPECT_EQ(policy.LeaseUs({}), 5 * kMs);
  EXPECT_EQ(policy.NextDeadlineUs(), 10 * kMs);
  policy.OnPut(60, 5 * kMs);
  policy.OnDone(100, {}, 6 * kMs);
  EXPECT_EQ(policy.Room(400, 6 * kMs), 100) << "all were done in time";
  EXPECT_EQ(policy.pouches(), 3);
  EXPECT_EQ(policy.timeout_us(), 5 * kMs);
}

TEST(PaperPolicyTest, StopsWhenThereIsNothingToWaitFor) {
  PaperPolicy policy(Limits(Policy::kPaper));
  EXPECT_EQ(policy.Room(0, 0), 0);
  EXPECT_EQ(policy.NextDeadlineUs(), tuplespace::kForeverUs);
  policy.OnPut(std::min<std::int64_t>(3, policy.Room(3, 0)), 0);
  policy.OnDone(3, {}, kMs);
  EXPECT_EQ(policy.Room(0, kMs), 0);
  EXPECT_EQ(policy.NextDeadlineUs(), tuplespace::kForeverUs);
}

// The time-out that the policy settles on for handlers with this total rate.
double TimeoutMsAt(double tasks_per_s) {
  PaperPolicy policy(Limits(Policy::kPaper, 100));
  double done = 0;
  for (std::int64_t now_us = 0; now_us < 60 * kSecondUs; now_us += kMs) {
    const std::int64_t room = policy.Room(1000, now_us);
    if (room > 0) policy.OnPut(room, now_us);
    done += tasks_per_s * 1e-3;
    const std::int64_t whole = std::min(static_cast<std::int64_t>(done), policy.in_flight());
    done -= static_cast<double>(whole);
    if (whole > 0) policy.OnDone(whole, {}, now_us);
  }
  return static_cast<double>(policy.timeout_us()) * 1e-3;
}

TEST(PaperPolicyTest, TheTimeoutFollowsThePowerOfTheHandlers) {
  const double slow_ms = TimeoutMsAt(50), middle_ms = TimeoutMsAt(250), fast_ms = TimeoutMsAt(1000);
  EXPECT_GT(slow_ms, 2 * middle_ms);
  EXPECT_GT(middle_ms, 2 * fast_ms);
  EXPECT_NEAR(middle_ms, 400, 150) << "100 tasks at 250 a second";
}

// ---- all policies -------------------------------------------------------------------------------

struct World {
  std::int64_t makespan_us = 0;
  std::int64_t executions = 0;
  bool finished = false;
};

// Unequal handlers take one task after the other. When a lease expires, the task goes to the next
// handler with a doubled lease. The first completion counts.
World RunWorld(const TaskLimits& limits, std::int64_t tasks,
               const std::vector<std::int64_t>& task_us) {
  const auto policy = MakeTaskPolicy(limits);
  policy->OnHandlers(static_cast<int>(task_us.size()));
  struct Lease {
    std::int64_t task, lease_us;
  };
  using Event =
      std::tuple<std::int64_t, int, int, std::int64_t>;  // time, 0 done / 1 expiry, handler, task
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events;
  std::deque<Lease> ready;
  std::vector<bool> done(static_cast<std::size_t>(tasks)), idle(task_us.size(), true);
  std::int64_t put = 0, finished = 0, now_us = 0;
  std::vector<std::int64_t> leases(static_cast<std::size_t>(tasks));
  World world;
  const auto turn = [&] {
    policy->OnTime(now_us);
    const std::int64_t room = put < tasks ? policy->Room(tasks - put, now_us) : 0;
    const std::int64_t count = std::min(room, tasks - put);
    if (count > 0) policy->OnPut(count, now_us);
    for (std::int64_t i = 0; i < count; ++i) {
      leases[static_cast<std::size_t>(put)] = policy->LeaseUs({TaskKind::kForward, 64});
      ready.push_back({put++, 0});
    }
    for (std::size_t h = 0; h < task_us.size(); ++h) {
      if (!idle[h] || ready.empty()) continue;
      const std::int64_t task = ready.front().task;
      ready.pop_front();
      idle[h] = false;
      ++world.executions;
      std::int64_t& lease_us = leases[static_cast<std::size_t>(task)];
      events.push({now_us + task_us[h], 0, static_cast<int>(h), task});
      events.push({now_us + lease_us, 1, static_cast<int>(h), task});
      lease_us *= 2;
    }
  };
  for (int i = 0; i < 1'000'000 && finished < tasks; ++i) {
    turn();
    const std::int64_t deadline_us = policy->NextDeadlineUs();
    if (events.empty() || deadline_us < std::get<0>(events.top())) {
      EXPECT_LT(deadline_us, tuplespace::kForeverUs) << "nothing would ever happen again";
      if (deadline_us == tuplespace::kForeverUs) return world;
      now_us = std::max(now_us, deadline_us);
      continue;
    }
    const auto [at_us, what, who, task] = events.top();
    events.pop();
    now_us = at_us;
    if (what == 0) {
      idle[static_cast<std::size_t>(who)] = true;
      if (done[static_cast<std::size_t>(task)]) continue;
      done[static_cast<std::size_t>(task)] = true;
      ++finished;
      std::erase_if(ready, [t = task](const Lease& lease) { return lease.task == t; });
      policy->OnDone(1, {{{TaskKind::kForward, 64}, task_us[static_cast<std::size_t>(who)], 1}},
                     now_us);
    } else if (!done[static_cast<std::size_t>(task)]) {
      ready.push_back({task, 0});
    }
  }
  world.makespan_us = now_us;
  world.finished = finished == tasks;
  return world;
}

class EveryPolicy : public ::testing::TestWithParam<Policy> {};

TEST_P(EveryPolicy, FinishesWithUnequalHandlers) {
  const World world = RunWorld(Limits(GetParam()), 3000, {10 * kMs, 2 * kMs, 2 * kMs, kMs});
  EXPECT_TRUE(world.finished);
  EXPECT_GT(world.makespan_us, 1'420 * kMs) << "nobody is faster than all together";
}

TEST_P(EveryPolicy, FinishesThoughEveryTimeoutIsTooShort) {
  const World world = RunWorld(Limits(GetParam(), 20, 1), 200, {50 * kMs, 90 * kMs});
  EXPECT_TRUE(world.finished);
  // Each doubling issues a task at most once more.
  EXPECT_LE(world.executions, 200 * 8);
}

TEST_P(EveryPolicy, ForgetsWhatWasInFlight) {
  const auto policy = MakeTaskPolicy(Limits(GetParam(), 10));
  const std::int64_t room = policy->Room(50, 0);
  EXPECT_GT(room, 0);
  policy->OnPut(std::min<std::int64_t>(room, 50), 0);
  policy->Forget();
  EXPECT_EQ(policy->in_flight(), 0);
  EXPECT_EQ(policy->Room(50, kMs), room);
}

INSTANTIATE_TEST_SUITE_P(All, EveryPolicy,
                         ::testing::Values(Policy::kAuto, Policy::kPaper, Policy::kGuided,
                                           Policy::kFactoring, Policy::kFixed));

}  // namespace
}  // namespace acan
