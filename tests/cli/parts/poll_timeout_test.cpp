#include "poll_timeout.h"

#include <chrono>
#include <climits>

#include "gtest/gtest.h"

namespace acan::cli {
namespace {

using std::chrono::hours;
using std::chrono::microseconds;
using std::chrono::milliseconds;

TEST(PollTimeout, IsTheTimeThatIsLeftRoundedUp) {
  const std::chrono::steady_clock::time_point now{hours(1)};
  EXPECT_EQ(PollTimeoutMs(now + milliseconds(20), now), 20);
  EXPECT_EQ(PollTimeoutMs(now + microseconds(20'001), now), 21);
  EXPECT_EQ(PollTimeoutMs(now + microseconds(1), now), 1);
  EXPECT_EQ(PollTimeoutMs(now + hours(24 * 365), now), INT_MAX);
}

// A negative timeout would let poll wait forever.
TEST(PollTimeout, IsNeverNegative) {
  const std::chrono::steady_clock::time_point now{hours(1)};
  EXPECT_EQ(PollTimeoutMs(now, now), 0);
  EXPECT_EQ(PollTimeoutMs(now - microseconds(1), now), 0);
  EXPECT_EQ(PollTimeoutMs(now - milliseconds(1), now), 0);
  EXPECT_EQ(PollTimeoutMs(now - milliseconds(3000), now), 0);
  EXPECT_EQ(PollTimeoutMs({}, now), 0);
}

}  // namespace
}  // namespace acan::cli
