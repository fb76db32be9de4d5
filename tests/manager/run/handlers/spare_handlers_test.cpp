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
    for (int i = 0; i < 4 * seconds; ++i) {
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

// Otherwise a handler that only claims to be fast would keep the tasks of all others.
TEST_F(SpareHandlersTest, WhoHasDoneNothingMakesNoSpareOfAWorker) {
  Judge(HandlersAt({1, 1}), {"id0", "id1"});
  Judge(HandlersAt({1, 1, 1e9, 0.001}), {"id0", "id1"});
  EXPECT_THAT(spares_.ids(), ElementsAre("id3"));
  Judge(HandlersAt({1, 1, 1e9, 0.001}), {"id0", "id1", "id2"});
  EXPECT_THAT(spares_.ids(), ElementsAre("id0", "id1", "id3"));
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
  for (int i = 0; i < 3; ++i) {
    Judge(handlers);
    ASSERT_THAT(spares_.ids(), SizeIs(1));
    spares_.Recall();
    int waited = 0;
    for (; spares_.ids().empty(); ++waited) {
      now_us_ += kSecond;
      Judge(handlers);
    }
    seconds.push_back(waited);
  }
  EXPECT_THAT(seconds, ElementsAre(10, 20, 40));
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
