// The tuples that a handler's device keeps, if a manager has chosen their keys with malice.
#include "acan/handler/device_cache.h"

#include <gtest/gtest.h>

#include <vector>

#include "acan/core/names.h"
#include "acan/handler/cache_eviction.h"
#include "colliding_keys.h"
#include "handler_core_fixture.h"

namespace acan {
namespace {

using tuplespace::CollidingKeys;
using tuplespace::Key;

TEST(DeviceCacheTest, KeepsManyResultsWhoseKeysWithoutTheStepHaveOneHash) {
  const std::vector<Key> keys = CollidingKeys(WithoutStep);
  DeviceCache cache;
  StepActions out;
  for (const Key& key : keys) cache.Add({key, 1}, 0, out);
  EXPECT_EQ(cache.bytes(), keys.size());
  EXPECT_TRUE(out.Take().empty());
  CacheEviction::ShrinkTo(0, cache, out);
  EXPECT_EQ(Of<DropCached>(out.Take()).size(), keys.size());
}

}  // namespace
}  // namespace acan
