// The tuples that a handler's device keeps, if a manager has chosen their keys with malice.
#include "acan/handler/device_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "acan/core/names.h"
#include "colliding_keys.h"

namespace acan {
namespace {

using tuplespace::CollidingKeys;
using tuplespace::Key;

TEST(DeviceCacheTest, KeepsManyResultsWhoseKeysWithoutTheStepHaveOneHash) {
  const std::vector<Key> keys = CollidingKeys(WithoutStep);
  DeviceCache cache;
  DeviceCache::Actions out;
  for (const Key& key : keys) cache.Add({key, 1}, 0, out);
  EXPECT_EQ(cache.bytes(), keys.size());
  EXPECT_TRUE(out.empty());
  cache.ShrinkTo(0, out);
  EXPECT_EQ(out.size(), keys.size());
}

TEST(DeviceCacheTest, OwesManyResultsThatArePutAgainAndWhoseKeysHaveOneHash) {
  const std::vector<Key> keys = CollidingKeys([](const Key& key) { return key.bytes(); });
  DeviceCache cache;
  DeviceCache::Actions out;
  ConnectionLost lost;
  for (const Key& key : keys) {
    cache.AddOwed(cache.AddPinned({key, 1, true}, 0, out).first);
    lost.put_again.insert(key);
  }
  cache.ReleaseAllBut(lost.put_again, out);
  EXPECT_TRUE(std::all_of(keys.begin(), keys.end(),
                          [&](const Key& key) { return cache.BeginSupply(key); }));
}

// As when the handler joins another broker: a request that names more would be refused.
TEST(DeviceCacheTest, AnnouncesManyTuplesInSeveralRequests) {
  constexpr std::size_t kMany = 10'000;
  DeviceCache cache;
  DeviceCache::Actions out;
  for (std::size_t i = 0; i < kMany; ++i) {
    cache.AnnounceHeld(Key{"held", static_cast<std::int64_t>(i)});
    cache.AnnounceDropped(Key{"dropped", static_cast<std::int64_t>(i)});
  }
  cache.FlushHolds(out);
  std::size_t held = 0;
  std::size_t dropped = 0;
  for (const HandlerAction& action : out) {
    const auto& said = std::get<AnnounceHeld>(action);
    EXPECT_LE(said.held.size() + said.dropped.size(), 4096u);
    EXPECT_TRUE(held == 0 || said.dropped.empty()) << "what is dropped comes first";
    held += said.held.size();
    dropped += said.dropped.size();
  }
  EXPECT_EQ(held, kMany);
  EXPECT_EQ(dropped, kMany);
  out.clear();
  cache.FlushHolds(out);
  EXPECT_TRUE(out.empty());
}

}  // namespace
}  // namespace acan
