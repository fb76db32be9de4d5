// RunningClock, with a source that the test sets.
#include "running_clock.h"

#include <gtest/gtest.h>

namespace tuplespace {
namespace {

constexpr std::int64_t kSecondUs = 1'000'000;
std::int64_t source_us = 0;

class RunningClockTest : public ::testing::Test {
 protected:
  // The time that the clock counts while `passed_us` pass.
  std::int64_t Counted(std::int64_t passed_us) {
    const std::int64_t before_us = clock_.NowUs();
    source_us += passed_us;
    return clock_.NowUs() - before_us;
  }
  RunningClock clock_{[] { return source_us; }};
};

TEST_F(RunningClockTest, CountsAllTimeInWhichTheThreadRuns) {
  for (const std::int64_t us : {std::int64_t{0}, std::int64_t{1}, kSecondUs}) {
    EXPECT_EQ(Counted(us), us);
  }
}

TEST_F(RunningClockTest, DoesNotCountPauses) {
  EXPECT_EQ(Counted(9 * kSecondUs), 0);
  EXPECT_EQ(Counted(5), 5);
  EXPECT_EQ(Counted(2 * kSecondUs), 0);
}

TEST_F(RunningClockTest, TellsOfAPauseOnce) {
  EXPECT_FALSE(clock_.TakePause());
  Counted(kSecondUs);
  EXPECT_FALSE(clock_.TakePause());
  Counted(2 * kSecondUs);
  EXPECT_TRUE(clock_.TakePause());
  EXPECT_FALSE(clock_.TakePause());
}

TEST_F(RunningClockTest, CountsAnnouncedSleepAndNotWhatFollows) {
  Counted(3 * kSecondUs);  // a pause
  const std::int64_t now_us = clock_.NowUs();
  clock_.AnnounceSleep(now_us + 4 * kSecondUs);
  EXPECT_EQ(clock_.ToSourceUs(now_us), source_us);
  source_us += 4 * kSecondUs;
  EXPECT_EQ(clock_.NowUs(), now_us + 4 * kSecondUs);
  clock_.AnnounceSleep(now_us + 5 * kSecondUs);
  source_us += 8 * kSecondUs;
  EXPECT_EQ(clock_.NowUs(), now_us + 5 * kSecondUs);
  EXPECT_EQ(Counted(2 * kSecondUs), 0) << "an announcement counts once";
}

TEST_F(RunningClockTest, MaySleepForEver) {
  Counted(3 * kSecondUs);
  EXPECT_EQ(clock_.ToSourceUs(INT64_MAX), INT64_MAX);
  clock_.AnnounceSleep(INT64_MAX);
  EXPECT_EQ(Counted(kSecondUs), kSecondUs);
}

}  // namespace
}  // namespace tuplespace
