// Which kernel computes an exact product, and in how many parts. Pure functions: they decide speed,
// never bits.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "acan/cuda/cuda_devices.h"
#include "kernel_args.h"

namespace acan::cuda {

// What the choice depends on beside the product.
struct GemmGpu {
  int multiprocessors = 0;
  bool has_ring = false;  // the kernels of gemm_ring.cuh were compiled for it
  // Bytes of shared memory that one block may have, and of a multiprocessor.
  std::uint64_t block_shared_bytes = 0;
  std::uint64_t shared_bytes = 0;
  std::uint64_t workspace_bytes = 0;  // for the parts of a product
};

// Of a device that may hold so many bytes: a sixteenth, 32 MiB at most as NVIDIA recommends for
// cuBLAS on Hopper, and nothing where that is less than 1 MiB.
std::uint64_t WorkspaceBytesOf(std::uint64_t limit_bytes);

struct TileShape {
  int rows, cols;
};
TileShape ShapeOf(GemmTile tile);
// Of a tile of the ring; null for others.
const RingDesign* DesignOf(GemmTile tile);
// Quarters of the tree's lowest level in shared memory: with them a multiprocessor holds as many
// blocks as without them.
int SharedQuarters(const RingDesign& design, const GemmGpu& gpu);
std::uint64_t SharedBytes(const RingDesign& design, const GemmGpu& gpu);  // of a block
// The tree's leaves that a kernel has levels for.
std::int64_t MostLeaves(GemmTile tile, const GemmGpu& gpu);

// Those that suit the GPU, the largest first. The last one takes any product.
std::vector<GemmTile> TilesOf(const GemmGpu& gpu);
// Whether somebody may ask for the tile: any GPU has those that are not of the ring.
bool MayHaveTile(const GemmGpu& gpu, GemmTile tile);

// kAny if copies of four words would not be aligned, or a thread's words of a tile would be more
// than 4 GiB apart.
GemmLayout LayoutOf(const Product& product);
GemmLayout RingLayoutOf(const Product& product);

// How a product is computed. Parts have part_k elements of k, a node of the tree; the last one may
// have fewer.
struct GemmPlan {
  GemmTile tile = GemmTile::k32;
  int parts = 1;
  std::int64_t part_k = 0;
};
// A way that somebody asks for instead of the one that is expected to be fastest. `cut_k`: into as
// many parts as there may be.
struct GemmWay {
  std::optional<GemmTile> tile;
  std::optional<bool> cut_k;
};
// Takes the smallest tile where the wished one lacks levels.
GemmPlan PlanOf(const Product& product, const GemmGpu& gpu, const GemmWay& way = {});

}  // namespace acan::cuda
