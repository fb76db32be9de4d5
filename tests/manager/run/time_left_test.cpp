#include "time_left.h"

#include <gtest/gtest.h>

namespace acan {
namespace {

constexpr std::int64_t kOneSecondUs = 1'000'000;

// In the first job the first step took 4 s, with 2,344 steps to go. An estimate from it would be
// "2:37:54 left" for a run of two minutes.
TEST(TimeLeft, IsUnknownAfterTheFirstStep) {
  TimeLeft left;
  EXPECT_EQ(left.Seconds(10), std::nullopt);
  left.StepDone(4 * kOneSecondUs);
  EXPECT_EQ(left.Seconds(10), std::nullopt);
}

TEST(TimeLeft, IsUnknownUntilEnoughStepsTookEnoughTime) {
  TimeLeft slow;
  for (std::int64_t step = 0; step < TimeLeft::kMinSteps; ++step) {
    slow.StepDone(step * 60 * kOneSecondUs);
    EXPECT_EQ(slow.Seconds(10), std::nullopt) << step;
  }
  slow.StepDone(TimeLeft::kMinSteps * 60 * kOneSecondUs);
  EXPECT_DOUBLE_EQ(slow.Seconds(10).value(), 600);

  TimeLeft fast;
  for (std::int64_t step = 0; step < 1000; ++step) {
    fast.StepDone(step * 1000);
    EXPECT_EQ(fast.Seconds(10), std::nullopt) << step;
  }
  fast.StepDone(TimeLeft::kMinUs);
  EXPECT_DOUBLE_EQ(fast.Seconds(500).value(), 0.5);
}

TEST(TimeLeft, DoesNotCountWhatCameBeforeTheFirstStep) {
  TimeLeft left;
  for (std::int64_t step = 0; step <= 10; ++step) left.StepDone((100 + step) * kOneSecondUs);
  EXPECT_DOUBLE_EQ(left.Seconds(7).value(), 7);
  EXPECT_DOUBLE_EQ(left.Seconds(0).value(), 0);
}

// Else it would say for days of a long run that the handlers that left were still there.
TEST(TimeLeft, IsThatOfTheLastSteps) {
  TimeLeft left;
  std::int64_t now_us = 0;
  const auto steps = [&](int count, std::int64_t each_us) {
    for (int i = 0; i < count; ++i) left.StepDone(now_us += each_us);
  };
  steps(1000, 10'000);
  steps(200, 100'000);
  EXPECT_NEAR(left.Seconds(1).value(), 0.1, 0.02);

  constexpr int kDay = 24 * 3600;
  steps(7 * kDay, kOneSecondUs);
  steps(120, 10 * kOneSecondUs);
  EXPECT_NEAR(left.Seconds(1).value(), 10, 2);
  now_us += kDay * kOneSecondUs;  // a pause
  steps(1200, kOneSecondUs);
  EXPECT_NEAR(left.Seconds(1).value(), 1, 0.2);
}

TEST(TimeLeft, OfFewLongStepsIsTheirMean) {
  TimeLeft left;
  constexpr std::int64_t kHourUs = 3600 * kOneSecondUs;
  for (std::int64_t step = 0; step <= 100; ++step) left.StepDone(step * kHourUs);
  EXPECT_DOUBLE_EQ(left.Seconds(10).value(), 36'000);
}

}  // namespace
}  // namespace acan
