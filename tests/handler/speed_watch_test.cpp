// A handler notices that its device has become slower or faster.
#include "acan/handler/speed_watch.h"

#include <gtest/gtest.h>

#include <vector>

#include "acan/core/names.h"

namespace acan {
namespace {

constexpr std::int64_t kMillisecondUs = 1000, kSecond = 1'000'000;
constexpr double kMeasured = 10;                 // GFLOP/s
constexpr std::uint64_t kProduct = 1, kSum = 2;  // kinds

// A device that is always busy.
class SpeedWatchTest : public testing::Test {
 protected:
  // Each task takes 100 ms at the speed of `device`, which uses half of the measured speed then.
  void Compute(double device, std::int64_t for_us, std::uint64_t kind = kProduct) {
    const auto took_us = static_cast<std::int64_t>(100e3 / device);
    const auto flops = static_cast<std::uint64_t>(kMeasured / 2 * 100e6);
    for (const std::int64_t end_us = now_us_ + for_us; now_us_ < end_us;) {
      now_us_ += took_us;
      if (watch_.Note({kind, is_exact_ ? flops : 0}, took_us, now_us_)) {
        said_.push_back(watch_.speed());
      }
      if (watch_.Forget(now_us_)) said_.push_back(watch_.speed());
    }
  }
  // Returns after how long it announced its usual speed; 0: it did not.
  std::int64_t Wait(std::int64_t for_us) {
    const std::int64_t begin_us = now_us_;
    for (; now_us_ < begin_us + for_us; now_us_ += kSecond) {
      if (watch_.Forget(now_us_)) return now_us_ - begin_us;
    }
    return 0;
  }

  SpeedWatch watch_{kMeasured};
  std::int64_t now_us_ = 100 * kSecond;
  bool is_exact_ = true;
  std::vector<double> said_;
};

TEST_F(SpeedWatchTest, ASlowDeviceIsNoticedInTwoWindows) {
  Compute(1, 30 * kSecond);
  EXPECT_TRUE(said_.empty());
  Compute(0.2, 3 * SpeedWatch::kWindowUs);
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_NEAR(said_[0], 0.2, 0.01);
  Compute(0.2, 10 * SpeedWatch::kHoldUs);
  EXPECT_EQ(said_.size(), 1u) << "nothing has changed";
  Compute(1, 3 * SpeedWatch::kWindowUs);
  ASSERT_EQ(said_.size(), 2u);
  EXPECT_EQ(said_[1], 1);
}

TEST_F(SpeedWatchTest, NoiseAndShortPausesAreIgnored) {
  for (int i = 0; i < 20; ++i) {
    Compute(1, SpeedWatch::kWindowUs);
    Compute(0.55, SpeedWatch::kWindowUs);
    Compute(1.5, SpeedWatch::kWindowUs);
  }
  now_us_ += 60 * kSecond;  // the process was stopped
  watch_.Note({kProduct, 1}, 60 * kSecond, now_us_);
  Compute(1, 4 * SpeedWatch::kWindowUs);
  EXPECT_TRUE(said_.empty());
}

// Tasks placed anew are a cost.
TEST_F(SpeedWatchTest, ChangesAreAnnouncedOnceAMinute) {
  Compute(1, 10 * kSecond);
  const std::int64_t begin_us = now_us_;
  while (now_us_ < begin_us + 10 * SpeedWatch::kHoldUs) {
    Compute(0.2, 15 * kSecond);
    Compute(1, 15 * kSecond);
  }
  EXPECT_GE(said_.size(), 2u);
  EXPECT_LE(said_.size(), 11u);
}

// Per operation, adding matrices takes many times as long as a product.
TEST_F(SpeedWatchTest, KindsOfTasksAreComparedWithThemselves) {
  for (int i = 0; i < 10; ++i) {
    Compute(1, SpeedWatch::kWindowUs);
    Compute(0.02, 2 * SpeedWatch::kWindowUs, kSum);
  }
  EXPECT_TRUE(said_.empty());
}

// Jobs follow each other.
TEST_F(SpeedWatchTest, NewKindsOfASlowDeviceAreNotItsUsualSpeed) {
  Compute(1, 10 * kSecond);
  Compute(0.25, 20 * kSecond);
  ASSERT_EQ(said_.size(), 1u);
  Compute(0.25, 2 * SpeedWatch::kHoldUs, kSum);
  EXPECT_EQ(said_.size(), 1u);
  Compute(1, 20 * kSecond, kSum);
  ASSERT_EQ(said_.size(), 2u);
  EXPECT_EQ(said_[1], 1);
}

// Who measured itself beside a game, and then computes as fast as was never measured.
TEST_F(SpeedWatchTest, MoreThanTheMeasuredSpeedIsAnnouncedAsFarAsItWasReached) {
  Compute(1, 10 * kSecond);
  Compute(5, 20 * kSecond);
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_NEAR(said_[0], 2.5, 0.01);
  Compute(0.5, 2 * SpeedWatch::kHoldUs);
  ASSERT_EQ(said_.size(), 2u);
  EXPECT_NEAR(said_[1], 0.25, 0.01);
}

// The first window was slow, or the tasks are not those of the measurement.
TEST_F(SpeedWatchTest, OtherwiseTheFasterTimesAreTheUsualOnes) {
  is_exact_ = false;
  Compute(1, 10 * kSecond);
  Compute(5, 20 * kSecond);
  EXPECT_TRUE(said_.empty());
  Compute(1, 20 * kSecond);
  ASSERT_EQ(said_.size(), 1u);
  EXPECT_NEAR(said_[0], 0.2, 0.01);
}

// Otherwise a device that gets no tasks as it is slow would remain slow for ever.
TEST_F(SpeedWatchTest, WithoutTasksItIsTriedAgainAfterGrowingPauses) {
  Compute(1, 10 * kSecond);
  EXPECT_EQ(Wait(10 * SpeedWatch::kForgetUs), 0);
  std::int64_t pause_us = 0;
  for (int trial = 0; trial < 3; ++trial) {
    Compute(0.2, 3 * SpeedWatch::kWindowUs);
    EXPECT_NEAR(watch_.speed(), 0.2, 0.01) << trial;
    const std::int64_t waited_us = Wait(4 * SpeedWatch::kMaxForgetUs);
    EXPECT_GE(waited_us, 2 * pause_us - 10 * kSecond) << trial;
    EXPECT_EQ(watch_.speed(), 1);
    pause_us = waited_us;
  }
  Compute(1, 3 * SpeedWatch::kWindowUs);
  Compute(0.2, 3 * SpeedWatch::kWindowUs);
  EXPECT_LE(Wait(4 * SpeedWatch::kMaxForgetUs), SpeedWatch::kForgetUs) << "it was fast meanwhile";
}

TEST_F(SpeedWatchTest, AFewTasksSayNothing) {
  Compute(1, 10 * kSecond);
  for (int i = 0; i < 100; ++i) {
    now_us_ += 10 * kSecond;
    EXPECT_FALSE(watch_.Note({kProduct, 1}, 200 * kMillisecondUs, now_us_));
  }
}

TEST_F(SpeedWatchTest, SpeedsStayWithinTheirLimits) {
  Compute(1, 10 * kSecond);
  Compute(0.001, 400 * kSecond);
  ASSERT_FALSE(said_.empty());
  EXPECT_GE(said_.back(), kMinSpeed);
  Compute(100, 200 * kSecond);
  EXPECT_LE(said_.back(), kMaxSpeed);
}

TEST(WatchedTaskTest, KindsDifferInPurposePrecisionCallsAndOperations) {
  Task task;
  task.kind = TaskKind::kForward;
  task.calls.resize(2);
  const WatchedTask first = WatchedTaskOf(task, 1000);
  EXPECT_EQ(first.exact_flops, 1000u);
  EXPECT_EQ(WatchedTaskOf(task, 1000).kind, first.kind);
  EXPECT_NE(WatchedTaskOf(task, 1001).kind, first.kind);
  EXPECT_EQ(WatchedTaskOf(task, 0).kind, 0u);
  Task other = task;
  other.kind = TaskKind::kUpdate;
  EXPECT_NE(WatchedTaskOf(other, 1000).kind, first.kind);
  other = task;
  other.calls.resize(3);
  EXPECT_NE(WatchedTaskOf(other, 1000).kind, first.kind);
  other = task;
  other.precision = Precision::kFast;
  EXPECT_NE(WatchedTaskOf(other, 1000).kind, first.kind);
  EXPECT_EQ(WatchedTaskOf(other, 1000).exact_flops, 0u);
}

}  // namespace
}  // namespace acan
