// Learning rates and optimizer scalars: correct compared with libm, and the same bits everywhere.
#include "acan/core/schedule.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>

#include "acan/core/exact_math.h"

namespace acan {
namespace {

std::uint64_t Bits(double value) {
  return std::bit_cast<std::uint64_t>(value);
}

TEST(ScheduleTest, CosineAgreesWithLibm) {
  EXPECT_EQ(CosinePi(0.0), 1.0);
  EXPECT_EQ(CosinePi(0.5), 0.0);
  EXPECT_EQ(CosinePi(1.0), -1.0);
  double worst = 0;
  for (int i = 0; i <= 100000; ++i) {
    const double x = i / 100000.0;
    const auto expected = static_cast<double>(std::cos(3.14159265358979323846264338327950288L * x));
    worst = std::max(worst, std::fabs(CosinePi(x) - expected));
  }
  EXPECT_LT(worst, 1e-15);
}

TEST(ScheduleTest, PowersAgreeWithLibm) {
  EXPECT_EQ(IntegerPower(0.9, 0), 1.0);
  EXPECT_EQ(IntegerPower(0.9, 1), 0.9);
  EXPECT_EQ(IntegerPower(0.0, 5), 0.0);
  EXPECT_EQ(IntegerPower(2.0, 62), 4611686018427387904.0);
  for (const double base : {0.9, 0.99, 0.999, 0.5, 1.5}) {
    for (const std::int64_t exponent : {2, 3, 10, 63, 100, 1000}) {
      const double expected = std::pow(base, static_cast<double>(exponent));
      EXPECT_NEAR(IntegerPower(base, exponent) / expected, 1.0, 1e-12);
    }
  }
  EXPECT_EQ(IntegerPower(0.999, std::int64_t{1} << 40), 0.0);
}

TEST(ScheduleTest, ConstantAndWarmUp) {
  Training training;
  training.learning_rate = 0.5;
  EXPECT_EQ(LearningRateAt(training, 0, 100), 0.5);
  EXPECT_EQ(LearningRateAt(training, 99, 100), 0.5);
  training.schedule.warmup_steps = 4;
  EXPECT_EQ(LearningRateAt(training, 0, 100), 0.125);
  EXPECT_EQ(LearningRateAt(training, 3, 100), 0.5);
  EXPECT_EQ(LearningRateAt(training, 4, 100), 0.5);
  // A run that is shorter than its warm-up stays in it.
  EXPECT_EQ(LearningRateAt(training, 1, 2), 0.25);
}

TEST(ScheduleTest, Steps) {
  Training training;
  training.learning_rate = 1.0;
  training.schedule = {ScheduleKind::kStep, 2, 3, 0.5, 0.0};
  const double expected[] = {0.5, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25, 0.25, 0.125};
  for (std::int64_t step = 0; step < 12; ++step) {
    EXPECT_EQ(LearningRateAt(training, step, 12), expected[step]) << step;
  }
}

TEST(ScheduleTest, StepsOfNothingStayNothing) {
  Training training;
  training.learning_rate = 0.0;
  training.schedule = {ScheduleKind::kStep, 0, 1, 1000.0, 0.0};
  EXPECT_EQ(LearningRateAt(training, 103, 1000), 0.0) << "the factor is infinite";
  training.learning_rate = 1e-300;
  EXPECT_EQ(LearningRateAt(training, 100, 1000), 1e-300 * IntegerPower(1000.0, 100));
}

TEST(ScheduleTest, CosineFallsFromAllToItsEnd) {
  Training training;
  training.learning_rate = 0.1;
  training.schedule = {ScheduleKind::kCosine, 10, 0, 0.1, 0.2};
  EXPECT_EQ(LearningRateAt(training, 10, 110), 0.1);
  EXPECT_NEAR(LearningRateAt(training, 60, 110), 0.1 * (0.2 + 0.8 * 0.5), 1e-16);
  double before = 1;
  for (std::int64_t step = 10; step < 110; ++step) {
    const double rate = LearningRateAt(training, step, 110);
    const double progress = static_cast<double>(step - 10) / 100.0;
    EXPECT_NEAR(rate, 0.1 * (0.2 + 0.8 * (1 + std::cos(std::acos(-1.0) * progress)) / 2), 1e-15);
    EXPECT_LT(rate, before);
    EXPECT_GT(rate, 0.02);
    before = rate;
  }
}

TEST(ScheduleTest, ScalarsAreWhatTheKernelsTake) {
  Training training;
  training.learning_rate = 0.25;
  training.weight_decay = 0.5;
  KernelScalars scalars = OptimizerScalarsAt(training, 0, 10);
  EXPECT_EQ(scalars.f, (std::array<float, 8>{0.25f, 0.5f}));
  training.optimizer = Optimizer::kMomentum;
  scalars = OptimizerScalarsAt(training, 0, 10);
  EXPECT_EQ(scalars.f, (std::array<float, 8>{0.25f, 0.9f, 0.5f}));
  training.optimizer = Optimizer::kAdamW;
  for (const std::int64_t step : {0, 1, 2, 9, 999, 100000}) {
    scalars = OptimizerScalarsAt(training, step, 200000);
    EXPECT_EQ(scalars.f[0], 0.25f);
    EXPECT_EQ(scalars.f[1], 0.1f);
    EXPECT_EQ(scalars.f[2], 0.001f);
    EXPECT_EQ(scalars.f[3], 1e-8f);
    EXPECT_EQ(scalars.f[4], 0.5f);
    const auto t = static_cast<double>(step + 1);
    EXPECT_FLOAT_EQ(scalars.f[5], static_cast<float>(1.0 - std::pow(0.9, t)));
    EXPECT_FLOAT_EQ(scalars.f[6], static_cast<float>(std::sqrt(1.0 - std::pow(0.999, t))));
  }
}

TEST(ScheduleTest, StepsOfAnEpochCountTheLastSmallBatch) {
  EXPECT_EQ(StepsPerEpoch(1, 128), 1);
  EXPECT_EQ(StepsPerEpoch(128, 128), 1);
  EXPECT_EQ(StepsPerEpoch(129, 128), 2);
  EXPECT_EQ(StepsPerEpoch(60000, 128), 469);
}

TEST(ScheduleTest, GoldenBits) {
  // These bits must never change on any machine or compiler: trained weights depend on them.
  EXPECT_EQ(Bits(CosinePi(0.1)), 0x3fee6f0e134454ffu);
  EXPECT_EQ(Bits(CosinePi(1.0 / 3.0)), 0x3fe0000000000000u);
  EXPECT_EQ(Bits(CosinePi(0.9)), 0xbfee6f0e13445500u);
  EXPECT_EQ(Bits(IntegerPower(0.999, 12345)), 0x3ed22391fb9458b0u);
  Training training;
  training.learning_rate = 0.1;
  training.schedule = {ScheduleKind::kCosine, 100, 0, 0.1, 0.01};
  EXPECT_EQ(Bits(LearningRateAt(training, 37, 1000)), 0x3fa374bc6a7ef9dcu);
  EXPECT_EQ(Bits(LearningRateAt(training, 777, 1000)), 0x3f8f3ddc9d564d54u);
}

}  // namespace
}  // namespace acan
