// The results that a handler owes, if a manager has chosen their keys with malice.
#include "acan/handler/owed_results.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "colliding_keys.h"

namespace acan {
namespace {

using tuplespace::CollidingKeys;
using tuplespace::Key;

TEST(OwedResultsTest, ManyThatArePutAgainMayHaveKeysOfOneHash) {
  const std::vector<Key> keys = CollidingKeys([](const Key& key) { return key.bytes(); });
  OwedResults owed;
  for (const Key& key : keys) owed.Add(key, 1);
  EXPECT_TRUE(owed.EndAllBut(std::set<Key>(keys.begin(), keys.end())).empty());
  EXPECT_EQ(owed.bytes(), keys.size());
  EXPECT_TRUE(
      std::all_of(keys.begin(), keys.end(), [&](const Key& key) { return owed.BeginSupply(key); }));
}

}  // namespace
}  // namespace acan
