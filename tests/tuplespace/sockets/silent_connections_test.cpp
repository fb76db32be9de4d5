// Which silent connection makes room for a new one.
#include "silent_connections.h"

#include <gtest/gtest.h>

#include <string>

namespace tuplespace {
namespace {

constexpr std::int64_t kOldUs = SilentConnections::kYoungUs;

// Adds `count` connections of one address, which is also the network; their descriptors begin at
// `first`.
void AddSilent(SilentConnections& silent, int first, int count, const std::string& address,
               std::int64_t now_us) {
  for (int i = 0; i < count; ++i) silent.Add(first + i, address, address, now_us);
}

TEST(SilentConnections, TheOldestOfAnAddressMakesRoomThere) {
  SilentConnections silent;
  AddSilent(silent, 10, 2, "other", 0);
  AddSilent(silent, 20, 3, "one", 0);
  silent.Add(30, "one", "one", kOldUs);
  EXPECT_EQ(silent.ToEndOfAddress(30, kOldUs), 20);
  silent.Remove(20);
  EXPECT_EQ(silent.ToEndOfAddress(30, kOldUs), 21);
  silent.Remove(21);
  silent.Remove(22);
  EXPECT_EQ(silent.ToEndOfAddress(30, kOldUs), std::nullopt) << "only others have old ones";
}

// As many clients behind one address do when their broker has started again.
TEST(SilentConnections, HandshakesInProgressGoOn) {
  SilentConnections silent;
  AddSilent(silent, 0, 512, "fleet", 0);
  silent.Add(1000, "fleet", "fleet", kOldUs - 1);
  EXPECT_EQ(silent.ToEndOfAddress(1000, kOldUs - 1), std::nullopt);
  EXPECT_EQ(silent.ToEnd(1000, kOldUs - 1), std::nullopt);
}

TEST(SilentConnections, TheNetworkWithMostMakesRoom) {
  SilentConnections silent;
  silent.Add(1, "honest", "honest", 0);
  AddSilent(silent, 10, 5, "flood", 1);
  AddSilent(silent, 20, 2, "small", 2);
  silent.Add(30, "honest", "honest", kOldUs + 1);
  EXPECT_EQ(silent.ToEnd(30, kOldUs + 1), 10);
  for (int i = 10; i < 15; ++i) silent.Remove(i);
  AddSilent(silent, 40, 5, "flood", kOldUs + 1);
  EXPECT_EQ(silent.ToEnd(30, kOldUs + 1), 1) << "the oldest, as those of the flood are young";
}

// Whoever connects so often that all are young keeps other networks out no longer.
TEST(SilentConnections, YoungOnesOfAFloodMakeRoomForOtherNetworks) {
  SilentConnections silent;
  AddSilent(silent, 0, 100, "flood", 0);
  AddSilent(silent, 200, 49, "fleet", 0);
  EXPECT_EQ(silent.ToEnd(248, 1), 0);
  silent.Add(249, "fleet", "fleet", 1);
  EXPECT_EQ(silent.ToEnd(249, 1), std::nullopt) << "it has half as many already";
}

TEST(SilentConnections, AddressesOfOneNetworkCountTogether) {
  SilentConnections silent;
  AddSilent(silent, 0, 2, "pair", 0);
  for (int i = 10; i < 13; ++i) silent.Add(i, "address " + std::to_string(i), "network", 0);
  silent.Add(20, "pair", "pair", kOldUs);
  silent.Remove(0);
  EXPECT_EQ(silent.ToEnd(20, kOldUs), 10);
}

TEST(SilentConnections, ADescriptorMayComeAgain) {
  SilentConnections silent;
  silent.Add(1, "one", "one", 0);
  silent.Add(1, "other", "other", kOldUs);
  EXPECT_EQ(silent.ToEndOfAddress(1, kOldUs), std::nullopt);
  EXPECT_EQ(silent.ToEnd(1, kOldUs), std::nullopt);
  silent.Remove(1);
  silent.Remove(1);
}

}  // namespace
}  // namespace tuplespace
