// SafeTimer alone: when versions are copied.
#include "acan/manager/safe_timer.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace acan {
namespace {

TEST(SafeTimerTest, OneCopyAtATimeOfSoManyStepsAtMost) {
  SafeTimer timer(4);
  timer.Start(1'000);
  EXPECT_FALSE(timer.IsDue(3, 1'000));
  ASSERT_TRUE(timer.IsDue(4, 1'000));
  timer.Begin(4, 1'000);
  EXPECT_FALSE(timer.IsDue(8, 60'000'000)) << "one is under way";
  EXPECT_FALSE(timer.OnDone(3, 2'000));
  ASSERT_TRUE(timer.OnDone(4, 11'000));
  EXPECT_EQ(timer.took_us(), 10'000);
  EXPECT_FALSE(timer.IsDue(7, 60'000'000)) << "too few steps";
  EXPECT_FALSE(timer.IsDue(8, 1'000'999));
  EXPECT_TRUE(timer.IsDue(8, 1'001'000)) << "the second one comes soon";
}

TEST(SafeTimerTest, WhereLossesAreFrequentVersionsAreCopiedMoreOften) {
  const std::int64_t hour_us = 3'600'000'000;
  const auto due_after_us = [&](int losses) {
    SafeTimer timer(1);
    timer.Start(0);
    for (int i = 0; i < losses; ++i) timer.OnLost(0);
    timer.Begin(1, hour_us);
    EXPECT_TRUE(timer.OnDone(1, hour_us + 10'000));
    std::int64_t least = 0, most = hour_us;
    while (most - least > 1) {
      const std::int64_t middle = (least + most) / 2;
      (timer.IsDue(2, hour_us + middle) ? most : least) = middle;
    }
    return static_cast<double>(most);
  };
  EXPECT_NEAR(due_after_us(0), 12.0e6, 0.1e6) << "the root of 2 x 10 ms x two hours";
  EXPECT_NEAR(due_after_us(8), 4.0e6, 0.1e6) << "one loss expected, eight seen";
}

TEST(SafeTimerTest, GoingBackForgetsTheCopyUnderWay) {
  SafeTimer timer(2);
  timer.Begin(4, 0);
  timer.GoBackTo(2);
  EXPECT_FALSE(timer.OnDone(4, 1'000));
  EXPECT_FALSE(timer.IsDue(3, 1'000));
  EXPECT_TRUE(timer.IsDue(4, 1'000));
  timer.Note(4);
  EXPECT_FALSE(timer.IsDue(5, 1'000)) << "it is safe already";
}

}  // namespace
}  // namespace acan
