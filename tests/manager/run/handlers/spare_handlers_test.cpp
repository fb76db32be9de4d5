// Handlers that are so slow that a step is shorter without them.
#include "acan/manager/spare_handlers.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <set>
#include <string>
#include <vector>

namespace acan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using Missed = SpareHandlers::Missed;

constexpr std::int64_t kSecond = 1'000'000;

SpareHandlers::Handlers HandlersAt(std::initializer_list<double> gflops) {
  SpareHandlers::Handlers handlers;
  for (const double each : gflops) {
    const std::string number = std::to_string(handlers.size());
    Capacity& capacity = handlers["id" + number];
    capacity.name = "handler " + number;
    capacity.gflops = each;
  }
  return handlers;
}

// A step has some tasks; the slowest handler does the last one.
double OneStage(const SpareHandlers::Handlers& handlers) {
  constexpr double kWork = 1e6, kTask = 1e5;  // microseconds at 1 GFLOP/s
  double all = 0, slowest = std::numeric_limits<double>::infinity();
  for (const auto& [id, capacity] : handlers) {
    all += capacity.gflops;
    slowest = std::min(slowest, capacity.gflops);
  }
  return kWork / all + kTask / slowest;
}

class SpareHandlersTest : public ::testing::Test {
 protected:
  std::vector<std::string> Judge(const SpareHandlers::Handlers& present,
                                 const std::set<std::string>& workers = {}) {
    spares_.SetTime(now_us_);
    return spares_.Judge(present, workers, OneStage);
  }
  // The run does so many steps a second, until the spares are missed.
  Missed Run(int seconds, double steps_per_second) {
    return RunTicks(4 * seconds, steps_per_second);
  }
  Missed RunTicks(int ticks, double steps_per_second) {
    for (int i = 0; i < ticks; ++i) {
      now_us_ += kSecond / 4;
      spares_.SetTime(now_us_);
      const Missed missed = spares_.OnProgress(steps_per_second / 4);
      if (missed != Missed::kNot) return missed;
    }
    return Missed::kNot;
  }
  SpareHandlers spares_;
  std::int64_t now_us_ = 0;
};

TEST_F(SpareHandlersTest, AHandlerThatEachStepWouldWaitForIsASpare) {
  const std::vector<std::string> lines = Judge(HandlersAt({100, 0.5, 100}));
  EXPECT_THAT(spares_.ids(), ElementsAre("id1"));
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_THAT(lines[0], HasSubstr("handler 1 is far slower than other handlers (0.5 GFLOP/s)"));
  EXPECT_THAT(Judge(HandlersAt({100, 0.5, 100})), IsEmpty()) << "nothing has changed";
}

TEST_F(SpareHandlersTest, HandlersThatMakeAStepShorterAreNone) {
  Judge(HandlersAt({100, 90, 30}));
  EXPECT_THAT(spares_.ids(), IsEmpty());
  Judge(HandlersAt({0.5, 0.5}));
  EXPECT_THAT(spares_.ids(), IsEmpty());
}

TEST_F(SpareHandlersTest, ASpareThatBecomesFastIsNoneButTasksMayExcludeIt) {
  Judge(HandlersAt({100, 0.5}));
  EXPECT_THAT(Judge(HandlersAt({100, 100})), IsEmpty());
  EXPECT_THAT(spares_.ids(), IsEmpty());
  EXPECT_THAT(spares_.excluded(), ElementsAre("id1"));
  spares_.OnNewPlan();
  EXPECT_THAT(spares_.excluded(), IsEmpty());
}

// A slow handler that holds all tasks would otherwise keep it from showing that it is fast.
TEST_F(SpareHandlersTest, WhoHasDoneNothingMakesSparesOfWorkers) {
  Judge(HandlersAt({1, 1}), {"id0", "id1"});
  Judge(HandlersAt({1, 1, 1e9, 0.001}), {"id0", "id1"});
  EXPECT_THAT(spares_.ids(), ElementsAre("id0", "id1", "id3"));
}

TEST_F(SpareHandlersTest, LongStepsAreTakenFromThoseWhoAloneHaveDoneTasks) {
  Judge(HandlersAt({0.01, 100}), {"id0"});
  EXPECT_TRUE(spares_.TakesTasksBack());
  EXPECT_FALSE(spares_.TakesTasksBack());
  Judge(HandlersAt({0.01, 100, 0.01}), {"id0", "id2"});
  EXPECT_FALSE(spares_.TakesTasksBack()) << "once for each plan";
}

TEST_F(SpareHandlersTest, OtherTasksAreNotTakenBack) {
  Judge(HandlersAt({10, 1000}), {"id0"});
  EXPECT_FALSE(spares_.TakesTasksBack()) << "its steps are short";
  Judge(HandlersAt({0.01, 100}));
  EXPECT_FALSE(spares_.TakesTasksBack()) << "it has none";
  Judge(HandlersAt({0.01, 100}), {"id0", "id1"});
  EXPECT_FALSE(spares_.TakesTasksBack()) << "another handler gets some";
}

// The spare alone needs 1.1 s for a step.
TEST_F(SpareHandlersTest, ARunThatIsSlowerThanItsSparesWouldBeMissesThem) {
  Judge(HandlersAt({1e9, 1}), {"id0"});
  ASSERT_THAT(spares_.ids(), ElementsAre("id1"));
  EXPECT_EQ(Run(60, 0.5), Missed::kNot);
  EXPECT_EQ(Run(20, 0.1), Missed::kSlow);
  spares_.Recall();
  EXPECT_THAT(spares_.ids(), IsEmpty());
  EXPECT_THAT(spares_.excluded(), ElementsAre("id1"));
}

TEST_F(SpareHandlersTest, ARunThatDoesNothingMissesItsSpares) {
  Judge(HandlersAt({1e9, 1}), {"id0"});
  EXPECT_EQ(Run(9, 0), Missed::kNot);
  EXPECT_EQ(Run(2, 0), Missed::kStuck);
}

// Tasks that were put before the recall still exclude them.
TEST_F(SpareHandlersTest, ARunThatStaysSlowMissesThemOnceMoreAfterTheRecall) {
  Judge(HandlersAt({1e9, 1}), {"id0"});
  EXPECT_EQ(Run(20, 0.1), Missed::kSlow);
  spares_.Recall();
  EXPECT_EQ(Run(9, 0.1), Missed::kNot);
  EXPECT_EQ(Run(2, 0.1), Missed::kStuck);
  EXPECT_EQ(Run(60, 0.1), Missed::kNot);
}

// A slow spare would hold up the faster ones.
TEST_F(SpareHandlersTest, TheRunIsComparedWithTheFastestOfItsSpares) {
  Judge(HandlersAt({1e9, 1, 1e-6}), {"id0"});
  EXPECT_EQ(Run(60, 0.5), Missed::kNot);
  EXPECT_EQ(Run(20, 0.1), Missed::kSlow);
}

// A client may come under a new id again and again, claim to be fast, and do nothing, or one task.
// The tasks that exclude the workers wait until they are put again.
TEST_F(SpareHandlersTest, WhoComesAndGoesTakesLittleTimeFromTheWorkers) {
  constexpr int kHour = 4 * 3600;  // quarters of a second
  for (const bool does_a_task : {false, true}) {
    spares_ = {};
    now_us_ = 0;
    int lost = 0;
    for (int i = 0; i < kHour; ++i) {
      SpareHandlers::Handlers present = HandlersAt({1, 1});
      std::set<std::string> workers = {"id0", "id1"};
      const std::string id = "new" + std::to_string(i / 12);
      if (i % 12 < 6) present[id].gflops = 1e9;
      if (does_a_task) workers.insert(id);
      Judge(present, workers);
      const bool waits = !spares_.excluded().empty();
      lost += waits ? 1 : 0;
      const Missed missed = RunTicks(1, waits ? 0 : 2);
      if (missed != Missed::kNot) spares_.Recall();
      if (missed == Missed::kStuck) spares_.OnNewPlan();
    }
    EXPECT_GT(lost, 0);
    EXPECT_LT(lost, kHour / 20) << does_a_task;
  }
}

// They may be asked for votes, for which the run waits.
TEST_F(SpareHandlersTest, WhileTheRunWaitsForVotesItsSparesAreNotMissed) {
  Judge(HandlersAt({1e9, 1}), {"id0"});
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(Run(1, 0), Missed::kNot);
    spares_.WatchAnew();
  }
}

// It may only claim to be fast.
TEST_F(SpareHandlersTest, WhoHasNotDoneATaskYetIsWaitedForLessLong) {
  Judge(HandlersAt({1e9, 1}));
  EXPECT_EQ(Run(2, 0), Missed::kNot);
  EXPECT_EQ(Run(1, 0), Missed::kStuck);
}

TEST_F(SpareHandlersTest, EachRecallLastsLonger) {
  const auto handlers = HandlersAt({1e9, 1});
  std::vector<int> seconds;
  for (int i = 0; i < 11; ++i) {
    Judge(handlers);
    ASSERT_THAT(spares_.ids(), SizeIs(1));
    spares_.Recall();
    spares_.Recall();  // they are recalled already
    int waited = 0;
    for (; spares_.ids().empty(); ++waited) {
      now_us_ += kSecond;
      Judge(handlers);
    }
    seconds.push_back(waited);
  }
  EXPECT_THAT(seconds, ElementsAre(10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600, 3600));
}

// Otherwise who comes and goes could have plans made again and again.
TEST_F(SpareHandlersTest, APlanAfterOneWithSparesHasNoneForAWhile) {
  const auto handlers = HandlersAt({1e9, 1});
  Judge(handlers);
  spares_.OnNewPlan();
  now_us_ += 9 * kSecond;
  Judge(handlers);
  EXPECT_THAT(spares_.ids(), IsEmpty());
  now_us_ += kSecond;
  Judge(handlers);
  EXPECT_THAT(spares_.ids(), SizeIs(1));
}

TEST_F(SpareHandlersTest, APauseOfTheManagerIsNoSlowness) {
  Judge(HandlersAt({1e9, 1}));
  for (int i = 0; i < 10; ++i) {
    now_us_ += 30 * kSecond;
    EXPECT_EQ(Run(1, 0), Missed::kNot);
  }
}

TEST_F(SpareHandlersTest, SparesThatCannotRunAStepAreNotMissed) {
  const auto handlers = HandlersAt({1e9, 1});
  spares_.Judge(handlers, {}, [](const SpareHandlers::Handlers& some) {
    return some.contains("id0") ? OneStage(some) : std::numeric_limits<double>::infinity();
  });
  ASSERT_THAT(spares_.ids(), ElementsAre("id1"));
  EXPECT_EQ(Run(100, 0), Missed::kNot);
}

// A task can name only so many. The slowest ones would hold up a step for longest.
TEST_F(SpareHandlersTest, TheSlowestAreNamed) {
  SpareHandlers::Handlers handlers = HandlersAt({1e6});
  for (int i = 0; i < 40; ++i) {
    Capacity& capacity = handlers["slow/" + std::to_string(i)];
    capacity.name = "slow " + std::to_string(i);
    capacity.gflops = 1 + i;
  }
  const std::vector<std::string> lines = Judge(handlers);
  EXPECT_THAT(spares_.ids(), SizeIs(SpareHandlers::kMaxSpares));
  EXPECT_TRUE(spares_.ids().contains("slow/0"));
  EXPECT_FALSE(spares_.ids().contains("slow/39"));
  ASSERT_THAT(lines, SizeIs(1)) << "they have one key";
  EXPECT_THAT(lines[0], HasSubstr("(like 31 more of its key's handlers)"));
}

}  // namespace
}  // namespace acan
