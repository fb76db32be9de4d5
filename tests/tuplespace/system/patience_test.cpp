// When a thread without work looks for messages before it sleeps.
#include "patience.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace tuplespace {
namespace {

// Later than any real clock says: Look may find the processor busy until some time from now.
constexpr std::int64_t kNow = 1'000'000'000'000'000'000;

bool Looks(const Patience& patience, std::int64_t now_us = kNow) {
  return patience.IsWorthIt(now_us);
}

TEST(Patience, WhoIsNotAnsweredSoonSleepsAtOnce) {
  Patience patience;
  EXPECT_FALSE(Looks(patience));
  patience.Slept(Patience::kSoonUs);
  EXPECT_FALSE(Looks(patience));
  int asked = 0;
  EXPECT_FALSE(patience.Look([&] { return ++asked > 0; }));
  EXPECT_EQ(asked, 0);
}

TEST(Patience, AShortSleepIsAReasonToLookTheNextTime) {
  Patience patience;
  patience.Slept(Patience::kSoonUs - 1);
  EXPECT_TRUE(Looks(patience));
  EXPECT_TRUE(patience.Look([] { return true; }));
  EXPECT_TRUE(Looks(patience));
}

TEST(Patience, LookingInVainEndsIt) {
  Patience patience;
  patience.Slept(1);
  int asked = 0;
  EXPECT_FALSE(patience.Look([&] { return ++asked < 0; }));
  EXPECT_GT(asked, 0);
  EXPECT_FALSE(Looks(patience));
  // What comes a little later than one looks would have been missed again.
  patience.Slept(1);
  EXPECT_FALSE(Looks(patience));
  patience.Slept(1);
  EXPECT_TRUE(Looks(patience));
}

TEST(Patience, SurvivesAsManyMissesAsThereWereFindsEightAtMost) {
  Patience patience;
  patience.Slept(1);
  for (int i = 0; i < 100; ++i) patience.Looked(true);
  for (int i = 0; i < 7; ++i) {
    patience.Looked(false);
    EXPECT_TRUE(Looks(patience)) << i;
  }
  patience.Looked(false);
  EXPECT_FALSE(Looks(patience));
}

TEST(Patience, WhereOthersNeedTheProcessorItIsTriedAgainMuchLater) {
  Patience patience;
  patience.Slept(1);
  patience.Looked(true);
  patience.Yielded(kNow - 3000, kNow);
  patience.Looked(true);
  EXPECT_FALSE(Looks(patience));
  EXPECT_FALSE(Looks(patience, kNow + 255 * 3000));
  EXPECT_TRUE(Looks(patience, kNow + 256 * 3000));
  patience.Yielded(kNow, kNow + Patience::kTurnUs - 1);
  EXPECT_TRUE(Looks(patience, kNow + 256 * 3000));
}

// What another thread says meanwhile is seen.
TEST(Patience, FindsWhatComes) {
  std::atomic<int> asked{0};
  std::atomic<int> said{0};
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (!stop) said.store(asked.load());
  });
  int found = 0;
  for (int i = 0; i < 100'000 && found == 0; ++i) {
    Patience patience;
    patience.Slept(1);
    const int mine = ++asked;
    found += patience.Look([&] { return said.load() == mine; }) ? 1 : 0;
  }
  stop = true;
  other.join();
  EXPECT_EQ(found, 1);
}

}  // namespace
}  // namespace tuplespace
