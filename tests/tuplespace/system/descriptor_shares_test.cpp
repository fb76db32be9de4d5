// What a process opens for others stays within its limit on open files.
#include "descriptor_shares.h"

#include <gtest/gtest.h>

namespace tuplespace {
namespace {

constexpr std::uint64_t kLeast = 64;  // with less, no broker or handler starts
constexpr std::uint64_t kSegments = 30'000;
constexpr std::uint64_t kChannels = 64;

TEST(DescriptorShares, OfABrokerStayWithinItsLimit) {
  for (std::uint64_t limit = kLeast; limit <= 200'000; limit += limit < 2000 ? 1 : 997) {
    for (const std::uint64_t segments : {std::uint64_t{0}, kSegments}) {
      const std::uint64_t channels = segments > 0 ? kChannels : 0;
      const BrokerDescriptors shares = ShareBrokerDescriptors(limit, segments, channels);
      EXPECT_LE(kOwnDescriptors + shares.segments + 2 * shares.channels + 2 * shares.connections,
                limit);
      EXPECT_LE(shares.segments, segments);
      EXPECT_LE(shares.channels, channels);
      EXPECT_GE(shares.connections, 8u) << limit;
      EXPECT_EQ(shares.segments > 0, segments > 0) << limit;
    }
  }
  EXPECT_EQ(ShareBrokerDescriptors(0, kSegments, kChannels).connections, 0u);
}

TEST(DescriptorShares, AreLargeUnderLargeLimits) {
  for (const std::uint64_t limit : {std::uint64_t{1} << 20, UINT64_MAX}) {
    const BrokerDescriptors shares = ShareBrokerDescriptors(limit, kSegments, kChannels);
    EXPECT_EQ(shares.segments, kSegments);
    EXPECT_EQ(shares.channels, kChannels);
    EXPECT_GE(shares.connections, 65'600u) << "as many clients as acan admits";
    EXPECT_EQ(PeerConnections(limit, 512), 512u);
  }
}

TEST(DescriptorShares, OfAClientStayWithinItsLimit) {
  for (std::uint64_t limit = kLeast; limit <= 5000; ++limit) {
    const std::uint64_t connections = PeerConnections(limit, 512);
    EXPECT_GE(connections, 1u);
    if (connections > 1) {
      EXPECT_LE(limit / 2 + kOwnDescriptors + 2 * connections, limit);
    }
  }
}

}  // namespace
}  // namespace tuplespace
