// The tiles of exact attention, and how their operands get into shared memory; attention_tile.cuh
// draws it.
#pragma once

#include "kernel_args.h"
#include "prelude.cuh"

namespace acan::cuda {
namespace {

constexpr int kLeaf = ACAN_ATTENTION_LEAF;
constexpr int kWarps = kAttentionThreads / 32;
constexpr int kDown = 4;  // lanes of a warp
constexpr int kAcross = 8;
constexpr int kEach = kLeaf / kAcross;  // of a thread, among 64 columns
constexpr int kStep = 16;               // columns or rows of a stage
constexpr int kQuad = 4;
constexpr int kApart = kLeaf / 2;  // distance between a thread's quads of columns
constexpr int kLeafPitch = kLeaf + 4;
static_assert(kLeaf == 64 && kLeaf == ACAN_TILE_LANES);

// LaunchArgs with the types of the kernels' source.
struct AttentionLaunch {
  acan_args args;
  acan_i64 rows;
  acan_i64 cols;
};
static_assert(sizeof(AttentionLaunch) == sizeof(LaunchArgs));

__device__ __forceinline__ int Thread() {
  return static_cast<int>(threadIdx.x);
}
__device__ __forceinline__ int Down() {
  return Thread() % 32 / 16 * 2 + Thread() % 2;
}
__device__ __forceinline__ int Across() {
  return Thread() / 2 % kAcross;
}
// Within the tile: the first row of the thread's warp, and row `i` of the thread.
template <int kRows>
__device__ __forceinline__ int WarpRow() {
  return Thread() / 32 * (kDown * kRows);
}
template <int kRows>
__device__ __forceinline__ int RowOf(int i) {
  return WarpRow<kRows>() + i / kQuad * (kDown * kQuad) + Down() * kQuad + i % kQuad;
}
// Column `j` of the thread, among 64.
__device__ __forceinline__ int ColumnOf(int j) {
  return j / kQuad * kApart + Across() * kQuad + j % kQuad;
}
__device__ __forceinline__ int Least(int a, int b) {
  return a < b ? a : b;
}
__device__ __forceinline__ int Most(int a, int b) {
  return a > b ? a : b;
}

template <int kRows>
constexpr int kTileRows = kWarps * kDown * kRows;
template <int kRows>
constexpr int kTilePitch = kTileRows<kRows> + 4;
// A variable, because device code cannot call host functions, not even constexpr ones.
template <int kRows>
constexpr int kLevels = AttentionLevels(kRows);
template <int kRows, int kBlocks>
constexpr int kStageWords = kStep * (kTilePitch<kRows> + kLeafPitch);
static_assert(kStageWords<4, 2> >= kStep * kLeaf * 2);
template <int kRows>
constexpr int kPairWords = kLeaf * kTilePitch<kRows>;
template <int kRows>
constexpr int kZeros = kRows * kEach;
// Both stages, the pairs and zeros.
template <int kRows, int kBlocks>
constexpr int kSharedWords =
    2 * kStageWords<kRows, kBlocks> + kPairWords<kRows> + kZeros<kRows>;

// ---- copies ------------------------------------------------------------------------------------

// A head's columns in some rows of a matrix.
struct Rows {
  const float* words;
  acan_i64 stride;
  int count;  // rows that exist, at least one; existing rows stand in for those beyond
  int width;
  bool wide;  // quads are aligned
};

__device__ __forceinline__ bool IsWide(const acan_matrix& m) {
  return reinterpret_cast<std::uintptr_t>(m.data) % 16 == 0 && m.stride % kQuad == 0;
}

__device__ __forceinline__ Rows RowsOf(const acan_matrix& m, acan_i64 first, acan_i64 count,
                                       acan_i64 col, acan_i64 width) {
  constexpr int kMany = 1 << 20;
  return {m.data + first * m.stride + col, m.stride,
          count < kMany ? static_cast<int>(count) : kMany, static_cast<int>(width), IsWide(m)};
}

// The same rows from `row` on. REQUIRES: row < count.
__device__ __forceinline__ Rows From(const Rows& rows, int row) {
  return {rows.words + row * rows.stride, rows.stride, rows.count - row, rows.width, rows.wide};
}

__device__ __forceinline__ void CopyQuad(float* to, const float* from, bool wide) {
  if (wide) {
    acan_copy_async(to, from, 16, true);
  } else {
    ACAN_UNROLL for (int i = 0; i < kQuad; ++i) acan_copy_async(to + i, from + i, 4, true);
  }
}

// Begins to copy columns [16 * part, 16 * part + 16) of kCount rows, transposed.
template <int kCount>
__device__ __forceinline__ void BringColumns(const Rows& from, int part, float* to) {
  constexpr int kLanes = kStep / 2;
  constexpr int kAtOnce = kAttentionThreads / kLanes;
  const int k = Thread() % kLanes;
  const int left = from.width - part * kStep - k;
  int row = Thread() / kLanes;
  const float* word = from.words + part * kStep + k + Least(row, from.count - 1) * from.stride;
  float* const column = to + k * (kCount + 4) + row;
  ACAN_UNROLL for (int i = 0; i < kCount; i += kAtOnce) {
    acan_copy_async(column + i, word, 4, left > 0);
    acan_copy_async(column + i + kLanes * (kCount + 4), word + kLanes, 4, left > kLanes);
    row += kAtOnce;
    if (row < from.count) word += kAtOnce * from.stride;
  }
}

// The same for rows [16 * part, 16 * part + 16), all columns.
template <int kBlocks>
__device__ __forceinline__ void BringRows(const Rows& from, int part, float* to) {
  constexpr int kQuads = kLeaf / kQuad;
  constexpr int kAtOnce = kAttentionThreads / kQuads;
  ACAN_UNROLL for (int b = 0; b < kBlocks; ++b) {
    const int col = b * kLeaf + Thread() % kQuads * kQuad;
    if (col >= from.width) return;
    ACAN_UNROLL for (int i = 0; i < kStep / kAtOnce; ++i) {
      const int row = Thread() / kQuads + i * kAtOnce;
      CopyQuad(to + row * (kLeaf * kBlocks) + col,
               from.words + Least(part * kStep + row, from.count - 1) * from.stride + col,
               from.wide);
    }
  }
}

// What a block keeps in shared memory, and which stage is next.
template <int kRows, int kBlocks>
struct Shared {
  float* stages;
  float* pairs;
  float* zeros;
  int at = 0;  // the stage that is copied to, or the one after the copies that end next

  // Ends with a barrier.
  __device__ __forceinline__ explicit Shared(float* memory)
      : stages(memory),
        pairs(memory + 2 * kStageWords<kRows, kBlocks>),
        zeros(pairs + kPairWords<kRows>) {
    if (Thread() < kZeros<kRows>) zeros[Thread()] = 0.0f;
    ACAN_BARRIER();
  }

  __device__ __forceinline__ float* stage() const {
    return stages + at * kStageWords<kRows, kBlocks>;
  }
  __device__ __forceinline__ void BringPair(const Rows& tile, const Rows& leaf, int part) {
    BringColumns<kTileRows<kRows>>(tile, part, stage());
    BringColumns<kLeaf>(leaf, part, stage() + kStep * kTilePitch<kRows>);
  }
  __device__ __forceinline__ void BringLeaf(const Rows& leaf, int part) {
    BringRows<kBlocks>(leaf, part, stage());
  }
  // Waits for all copies. Returns the stage that they filled; the other stage is free.
  __device__ __forceinline__ const float* Arrive() {
    __pipeline_commit();
    __pipeline_wait_prior(0);
    ACAN_BARRIER();
    const float* const arrived = stage();
    at ^= 1;
    return arrived;
  }
};

}  // namespace
}  // namespace acan::cuda
