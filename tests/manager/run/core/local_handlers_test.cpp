// ManagerCore alone, in a run that has only its own handlers, which are restarted when they die: it
// waits for those that are missing, and ends if all are there and too small.
#include <gmock/gmock.h>

#include <algorithm>
#include <utility>

#include "manager_shell.h"

namespace acan {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

ManagerConfig LocalJob() {
  ManagerConfig config = SmallJob();
  config.fixed_handlers = true;
  config.expected_handlers = 2;
  return config;
}

class LocalHandlersTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kLarge = 1 << 30;
  static constexpr std::uint64_t kSmall = 2048;  // too small for any plan

  // The large one is not there.
  static HandlersSeen Small(std::vector<ExpectedHandler> missing) {
    HandlersSeen seen = Handlers({kLarge, kSmall});
    seen.handlers.erase("id0");
    seen.missing = std::move(missing);
    return seen;
  }
  void PassUntil(int second, const HandlersSeen& seen) {
    constexpr std::int64_t kStepUs = 250'000;
    for (; now_us_ < second * std::int64_t{1'000'000}; now_us_ += kStepUs) {
      shell_.Send(seen, now_us_);
      shell_.Send(RunTasksSeen{.ready = 4, .leased = 0}, now_us_);
      shell_.Send(ClockTick{}, now_us_);
    }
  }
  std::int64_t TimesSaid(const std::string& text) const {
    return std::count_if(shell_.said.begin(), shell_.said.end(), [&](const std::string& line) {
      return line.find(text) != std::string::npos;
    });
  }

  const ExpectedHandler large_{"cpu:2", kLarge};
  Shell shell_{LocalJob()};
  std::int64_t now_us_ = 0;
};

TEST_F(LocalHandlersTest, TheOnlyLargeOneIsWaitedFor) {
  shell_.Send(Handlers({kLarge, kSmall}));
  ASSERT_TRUE(shell_.core.plan());
  PassUntil(10, Small({large_}));
  EXPECT_EQ(TimesSaid("offers the most, 2KiB; waiting for cpu:2 with 1GiB"), 1) << shell_.Said();
  PassUntil(70, Small({large_}));
  EXPECT_EQ(TimesSaid("waiting for cpu:2 with 1GiB"), 3) << "in 70 s";
  EXPECT_EQ(shell_.gave_up, "");
  EXPECT_THAT(shell_.moved, IsEmpty());
  shell_.Send(Handlers({kLarge, kSmall}), now_us_);
  EXPECT_EQ(TimesSaid("a handler has joined: continuing"), 1);
  shell_.RunAll(now_us_);
  EXPECT_TRUE(shell_.done);
}

TEST_F(LocalHandlersTest, ALargeOneThatComesAndGoesIsNotReportedEachTime) {
  for (int i = 0; i < 10; ++i) {
    shell_.Send(Handlers({kLarge, kSmall}), now_us_);
    PassUntil(3 * (i + 1), Small({large_}));
  }
  EXPECT_EQ(TimesSaid("waiting for cpu:2 with 1GiB"), 1) << "in 30 s";
  EXPECT_EQ(shell_.gave_up, "");
}

// As a GPU whose programs are compiled.
TEST_F(LocalHandlersTest, TheOnlyLargeOneMayNeedLongToStart) {
  PassUntil(9, Small({large_}));
  EXPECT_EQ(TimesSaid("have not joined yet: cpu:2 with 1GiB"), 1) << shell_.Said();
  PassUntil(40, Small({large_}));
  EXPECT_EQ(TimesSaid("too small: the largest task needs"), 1) << shell_.Said();
  EXPECT_EQ(shell_.gave_up, "");
  shell_.Send(Handlers({kLarge, kSmall}), now_us_);
  EXPECT_TRUE(shell_.core.plan());
}

TEST_F(LocalHandlersTest, OneThatWillNotStartAgainIsNotWaitedFor) {
  shell_.Send(Handlers({kLarge, kSmall}));
  PassUntil(10, Small({large_}));
  ASSERT_EQ(shell_.gave_up, "");
  shell_.Send(Small({}), now_us_);
  EXPECT_THAT(shell_.gave_up, HasSubstr("the largest task needs"));
}

TEST_F(LocalHandlersTest, NeitherIsOneThatIsTooSmall) {
  shell_.Send(Handlers({kLarge, kSmall}));
  PassUntil(3, Small({{"cpu:1", kSmall}}));
  EXPECT_THAT(shell_.gave_up, HasSubstr("no other offers more"));
}

TEST_F(LocalHandlersTest, IfAllAreThereAndTooSmallTheRunEndsAtOnce) {
  shell_.Send(Handlers({kSmall, kSmall / 2}));
  EXPECT_THAT(shell_.gave_up, HasSubstr("handler 0 offers 2KiB and no other offers more"));
}

}  // namespace
}  // namespace acan
