// When a thread without work polls for messages before it sleeps.
#include "adaptive_spin.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace tuplespace {
namespace {

// Later than any real clock says: Look may find the processor busy until some time from now.
constexpr std::int64_t kNow = 1'000'000'000'000'000'000;

bool Looks(const AdaptiveSpin& spin, std::int64_t now_us = kNow) {
  return spin.IsWorthIt(now_us);
}

TEST(AdaptiveSpin, WhoIsNotAnsweredSoonSleepsAtOnce) {
  AdaptiveSpin spin;
  EXPECT_FALSE(Looks(spin));
  spin.Slept(AdaptiveSpin::kSoonUs);
  EXPECT_FALSE(Looks(spin));
  int asked = 0;
  EXPECT_FALSE(spin.Spin([&] { return ++asked > 0; }));
  EXPECT_EQ(asked, 0);
}

TEST(AdaptiveSpin, AShortSleepIsAReasonToSpinTheNextTime) {
  AdaptiveSpin spin;
  spin.Slept(AdaptiveSpin::kSoonUs - 1);
  EXPECT_TRUE(Looks(spin));
  EXPECT_TRUE(spin.Spin([] { return true; }));
  EXPECT_TRUE(Looks(spin));
}

TEST(AdaptiveSpin, SpinningInVainEndsIt) {
  AdaptiveSpin spin;
  spin.Slept(1);
  int asked = 0;
  EXPECT_FALSE(spin.Spin([&] { return ++asked < 0; }));
  EXPECT_GT(asked, 0);
  EXPECT_FALSE(Looks(spin));
  // A message that comes slightly later than the spin lasts would be missed again.
  spin.Slept(1);
  EXPECT_FALSE(Looks(spin));
  spin.Slept(1);
  EXPECT_TRUE(Looks(spin));
}

TEST(AdaptiveSpin, SurvivesAsManyMissesAsThereWereFindsEightAtMost) {
  AdaptiveSpin spin;
  spin.Slept(1);
  for (int i = 0; i < 100; ++i) spin.Spun(true);
  for (int i = 0; i < 7; ++i) {
    spin.Spun(false);
    EXPECT_TRUE(Looks(spin)) << i;
  }
  spin.Spun(false);
  EXPECT_FALSE(Looks(spin));
}

TEST(AdaptiveSpin, WhereOthersNeedTheProcessorItIsTriedAgainMuchLater) {
  AdaptiveSpin spin;
  spin.Slept(1);
  spin.Spun(true);
  spin.Yielded(kNow - 3000, kNow);
  spin.Spun(true);
  EXPECT_FALSE(Looks(spin));
  EXPECT_FALSE(Looks(spin, kNow + 255 * 3000));
  EXPECT_TRUE(Looks(spin, kNow + 256 * 3000));
  spin.Yielded(kNow, kNow + AdaptiveSpin::kTurnUs - 1);
  EXPECT_TRUE(Looks(spin, kNow + 256 * 3000));
}

// A spinning thread sees what another thread writes.
TEST(AdaptiveSpin, FindsWhatComes) {
  std::atomic<int> asked{0};
  std::atomic<int> said{0};
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) said.store(asked.load());
  });
  int found = 0;
  for (int i = 0; i < 100'000 && found == 0; ++i) {
    AdaptiveSpin spin;
    spin.Slept(1);
    const int mine = ++asked;
    found += spin.Spin([&] { return said.load() == mine; }) ? 1 : 0;
  }
  stop = true;
  other.join();
  EXPECT_EQ(found, 1);
}

}  // namespace
}  // namespace tuplespace
