// BlockCache alone; its blocks have no memory.
#include "memory/block_cache.h"

#include <gtest/gtest.h>

namespace acan::cuda {
namespace {

// Tests tell blocks of the same size apart by their lane.
Block BlockOf(std::uint64_t bytes, std::optional<Lane> busy_on = std::nullopt) {
  Block block;
  block.bytes = bytes;
  block.busy_on = busy_on;
  return block;
}

TEST(BlockCache, HasNoBlockOfASizeThatWasNotAdded) {
  BlockCache cache;
  EXPECT_TRUE(cache.empty());
  EXPECT_FALSE(cache.TakeColdest());
  cache.Add(BlockOf(512));
  EXPECT_FALSE(cache.TakeWarmest(256));
  EXPECT_FALSE(cache.TakeColdest(1024));
  EXPECT_EQ(cache.bytes(), 512u);
  EXPECT_FALSE(cache.empty());
}

TEST(BlockCache, TakesTheWarmestOrTheColdestOfASize) {
  BlockCache cache;
  cache.Add(BlockOf(256, Lane::kUpload));
  cache.Add(BlockOf(512));
  cache.Add(BlockOf(256));
  cache.Add(BlockOf(256, Lane::kCompute));
  EXPECT_EQ(cache.TakeWarmest(256)->busy_on, Lane::kCompute);
  EXPECT_EQ(cache.TakeColdest(256)->busy_on, Lane::kUpload);
  EXPECT_EQ(cache.TakeColdest(256)->busy_on, std::nullopt);
  EXPECT_FALSE(cache.TakeWarmest(256));
  EXPECT_EQ(cache.bytes(), 512u);
}

TEST(BlockCache, TakesTheColdestThatSuits) {
  BlockCache cache;
  cache.Add(BlockOf(256, Lane::kCompute));
  cache.Add(BlockOf(256));
  cache.Add(BlockOf(256, Lane::kUpload));
  const auto is_free = [](const Block& block) { return !block.busy_on; };
  EXPECT_EQ(cache.TakeColdestThat(256, is_free)->busy_on, std::nullopt);
  EXPECT_FALSE(cache.TakeColdestThat(256, is_free));
  EXPECT_FALSE(cache.TakeColdestThat(512, is_free));
  EXPECT_EQ(cache.bytes(), 512u);
}

TEST(BlockCache, TheColdestOfAllComesFirst) {
  BlockCache cache;
  for (const std::uint64_t bytes : {512, 256, 512, 1024}) cache.Add(BlockOf(bytes));
  cache.TakeColdest(512);
  for (const std::uint64_t bytes : {256, 512, 1024}) {
    EXPECT_EQ(cache.TakeColdest()->bytes, bytes);
  }
  EXPECT_TRUE(cache.empty());
}

}  // namespace
}  // namespace acan::cuda
