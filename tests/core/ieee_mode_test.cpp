// IeeeMode in a thread that flushes denormal numbers to zero. The programs in fast_math/ test it in
// a process that begins like this.
#include "acan/core/ieee_mode.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>

#include "float_mode.h"

namespace acan {
namespace {

TEST(IeeeModeTest, LastsForItsScopeAndHoldsForThreadsThatBeginInIt) {
  const test::FlushToZero flush;
  const bool flushed = test::Flushes();
  EXPECT_EQ(flushed, test::kFlushing != 0);
  {
    const IeeeMode ieee;
    EXPECT_FALSE(test::Flushes());
    const volatile float least = std::numeric_limits<float>::min();
    const volatile float half = least / 2;  // denormal
    const float both = half + half;
    EXPECT_EQ(both, std::numeric_limits<float>::min());
    bool thread_flushes = true;
    std::thread([&] { thread_flushes = test::Flushes(); }).join();
    EXPECT_FALSE(thread_flushes);
  }
  EXPECT_EQ(test::Flushes(), flushed);
}

}  // namespace
}  // namespace acan
