// What happens to a run without progress.
#include "acan/manager/liveness.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace acan {
namespace {

using Advice = Liveness::Advice;

constexpr std::int64_t kLookUs = 250'000;

constexpr RunTasksSeen kWorking{.ready = 3, .leased = 2};
constexpr RunTasksSeen kNobodyTakes{.ready = 3, .leased = 0};
constexpr RunTasksSeen kNothingToTake{.ready = 0, .leased = 0};

class LivenessTest : public ::testing::Test {
 protected:
  LivenessTest() { liveness_.OnProgress(now_us_); }
  // The first advice other than kNone within `seconds`, while the space has the tasks `seen`.
  Advice Within(int seconds, const RunTasksSeen& seen, bool needs_handler = false) {
    for (const std::int64_t end_us = now_us_ + seconds * 1'000'000; now_us_ < end_us;) {
      now_us_ += kLookUs;
      liveness_.OnTasks(seen, now_us_);
      const Advice advice = liveness_.OnTick(now_us_, needs_handler);
      if (advice != Advice::kNone) return advice;
    }
    return Advice::kNone;
  }
  Advice WithoutHandlers(int seconds) {
    for (const std::int64_t end_us = now_us_ + seconds * 1'000'000; now_us_ < end_us;) {
      now_us_ += kLookUs;
      liveness_.OnTasks(kNobodyTakes, now_us_);
      liveness_.OnNobodyThere(now_us_);
      const Advice advice = liveness_.OnTick(now_us_);
      if (advice != Advice::kNone) return advice;
    }
    return Advice::kNone;
  }
  std::int64_t now_us_ = 1;
  Liveness liveness_;
};

TEST_F(LivenessTest, LongTasksAreOnlySpokenOf) {
  EXPECT_EQ(Within(9, kWorking), Advice::kNone);
  EXPECT_EQ(Within(2, kWorking), Advice::kSay);
  EXPECT_EQ(Within(29, kWorking), Advice::kNone);
  EXPECT_EQ(Within(2, kWorking), Advice::kSay);
  EXPECT_NEAR(liveness_.IdleSeconds(now_us_), 40, 1);
}

TEST_F(LivenessTest, TasksThatNobodyTakesAreCutAnew) {
  EXPECT_EQ(Within(11, kNobodyTakes), Advice::kReplan);
  EXPECT_EQ(Within(9, kNobodyTakes), Advice::kNone);
  EXPECT_EQ(Within(11, kNobodyTakes), Advice::kReplan) << "others may have come";
}

TEST_F(LivenessTest, ATaskThatIsTakenForTenMinutesIsCutAnew) {
  Advice advice = Advice::kSay;
  for (int said = 0; advice == Advice::kSay && said < 100; ++said) advice = Within(31, kWorking);
  EXPECT_EQ(advice, Advice::kReplan);
  EXPECT_NEAR(liveness_.IdleSeconds(now_us_), 600, 1);
  EXPECT_TRUE(liveness_.WaitedForWorkers(now_us_));
}

TEST_F(LivenessTest, WhatCannotGoOnGoesBackTwiceAndEnds) {
  EXPECT_EQ(Within(11, kNothingToTake), Advice::kGoBack);
  EXPECT_EQ(Within(9, kNothingToTake), Advice::kNone);
  EXPECT_EQ(Within(11, kNothingToTake), Advice::kGoBack);
  EXPECT_EQ(Within(11, kNothingToTake), Advice::kGiveUp);
}

// Two handlers insist on different results. A third one may join at any time.
TEST_F(LivenessTest, ARunThatNeedsAnotherHandlerDoesNotGoBack) {
  EXPECT_EQ(Within(11, kNothingToTake, true), Advice::kSay);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Within(29, kNothingToTake, true), Advice::kNone);
    EXPECT_EQ(Within(2, kNothingToTake, true), Advice::kSay);
  }
  EXPECT_EQ(Within(9, kNothingToTake), Advice::kNone) << "what it came for has its time";
  EXPECT_EQ(Within(2, kNothingToTake), Advice::kGoBack);
}

// The tasks may wait for room in the space, or for a slow link.
TEST_F(LivenessTest, ARunWhoseTasksAreUnderWayDoesNotGoBack) {
  constexpr RunTasksSeen kUnderWay{.ready = 0, .leased = 0, .puts_under_way = 1};
  EXPECT_EQ(Within(11, kUnderWay), Advice::kSay);
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Within(29, kUnderWay), Advice::kNone);
    EXPECT_EQ(Within(2, kUnderWay), Advice::kSay);
  }
  EXPECT_EQ(Within(11, kNothingToTake), Advice::kGoBack);
}

TEST_F(LivenessTest, ProgressBeginsItAnew) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(Within(9, kNothingToTake), Advice::kNone);
    liveness_.OnProgress(now_us_);
  }
}

TEST_F(LivenessTest, OnlyANewStepShowsThatGoingBackHelped) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(Within(11, kNothingToTake), Advice::kGoBack);
    liveness_.OnProgress(now_us_);
    liveness_.OnNewStep();
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Within(11, kNothingToTake), Advice::kGoBack);
    liveness_.OnProgress(now_us_);
  }
  EXPECT_EQ(Within(11, kNothingToTake), Advice::kGiveUp);
}

TEST_F(LivenessTest, WithoutCountsOfItsTasksTheRunIsOnlySpokenOf) {
  int said = 0;
  for (int i = 0; i < 400; ++i) {
    now_us_ += kLookUs;
    const Advice advice = liveness_.OnTick(now_us_);
    ASSERT_TRUE(advice == Advice::kNone || advice == Advice::kSay);
    said += advice == Advice::kSay;
  }
  EXPECT_EQ(said, 4) << "in 100 s";
}

// Its handlers come, do nothing, and are lost, again and again.
TEST_F(LivenessTest, TimeWithoutHandlersDoesNotCountButBeginsNothingAnew) {
  Capacity capacity;
  capacity.name = "first";
  const std::map<std::string, Capacity> one = {{"id0", capacity}};
  for (int i = 0; i < 4; ++i) {
    liveness_.OnHandlers(one);
    EXPECT_EQ(Within(2, kWorking), Advice::kNone);
    liveness_.OnHandlers({});
    EXPECT_EQ(WithoutHandlers(10), Advice::kNone);
  }
  EXPECT_NEAR(liveness_.IdleSeconds(now_us_), 8, 1);
  liveness_.OnHandlers(one);
  EXPECT_EQ(Within(3, kWorking), Advice::kSay);
  EXPECT_EQ(liveness_.lost().count, 4u);
  EXPECT_EQ(liveness_.lost().last, "first (id0)");
  liveness_.OnProgress(now_us_);
  EXPECT_EQ(liveness_.lost().count, 0u);
}

TEST_F(LivenessTest, HandlersThatComeHaveTheWholeTimeToTakeTasks) {
  EXPECT_EQ(Within(9, kNobodyTakes), Advice::kNone);
  EXPECT_EQ(WithoutHandlers(1000), Advice::kNone);
  EXPECT_EQ(Within(2, kNobodyTakes), Advice::kSay) << "it is only said";
  EXPECT_EQ(Within(7, kNobodyTakes), Advice::kNone);
  EXPECT_EQ(Within(3, kNobodyTakes), Advice::kReplan);
}

TEST_F(LivenessTest, APauseDoesNotCount) {
  EXPECT_EQ(Within(9, kNothingToTake), Advice::kNone);
  now_us_ += 60'000'000;
  EXPECT_EQ(Within(9, kNothingToTake), Advice::kNone);
}

}  // namespace
}  // namespace acan
