// Whoever causes events does not fill the log with them.
#include "log_pause.h"

#include <gtest/gtest.h>

#include <string>

namespace tuplespace {
namespace {

constexpr std::int64_t kPauseSecondUs = 1'000'000;

int LinesOf(LogPause& pause, int names, std::int64_t now_us) {
  int lines = 0;
  for (int i = 0; i < names; ++i) {
    if (pause.IsOver("name " + std::to_string(i), now_us)) ++lines;
  }
  return lines;
}

TEST(LogPauseTest, EachNameHasOneLineInTenSeconds) {
  LogPause pause;
  EXPECT_EQ(LinesOf(pause, 500, 0), 500);
  EXPECT_EQ(LinesOf(pause, 500, 10 * kPauseSecondUs - 1), 0);
  EXPECT_EQ(LinesOf(pause, 500, 10 * kPauseSecondUs), 500);
}

// An attacker may have any number of addresses.
TEST(LogPauseTest, AllStrangersHaveALimitTogether) {
  LogPause pause(kLinesAboutStrangers);
  EXPECT_EQ(LinesOf(pause, 3000, 0), kLinesAboutStrangers);
  EXPECT_EQ(LinesOf(pause, 3000, kPauseSecondUs - 1), 0);
  EXPECT_EQ(LinesOf(pause, 3000, kPauseSecondUs), 1);
  EXPECT_EQ(LinesOf(pause, 3000, 4 * kPauseSecondUs), 3);
  EXPECT_EQ(LinesOf(pause, 3000, 3600 * kPauseSecondUs), kLinesAboutStrangers);
}

}  // namespace
}  // namespace tuplespace
