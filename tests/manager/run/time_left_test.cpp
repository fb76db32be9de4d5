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

}  // namespace
}  // namespace acan
