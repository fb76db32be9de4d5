// The payloads that a client offers to others.
#include "offered.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "colliding_keys.h"

namespace tuplespace {
namespace {

// The keys of what a handler offers come from a manager.
TEST(OfferedTest, FindsEachOfManyKeysOfOneHash) {
  const std::vector<Key> keys = CollidingKeys([](const Key& key) { return key.bytes(); });
  const Payload payload = Payload::Copy("x");
  Offered offered;
  for (const Key& key : keys) offered.Add(key, payload);
  std::size_t found = 0, never_served = 0;
  for (const Key& key : keys) found += offered.Find(key).empty() ? 0 : 1;
  EXPECT_EQ(found, keys.size());
  for (const Key& key : keys) never_served += offered.Remove(key) ? 1 : 0;
  EXPECT_EQ(never_served, 0u);
  EXPECT_TRUE(offered.Find(keys.front()).empty());
}

}  // namespace
}  // namespace tuplespace
