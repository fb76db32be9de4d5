// How the CUDA backend chooses the kernels and the parts of exact products.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <optional>
#include <vector>

#include "acan/cuda/cuda_devices.h"
#include "kernel_args.h"
#include "products/gemm_choice.h"

namespace acan::cuda {
namespace {

GemmGpu OldGpu(int multiprocessors) {
  return {multiprocessors, false, 64 << 10, 64 << 10, 32 << 20};
}
// An H200, or a partition of one.
GemmGpu NewGpu(int multiprocessors = 132) {
  return {multiprocessors, true, 227 << 10, 228 << 10, 32 << 20};
}
// A GPU with little shared memory: compute capability 8.6.
GemmGpu LittleSharedGpu() {
  return {84, true, 99 << 10, 100 << 10, 32 << 20};
}

Product ProductOf(std::int64_t m, std::int64_t n, std::int64_t k = 1024) {
  Product p;
  p.m = m;
  p.n = n;
  p.k = k;
  p.block = 64;
  p.a.k_stride = p.b.k_stride = 1;
  return p;
}

// The gradient of a weight [m, n], whose operands have one row for each element of k.
Product GradientOf(std::int64_t m, std::int64_t n, std::int64_t k) {
  Product p = ProductOf(m, n, k);
  p.a = {nullptr, 1, m};
  p.b = {nullptr, 1, n};
  return p;
}

TEST(GemmChoice, TakesTheLargestTilesThatFillTheDevice) {
  const auto tile = [](std::int64_t m, std::int64_t n) {
    return PlanOf(ProductOf(m, n), OldGpu(132)).tile;
  };
  EXPECT_EQ(tile(4096, 4096), GemmTile::k128);
  EXPECT_EQ(tile(512, 8192), GemmTile::k128);
  EXPECT_EQ(tile(128, 1024), GemmTile::k32);
  EXPECT_EQ(tile(16, 16), GemmTile::k32);
  // There are a few more tiles than multiprocessors, so a second round of large tiles would leave
  // most of them idle.
  EXPECT_EQ(tile(1024, 2176), GemmTile::k64);
  for (const std::int64_t n : {1, 33, 300, 5000}) {
    for (const int multiprocessors : {1, 20, 132}) {
      for (const GemmGpu& gpu : {OldGpu(multiprocessors), NewGpu(multiprocessors)}) {
        const std::vector<GemmTile> tiles = TilesOf(gpu);
        EXPECT_THAT(tiles, ::testing::Contains(PlanOf(ProductOf(n, n), gpu).tile));
      }
    }
  }
}

TEST(GemmChoice, OnlyTheSmallestTileHasLevelsForManyLeaves) {
  EXPECT_EQ(PlanOf(ProductOf(4096, 4096, 256 * 64), OldGpu(132)).tile, GemmTile::k128);
  EXPECT_EQ(PlanOf(ProductOf(4096, 4096, 256 * 64 + 1), OldGpu(132)).tile, GemmTile::k32);
  EXPECT_EQ(PlanOf(ProductOf(4096, 4096, 256 * 64), NewGpu()).tile, GemmTile::kRing128);
  EXPECT_EQ(PlanOf(ProductOf(4096, 4096, 256 * 64 + 1), NewGpu()).tile, GemmTile::kRing32);
  for (const GemmTile tile : TilesOf(LittleSharedGpu())) {
    const Product most = ProductOf(8192, 8192, MostLeaves(tile, LittleSharedGpu()) * 64);
    EXPECT_EQ(PlanOf(most, LittleSharedGpu(), {tile, false}).tile, tile);
  }
}

TEST(GemmChoice, ALevelOfTheTreeIsSharedWhereAsManyBlocksFit) {
  EXPECT_EQ(SharedQuarters(kRingDesign128, NewGpu()), 4);
  // Two blocks together take all of the 164 KiB of an A100.
  const GemmGpu a100{108, true, 163 << 10, 164 << 10, 32 << 20};
  EXPECT_EQ(SharedQuarters(kRingDesign128, a100), 3);
  EXPECT_EQ(2 * (SharedBytes(kRingDesign128, a100) + 1024), 164u << 10);
  EXPECT_EQ(SharedQuarters(kRingDesign64, a100), 3);
  EXPECT_EQ(SharedQuarters(kRingDesign32, a100), 1);
  EXPECT_EQ(SharedQuarters(kRingDesign128, LittleSharedGpu()), 1);
  EXPECT_EQ(SharedQuarters(kRingDesign64, LittleSharedGpu()), 1) << "three blocks of 30 KiB";
  EXPECT_EQ(SharedQuarters(kRingDesign32, LittleSharedGpu()), 1) << "five blocks of 20 KiB";
  EXPECT_EQ(SharedBytes(kRingDesign128, NewGpu()), 99'328u);
  EXPECT_FALSE(MayHaveTile(OldGpu(132), GemmTile::kRing32));
  EXPECT_TRUE(MayHaveTile(NewGpu(), GemmTile::k64));
}

// The parts are nodes of the tree, and all of them fit into the workspace.
TEST(GemmChoice, SmallProductsAreCutAtNodesOfTheTree) {
  EXPECT_EQ(PlanOf(ProductOf(4096, 4096, 4096), NewGpu()).parts, 1);
  EXPECT_GT(PlanOf(ProductOf(128, 1024, 1024), NewGpu()).parts, 1);
  EXPECT_EQ(PlanOf(ProductOf(128, 1024, 64), NewGpu()).parts, 1) << "a leaf is not cut";
  EXPECT_EQ(PlanOf(ProductOf(128, 1024, 1024), OldGpu(132)).parts, 1);
  GemmGpu poor = NewGpu();
  poor.workspace_bytes = 2 * 128 * 1024 * 4;
  EXPECT_LE(PlanOf(ProductOf(128, 1024, 1024), poor).parts, 2);
  poor.workspace_bytes = 0;
  EXPECT_EQ(PlanOf(ProductOf(128, 1024, 1024), poor).parts, 1);
  for (std::int64_t k = 1; k < 5000; k += 61) {
    const GemmPlan plan = PlanOf(ProductOf(64, 64, k), NewGpu(), {GemmTile::kRing64, true});
    EXPECT_EQ(plan.parts, (k + plan.part_k - 1) / plan.part_k);
    EXPECT_LE(plan.parts, kMaxParts);
    if (k <= 64) continue;
    EXPECT_GT(plan.parts, 1);
    EXPECT_EQ(plan.part_k % 64, 0);
    EXPECT_TRUE(std::has_single_bit(static_cast<std::uint64_t>(plan.part_k / 64))) << plan.part_k;
  }
}

TEST(GemmChoice, GroupsOfRowsArePartsOfOneLaunch) {
  const Product p = ProductOf(384, 128, 127 * 50 + 1);
  const std::optional<GroupsPlan> plan = GroupsPlanOf(p, 50, NewGpu());
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->groups, 128);
  EXPECT_EQ(plan->batch, 128);
  EXPECT_EQ(plan->group_rows, 50);
  for (const GemmTile tile : TilesOf(NewGpu())) {
    const std::optional<GroupsPlan> requested = GroupsPlanOf(p, 50, NewGpu(), {tile, true});
    ASSERT_TRUE(requested);
    EXPECT_EQ(requested->tile, tile);
  }
  EXPECT_FALSE(GroupsPlanOf(p, p.k, NewGpu())) << "there is one group";
  EXPECT_FALSE(GroupsPlanOf(p, 50, OldGpu(132))) << "the GPU has no ring";
  EXPECT_FALSE(GroupsPlanOf(p, 50, NewGpu(), {GemmTile::k64, std::nullopt}));
  EXPECT_FALSE(GroupsPlanOf(p, 50, NewGpu(), {std::nullopt, false}));
  // A group with more leaves than the tile has levels for.
  const std::int64_t long_group = MostLeaves(GemmTile::kRing128, NewGpu()) * 64 + 1;
  const auto deep = GroupsPlanOf(ProductOf(64, 64, 3 * long_group), long_group, NewGpu(),
                                 {GemmTile::kRing128, std::nullopt});
  ASSERT_TRUE(deep);
  EXPECT_EQ(deep->tile, GemmTile::kRing32);
}

TEST(GemmChoice, GroupsOfRowsThatDoNotFitComeInBatches) {
  const GemmGpu gpu = NewGpu();
  int taken = 0, in_batches = 0;
  for (const std::int64_t edge : {1, 100, 300, 700, 3000}) {
    for (const std::int64_t groups : {2, 3, 40, 129, 300, 70'000}) {
      const auto plan = GroupsPlanOf(ProductOf(edge, edge, groups * 50), 50, gpu);
      if (!plan) continue;
      ++taken;
      EXPECT_EQ(plan->groups, groups);
      const std::int64_t batches = (groups + plan->batch - 1) / plan->batch;
      const std::int64_t sums = plan->batch + (batches > 1 ? batches : 0);
      EXPECT_LE(static_cast<std::uint64_t>(sums * edge * edge * 4), gpu.workspace_bytes);
      EXPECT_LE(plan->batch, 65'535) << "the blocks of a launch along y";
      if (batches == 1) continue;
      ++in_batches;
      EXPECT_TRUE(std::has_single_bit(static_cast<std::uint64_t>(plan->batch))) << plan->batch;
    }
  }
  EXPECT_GT(taken, in_batches);
  EXPECT_GT(in_batches, 1);
  EXPECT_FALSE(GroupsPlanOf(ProductOf(2000, 2000, 400), 50, gpu))
      << "there is room for two sums, but none for those of batches";
  GemmGpu none = gpu;
  none.workspace_bytes = 0;
  EXPECT_FALSE(GroupsPlanOf(ProductOf(8, 8, 400), 50, none));
}

// A launch has one part for each group, but a product alone may be cut into parts of its own. So
// few long groups would leave most multiprocessors idle. These are first layers of image models.
TEST(GemmChoice, FewLongGroupsAreComputedOneByOne) {
  struct Layer {
    std::int64_t m, n, rows;    // of a group
    std::int64_t least_groups;  // that pay for one call
  };
  for (const Layer& layer :
       {Layer{64, 576, 50'176, 16}, Layer{64, 147, 12'544, 16}, Layer{64, 27, 50'176, 16},
        Layer{32, 288, 250'000, 16}, Layer{16, 144, 784, 4}, Layer{384, 128, 50, 2}}) {
    for (std::int64_t groups = 2; groups <= 128; groups *= 2) {
      const Product p = GradientOf(layer.m, layer.n, groups * layer.rows);
      EXPECT_EQ(GroupsPlanOf(p, layer.rows, NewGpu()).has_value(), groups >= layer.least_groups)
          << groups << " groups of " << layer.rows << " rows for " << layer.m << " x " << layer.n;
      EXPECT_TRUE(GroupsPlanOf(p, layer.rows, NewGpu(), {std::nullopt, true}))
          << "a way that is requested is not compared";
    }
  }
}

// With one launch less, this estimate would be just below that of the calls one by one. If the
// speeds change, seek the rows anew.
TEST(GemmChoice, MoreThan16GroupsAreAddedByMoreThanOneLaunch) {
  constexpr std::int64_t kRows = 21'568;
  EXPECT_FALSE(GroupsPlanOf(GradientOf(384, 128, 17 * kRows), kRows, NewGpu()));
}

TEST(GemmChoice, CopiesOfOneWordNeedNoAlignment) {
  alignas(16) static float memory[8];
  Product p = ProductOf(30, 30, 61);
  p.a = {memory + 1, 61, 1};
  p.b = {memory + 3, 65, 1};
  p.c = memory + 1;
  EXPECT_EQ(RingLayoutOf(p), GemmLayout::kRowRow);
  p.b = {memory, 1, 32};
  EXPECT_EQ(RingLayoutOf(p), GemmLayout::kAny) << "a quad of rows would reach over the end";
  p.n = 32;
  EXPECT_EQ(RingLayoutOf(p), GemmLayout::kRowK);
  p.b.data = memory + 1;
  EXPECT_EQ(RingLayoutOf(p), GemmLayout::kAny);
  p = ProductOf(256, 30, 61);
  p.a = {memory, std::int64_t{1} << 22, 1};
  p.b = {memory, 61, 1};
  EXPECT_EQ(RingLayoutOf(p), GemmLayout::kAny) << "rows of a tile are more than 4 GiB apart";
}

TEST(GemmChoice, QuadsNeedAlignedOperands) {
  alignas(16) static float memory[8];
  Product p;
  p.a = {memory, 64, 1};
  p.b = {memory, 64, 1};
  p.c = memory;
  p.c_stride = 32;
  p.m = p.n = 30;
  p.k = 61;
  EXPECT_EQ(LayoutOf(p), GemmLayout::kRowRow);
  Product other = p;
  other.b = {memory, 1, 32};
  other.n = 32;
  EXPECT_EQ(LayoutOf(other), GemmLayout::kRowK);
  other.n = 30;  // a quad of rows would reach past the end
  EXPECT_EQ(LayoutOf(other), GemmLayout::kAny);
  other.n = 32;
  other.a = {memory, 1, 32};
  other.m = 32;
  EXPECT_EQ(LayoutOf(other), GemmLayout::kKK);
  other = p;
  other.a.data = memory + 1;
  EXPECT_EQ(LayoutOf(other), GemmLayout::kAny);
  other = p;
  other.b.row_stride = 66;
  EXPECT_EQ(LayoutOf(other), GemmLayout::kAny);
  other = p;
  other.c_stride = 30;
  EXPECT_EQ(LayoutOf(other), GemmLayout::kAny);
}

}  // namespace
}  // namespace acan::cuda
