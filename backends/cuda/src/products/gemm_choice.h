// Chooses the kernel that computes an exact product, and the number of parts. Pure functions: they
// decide speed, never bits.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "acan/cuda/cuda_devices.h"
#include "kernel_args.h"

namespace acan::cuda {

// What the choice depends on besides the product.
struct GemmGpu {
  int multiprocessors = 0;
  bool has_ring = false;  // the kernels of gemm_ring.cuh were compiled for it
  // Bytes of shared memory: the most of one block, and those of a multiprocessor.
  std::uint64_t block_shared_bytes = 0;
  std::uint64_t shared_bytes = 0;
  std::uint64_t workspace_bytes = 0;  // for the parts of products and groups of rows
};

// For a device with this limit of bytes: a sixteenth of it, at most 32 MiB, which NVIDIA recommends
// for cuBLAS on Hopper, and 0 if that is less than 1 MiB.
std::uint64_t WorkspaceBytesOf(std::uint64_t limit_bytes);

struct TileShape {
  int rows, cols;
};
TileShape ShapeOf(GemmTile tile);
// The design of a tile of the ring; null for others.
const RingDesign* DesignOf(GemmTile tile);
// The quarters of the tree's lowest level that are in shared memory. A multiprocessor holds as many
// blocks with them as without them.
int SharedQuarters(const RingDesign& design, const GemmGpu& gpu);
std::uint64_t SharedBytes(const RingDesign& design, const GemmGpu& gpu);  // of a block
// The most leaves of a tree for which a kernel has levels.
std::int64_t MostLeaves(GemmTile tile, const GemmGpu& gpu);

// The tiles that suit the GPU, the largest first. The last one takes any product.
std::vector<GemmTile> TilesOf(const GemmGpu& gpu);
// Whether the tile may be requested. Every GPU has the tiles that are not of the ring.
bool MayHaveTile(const GemmGpu& gpu, GemmTile tile);

// kAny if copies of four words would not be aligned, or if a thread's words of a tile would be more
// than 4 GiB apart.
GemmLayout LayoutOf(const Product& product);
GemmLayout RingLayoutOf(const Product& product);

// How a product is computed. Each part has part_k elements of k, which are a node of the tree; the
// last one may have fewer.
struct GemmPlan {
  GemmTile tile = GemmTile::k32;
  int parts = 1;
  std::int64_t part_k = 0;
};
// A requested way, in place of the one with the best estimate. `cut_k`: cut into as many parts as
// possible, and take groups of rows as parts even if the calls one by one would be faster. If it is
// false, groups of rows are no parts, either.
struct GemmWay {
  std::optional<GemmTile> tile;
  std::optional<bool> cut_k;
};
// Takes the smallest tile if the requested one lacks levels.
GemmPlan PlanOf(const Product& product, const GemmGpu& gpu, const GemmWay& way = {});

// How a sum over groups of rows is computed: each group is a part of k. A launch has the parts of
// one batch: all groups, or a power of two of them, which are a node of the tree over groups. The
// workspace has room for them and, if there are several batches, for a sum of each.
struct GroupsPlan {
  GemmTile tile = GemmTile::kRing32;
  std::int64_t group_rows = 0;
  std::int64_t groups = 0;  // the last one may have fewer rows
  std::int64_t batch = 0;   // groups of a launch
};
// nullopt: the calls one by one are needed, or faster by the estimate: each of them may be cut into
// parts of its own. REQUIRES: group_rows > 0.
std::optional<GroupsPlan> GroupsPlanOf(const Product& product, std::int64_t group_rows,
                                       const GemmGpu& gpu, const GemmWay& way = {});

}  // namespace acan::cuda
