#include "progress_display.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace acan::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(DurationText, IsAsOnAClock) {
  EXPECT_EQ(DurationText(0), "0:00");
  EXPECT_EQ(DurationText(9.4), "0:09");
  EXPECT_EQ(DurationText(59.6), "1:00");
  EXPECT_EQ(DurationText(3723), "1:02:03");
  EXPECT_EQ(DurationText(-1), "?");
  EXPECT_EQ(DurationText(1.0 / 0.0), "?");
}

TEST(ProgressText, NamesWhatMatters) {
  Progress progress;
  progress.epoch = 2;
  progress.epochs = 8;
  progress.step = 900;
  progress.steps = 3752;
  progress.loss = 0.41234;
  progress.samples_per_s = 21034.4;
  progress.handlers = 4;
  progress.reissued = 3;
  progress.eta_s = 12;
  EXPECT_EQ(
      ProgressText(progress),
      "epoch 2/8  step 900/3752  loss 0.4123  21034 samples/s  0:12 left  4 handlers  3 re-issued");
}

TEST(ProgressText, SaysNothingOfTheTimeLeftWhileItIsUnknown) {
  Progress progress;
  progress.epoch = progress.epochs = 1;
  progress.step = 1;
  progress.steps = 2345;
  EXPECT_THAT(ProgressText(progress), Not(HasSubstr("left")));
  progress.eta_s = 90;
  EXPECT_THAT(ProgressText(progress), HasSubstr("  1:30 left  "));
}

TEST(ProgressText, SaysSinceWhenTheLossIsNotFinite) {
  Progress progress;
  progress.steps = progress.epochs = progress.epoch = 1;
  EXPECT_THAT(ProgressText(progress), Not(HasSubstr("finite")));
  progress.not_finite_step = 0;
  EXPECT_THAT(ProgressText(progress), HasSubstr("not finite since step 0"));
}

TEST(ProgressText, SaysNothingOfALossBeforeTheFirstStep) {
  Progress progress;
  progress.epoch = 1;
  progress.epochs = 2;
  progress.steps = 10;
  progress.handlers = 1;
  EXPECT_EQ(ProgressText(progress), "epoch 1/2  step 0/10  1 handler  0 re-issued");
}

}  // namespace
}  // namespace acan::cli
