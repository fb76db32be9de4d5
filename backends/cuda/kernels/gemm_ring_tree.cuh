// The tree over the sums of gemm_ring.cuh, which includes this file.
#pragma once

namespace acan::cuda {
namespace {

// The nodes that wait for their right siblings: the levels of the binary counter of args.h.
struct Levels {
  float* shared;  // of level 0
  int shared_quarters;
  float (*local)[kSums];
  acan_u32 leaf;
};
constexpr int kQuads = kSums / 4;
static_assert(kQuads % kLevelQuarters == 0);

// A quad has four rows of one column, of which neighbours are swapped. Reading and writing quads
// determines whether the register of a sum is even or odd, as it does for the factors, and an
// instruction whose three registers are all even, or all odd, has to wait. With the swap, a sum's
// register and that of its row's factor are never both even or both odd.
__device__ __forceinline__ constexpr int SumOf(int quad, int word) {
  return (quad / kCols * 4 + (word ^ 1)) * kCols + quad % kCols;
}
__device__ __forceinline__ float4 QuadOf(const float* sums, int i) {
  float4 quad;
  quad.x = sums[SumOf(i, 0)];
  quad.y = sums[SumOf(i, 1)];
  quad.z = sums[SumOf(i, 2)];
  quad.w = sums[SumOf(i, 3)];
  return quad;
}

// The quads of one thread are a block's width apart, so neighbouring threads use different banks.
__device__ __forceinline__ float4* SharedQuads(const Levels& levels) {
  return reinterpret_cast<float4*>(levels.shared) + threadIdx.x;
}

// The number of quarters of a level that are in shared memory.
__device__ __forceinline__ int QuartersOf(const Levels& levels, int level) {
  return level == 0 ? levels.shared_quarters : 0;
}

// Whether quad i is in one of these quarters.
__device__ __forceinline__ bool IsShared(int i, int quarters) {
  return i * kLevelQuarters / kQuads < quarters;
}

// The level in local memory. Level 0 has none there if it is in shared memory as a whole.
__device__ __forceinline__ float* LocalLevel(const Levels& levels, int level) {
  const int whole = levels.shared_quarters == kLevelQuarters ? 1 : 0;
  return levels.local[level == 0 ? 0 : level - whole];
}

// sums = the level's node + sums, one quad at a time: a whole node would take as many registers
// again.
__device__ __forceinline__ void AddLevel(const Levels& levels, int level, float* sums) {
  const int quarters = QuartersOf(levels, level);
  const float4* const near = SharedQuads(levels);
  const auto* const far = reinterpret_cast<const float4*>(LocalLevel(levels, level));
  ACAN_UNROLL for (int i = 0; i < kQuads; ++i) {
    float4 quad;
    if (IsShared(i, quarters)) {
      quad = near[i * kThreads];
    } else {
      quad = far[i];
    }
    sums[SumOf(i, 0)] = quad.x + sums[SumOf(i, 0)];
    sums[SumOf(i, 1)] = quad.y + sums[SumOf(i, 1)];
    sums[SumOf(i, 2)] = quad.z + sums[SumOf(i, 2)];
    sums[SumOf(i, 3)] = quad.w + sums[SumOf(i, 3)];
    // Otherwise the compiler would read all quads first.
    if (i % 4 == 3) asm volatile("" ::: "memory");
  }
}

// Ends a leaf that is not the last one. Afterwards the sums are 0.
__device__ __forceinline__ void EndLeaf(Levels& levels, float* sums) {
  int level = 0;
  ACAN_NO_UNROLL for (acan_u32 pending = levels.leaf; (pending & 1) != 0; pending >>= 1, ++level) {
    AddLevel(levels, level, sums);
  }
  const int quarters = QuartersOf(levels, level);
  if (quarters != 0) {
    float4* const near = SharedQuads(levels);
    ACAN_UNROLL for (int i = 0; i < kQuads; ++i) {
      if (IsShared(i, quarters)) near[i * kThreads] = QuadOf(sums, i);
    }
  }
  if (quarters != kLevelQuarters) {
    auto* const far = reinterpret_cast<float4*>(LocalLevel(levels, level));
    ACAN_UNROLL for (int i = 0; i < kQuads; ++i) {
      if (!IsShared(i, quarters)) far[i] = QuadOf(sums, i);
    }
  }
  ACAN_UNROLL for (int i = 0; i < kSums; ++i) sums[i] = 0.0f;
  ++levels.leaf;
}

__device__ __forceinline__ void EndTree(const Levels& levels, float* sums) {
  int level = 0;
  ACAN_NO_UNROLL for (acan_u32 pending = levels.leaf; pending != 0; pending >>= 1, ++level) {
    if ((pending & 1) != 0) AddLevel(levels, level, sums);
  }
}

}  // namespace
}  // namespace acan::cuda
