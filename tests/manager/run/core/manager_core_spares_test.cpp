// A run with handlers that are so slow that a step is shorter without them.
#include <gmock/gmock.h>

#include <initializer_list>

#include "manager_shell.h"

namespace acan {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

constexpr std::int64_t kPassTickUs = 250'000;

HandlersSeen WithSpeeds(std::initializer_list<double> gflops) {
  HandlersSeen seen;
  for (const double each : gflops) {
    const HandlersSeen one = Handlers({1 << 30});
    const std::string number = std::to_string(seen.handlers.size());
    Capacity capacity = one.handlers.at("id0");
    capacity.name = "handler " + number;
    capacity.gflops = each;
    seen.handlers.emplace("id" + number, capacity);
  }
  return seen;
}

class SparesTest : public ::testing::Test {
 protected:
  SparesTest() : shell_(SmallJob()) {}
  void Send(const HandlersSeen& seen) { shell_.Send(seen, now_us_); }
  // Lets `seconds` pass. Tasks are ready, and nobody takes them.
  void Pass(int seconds) {
    for (const std::int64_t end_us = now_us_ + seconds * 1'000'000; now_us_ < end_us;) {
      now_us_ += kPassTickUs;
      shell_.Send(RunTasksSeen{.ready = 4, .leased = 0}, now_us_);
      shell_.Send(ClockTick{}, now_us_);
    }
  }
  Shell shell_;
  std::int64_t now_us_ = 0;
};

TEST_F(SparesTest, AFarSlowerHandlerGetsNoTask) {
  shell_.handlers = 2;
  Send(WithSpeeds({100, 0.05}));
  shell_.RunAll();
  EXPECT_TRUE(shell_.done);
  EXPECT_EQ(shell_.kept_from["id1"], shell_.tasks);
  EXPECT_FALSE(shell_.kept_from.contains("id0"));
  EXPECT_THAT(shell_.Said(), HasSubstr("handler 1 is far slower than other handlers"));
}

// The steps are also cut as if it were not there.
TEST_F(SparesTest, AFarSlowerHandlerMakesNoPlanWorse) {
  Shell alone(SmallJob());
  alone.Send(WithSpeeds({100}));
  Send(WithSpeeds({100, 0.05}));
  ASSERT_TRUE(alone.core.plan() && shell_.core.plan());
  EXPECT_EQ(shell_.core.plan()->summary, alone.core.plan()->summary);
  EXPECT_EQ(shell_.core.plan()->step_us, alone.core.plan()->step_us);
}

TEST_F(SparesTest, HandlersOfSimilarSpeedsAllGetTasks) {
  Send(WithSpeeds({100, 50, 30}));
  shell_.RunAll();
  EXPECT_TRUE(shell_.done);
  EXPECT_THAT(shell_.kept_from, IsEmpty());
}

TEST_F(SparesTest, AFarSlowerHandlerThatJoinsGetsNoTask) {
  shell_.handlers = 2;
  Send(WithSpeeds({100}));
  shell_.RunUntil(1);
  const std::size_t before = shell_.tasks;
  Send(WithSpeeds({100, 0.05}));
  shell_.RunAll();
  EXPECT_TRUE(shell_.done);
  EXPECT_EQ(shell_.kept_from["id1"], shell_.tasks - before);
  EXPECT_THAT(shell_.moved, IsEmpty());
}

// The tasks in the space exclude it, so they are put again.
TEST_F(SparesTest, ASpareContinuesWhenTheOthersAreGone) {
  shell_.handlers = 2;
  Send(WithSpeeds({100, 0.05}));
  shell_.RunUntil(1);
  HandlersSeen left = WithSpeeds({100, 0.05});
  left.handlers.erase("id0");
  Send(left);
  Pass(1);
  EXPECT_THAT(shell_.moved, IsEmpty()) << "the others may return at once";
  Pass(2);
  ASSERT_THAT(shell_.moved, SizeIs(1));
  shell_.kept_from.clear();
  shell_.RunAll(now_us_);
  EXPECT_TRUE(shell_.done);
  EXPECT_FALSE(shell_.kept_from.contains("id1"));
}

// Otherwise it would be too small when it returns, and the run would stay with the slow one.
TEST_F(SparesTest, TasksStillFitIntoTheMemoryOfThoseThatAreGone) {
  shell_.handlers = 2;
  HandlersSeen both = WithSpeeds({100, 0.05}), left = both;
  both.handlers.at("id0").memory_bytes = 64 << 10;
  left.handlers.erase("id0");
  Send(both);
  ASSERT_TRUE(shell_.core.plan());
  ASSERT_LE(shell_.core.plan()->largest_need_bytes, 64u << 10);
  shell_.RunUntil(1);
  Send(left);
  Pass(3);
  ASSERT_THAT(shell_.moved, SizeIs(1));
  EXPECT_LE(shell_.core.plan()->largest_need_bytes, 64u << 10);
}

TEST_F(SparesTest, ASpareContinuesWhenTheOthersHang) {
  shell_.handlers = 2;
  Send(WithSpeeds({100, 50}));
  shell_.RunUntil(1);
  HandlersSeen seen = WithSpeeds({100, 50});
  seen.handlers.at("id1").speed = 0.001;
  Send(seen);
  shell_.RunUntil(2);
  ASSERT_TRUE(shell_.kept_from.contains("id1"));
  // The tasks that are ready exclude it, and id0 has been stopped.
  Pass(30);
  ASSERT_THAT(shell_.moved, Not(IsEmpty()));
  shell_.kept_from.clear();
  shell_.RunAll(now_us_);
  EXPECT_TRUE(shell_.done);
  EXPECT_FALSE(shell_.kept_from.contains("id1"));
}

// It has too little memory, for example, which it notices only while it computes.
TEST_F(SparesTest, ASpareContinuesWhereTheOthersFail) {
  shell_.handlers = 2;
  Send(WithSpeeds({100, 0.05}));
  shell_.RunUntil(1);
  ASSERT_TRUE(shell_.core.MayTakeBackSpares());
  shell_.Send(SparesWanted{"task t failed too often"}, now_us_);
  ASSERT_THAT(shell_.moved, SizeIs(1));
  EXPECT_FALSE(shell_.core.MayTakeBackSpares());
  shell_.kept_from.clear();
  shell_.RunAll(now_us_);
  EXPECT_TRUE(shell_.done);
  EXPECT_THAT(shell_.kept_from, IsEmpty());
}

TEST_F(SparesTest, AJobMayLetSlowHandlersTakePart) {
  for (const bool by_policy : {false, true}) {
    ManagerConfig config = SmallJob();
    config.limits.leave_out_slow = by_policy;
    if (by_policy) config.limits.policy = Policy::kFixed;
    Shell shell(config);
    shell.handlers = 2;
    shell.Send(WithSpeeds({100, 0.05}));
    shell.RunAll();
    EXPECT_TRUE(shell.done);
    EXPECT_THAT(shell.kept_from, IsEmpty());
  }
}

// The slow one would otherwise be preferred for the next tasks, because it has their inputs.
TEST_F(SparesTest, AFasterHandlerThatJoinsGetsAllNewTasksAtOnce) {
  shell_.handlers = 1;
  Send(WithSpeeds({0.05}));
  shell_.RunUntil(1);
  shell_.handlers = 2;
  const std::size_t before = shell_.tasks;
  Send(WithSpeeds({0.05, 100}));
  shell_.RunAll();
  EXPECT_TRUE(shell_.done);
  EXPECT_EQ(shell_.kept_from["id0"], shell_.tasks - before);
  EXPECT_THAT(shell_.moved, IsEmpty()) << "the tasks in the space are short";
}

// Those of three steps are in the space, and a step takes the slow handler minutes.
TEST_F(SparesTest, LongTasksThatASlowHandlerWouldTakeArePutAgain) {
  shell_.handlers = 1;
  Send(WithSpeeds({1e-6}));
  shell_.RunUntil(1);
  shell_.handlers = 2;
  const std::size_t before = shell_.tasks;
  Send(WithSpeeds({1e-6, 100}));
  ASSERT_THAT(shell_.moved, SizeIs(1));
  EXPECT_THAT(shell_.Said(), HasSubstr("the tasks are put again for the faster handlers"));
  shell_.RunAll();
  EXPECT_TRUE(shell_.done);
  EXPECT_EQ(shell_.kept_from["id0"], shell_.tasks - before);
  EXPECT_THAT(shell_.moved, SizeIs(1));
}

// It may lie about its speed.
TEST_F(SparesTest, WorkersGetTasksAgainSoonIfTheFastHandlerDoesNone) {
  shell_.handlers = 2;
  Send(WithSpeeds({1, 1}));
  shell_.RunUntil(1);
  Send(WithSpeeds({1, 1, 1e9}));
  Pass(3);
  ASSERT_THAT(shell_.moved, SizeIs(1));
  EXPECT_THAT(shell_.Said(), HasSubstr("slower ones get them again"));
  shell_.kept_from.clear();
  shell_.RunAll(now_us_);
  EXPECT_TRUE(shell_.done);
  EXPECT_THAT(shell_.kept_from, IsEmpty());
}

}  // namespace
}  // namespace acan
