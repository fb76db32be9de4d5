// What both kernels of exact attention share. The bits are those of acan/kernels/attention.h; what
// differs is who computes what: a block has a tile of 64 queries (or keys), brings leaves of 64 of
// the others into shared memory, and computes each product q . k once, 16 of them a thread.
//
//   threads      16 across (x) by 16 down (y): thread (x, y) has rows 4 y .. 4 y + 3 of the tile
//   products     with rows x, x + 16, x + 32 and x + 48 of the leaf
//   sums         of columns 4 x .. 4 x + 3 of each 64 columns of a head
//
// Tiles lie in shared memory row by row, with four words more: 16 threads that read quads of 16
// rows side by side meet different banks.
#pragma once

#include "kernel_args.h"
#include "prelude.cuh"

namespace acan::cuda {
namespace {

constexpr int kSide = 16;
constexpr int kEach = 4;     // rows of a thread, and rows that it multiplies them with
constexpr int kLeaf = kSide * kEach;
constexpr int kPairPitch = kLeaf + 4;
constexpr int kLevels = kAttentionLevels;
static_assert(kLeaf == ACAN_ATTENTION_LEAF && kLeaf == ACAN_TILE_LANES);
static_assert(kSide * kSide == kAttentionThreads);

// LaunchArgs, as the kernels' source knows them.
struct AttentionLaunch {
  acan_args args;
  acan_i64 rows;
  acan_i64 cols;
};
static_assert(sizeof(AttentionLaunch) == sizeof(LaunchArgs));

__device__ __forceinline__ int Across() {
  return static_cast<int>(threadIdx.x) % kSide;
}
__device__ __forceinline__ int Down() {
  return static_cast<int>(threadIdx.x) / kSide;
}

// 64 rows of the columns of a head.
struct Rows {
  float* words;
  int pitch;
};

// Rows [first, first + count) of the matrix, columns [col, col + width); rows behind them repeat the
// last one. REQUIRES: count > 0.
template <int kBlocks>
__device__ __forceinline__ void BringRows(const acan_matrix& from, acan_i64 first, acan_i64 count,
                                          acan_i64 col, int width, const Rows& to) {
  const int thread = static_cast<int>(threadIdx.x);
  const int last = count < kLeaf ? static_cast<int>(count) - 1 : kLeaf - 1;
  ACAN_UNROLL for (int b = 0; b < kBlocks; ++b) {
    const int c = thread % kLeaf + b * kLeaf;
    if (c >= width) continue;
    ACAN_UNROLL for (int i = 0; i < kLeaf * kLeaf / kAttentionThreads; ++i) {
      const int row = thread / kLeaf + i * (kAttentionThreads / kLeaf);
      to.words[row * to.pitch + c] =
          acan_load(&from, first + (row < last ? row : last), col + c);
    }
  }
}

__device__ __forceinline__ float4 QuadAt(const float* words) {
  return *reinterpret_cast<const float4*>(words);
}

__device__ __forceinline__ float Dot(const float4& x, const float4& y, float sum) {
  sum = ACAN_FMA(x.x, y.x, sum);
  sum = ACAN_FMA(x.y, y.y, sum);
  sum = ACAN_FMA(x.z, y.z, sum);
  return ACAN_FMA(x.w, y.w, sum);
}

// The products of the thread's rows of x with its rows of y, in the canonical order: a chain for
// each 64 columns, of which there are at most two. REQUIRES: width % 4 == 0.
template <int kBlocks>
__device__ __forceinline__ void Products(const Rows& x, const Rows& y, int width,
                                         float (&out)[kEach][kEach]) {
  const float* const mine = x.words + Down() * kEach * x.pitch;
  const float* const others = y.words + Across() * y.pitch;
  ACAN_UNROLL for (int b = 0; b < kBlocks; ++b) {
    float sums[kEach][kEach] = {};
    const int end = width < (b + 1) * kLeaf ? width : (b + 1) * kLeaf;
    ACAN_NO_UNROLL for (int c = b * kLeaf; c < end; c += 4) {
      float4 quads[kEach];
      ACAN_UNROLL for (int i = 0; i < kEach; ++i) quads[i] = QuadAt(mine + i * x.pitch + c);
      ACAN_UNROLL for (int j = 0; j < kEach; ++j) {
        const float4 quad = QuadAt(others + j * kSide * y.pitch + c);
        ACAN_UNROLL for (int i = 0; i < kEach; ++i) sums[i][j] = Dot(quads[i], quad, sums[i][j]);
      }
    }
    ACAN_UNROLL for (int i = 0; i < kEach; ++i) {
      ACAN_UNROLL for (int j = 0; j < kEach; ++j) {
        out[i][j] = b == 0 ? sums[i][j] : out[i][j] + sums[i][j];
      }
    }
  }
}

// Which rows of the leaf each of the thread's rows has: a range, as those that are hidden come
// first or last.
struct Seen {
  int begin[kEach];
  int end[kEach];

  __device__ __forceinline__ bool Has(int i, int j) const { return j >= begin[i] && j < end[i]; }
  __device__ __forceinline__ bool HasAll() const {
    bool all = true;
    ACAN_UNROLL for (int i = 0; i < kEach; ++i) all = all && begin[i] == 0 && end[i] == kLeaf;
    return all;
  }
};

// Elements of the thread's rows and columns.
template <int kBlocks>
struct Sums {
  float v[kEach][kBlocks * 4];

  __device__ __forceinline__ void Clear() {
    ACAN_UNROLL for (int i = 0; i < kEach; ++i) {
      ACAN_UNROLL for (int c = 0; c < kBlocks * 4; ++c) v[i][c] = 0.0f;
    }
  }
};

template <bool kAll, int kBlocks>
__device__ __forceinline__ void AddRow(const float (&weights)[kEach], const float4& quad, int b,
                                       int j, const Seen& seen, Sums<kBlocks>& sums) {
  ACAN_UNROLL for (int i = 0; i < kEach; ++i) {
    if (!kAll && !seen.Has(i, j)) continue;
    float* const sum = sums.v[i] + b * 4;
    sum[0] = ACAN_FMA(weights[i], quad.x, sum[0]);
    sum[1] = ACAN_FMA(weights[i], quad.y, sum[1]);
    sum[2] = ACAN_FMA(weights[i], quad.z, sum[2]);
    sum[3] = ACAN_FMA(weights[i], quad.w, sum[3]);
  }
}

template <bool kAll, int kBlocks>
__device__ __forceinline__ void AddRows(const float* pairs, const Rows& y, int width,
                                        const Seen& seen, Sums<kBlocks>& sums) {
  const float* const mine = pairs + Down() * kEach * kPairPitch;
  ACAN_NO_UNROLL for (int j = 0; j < kLeaf; j += 4) {
    float4 quads[kEach];
    ACAN_UNROLL for (int i = 0; i < kEach; ++i) quads[i] = QuadAt(mine + i * kPairPitch + j);
    const float weights[4][kEach] = {{quads[0].x, quads[1].x, quads[2].x, quads[3].x},
                                     {quads[0].y, quads[1].y, quads[2].y, quads[3].y},
                                     {quads[0].z, quads[1].z, quads[2].z, quads[3].z},
                                     {quads[0].w, quads[1].w, quads[2].w, quads[3].w}};
    ACAN_UNROLL for (int b = 0; b < kBlocks; ++b) {
      const int c = b * kLeaf + Across() * 4;
      if (c >= width) continue;
      ACAN_UNROLL for (int k = 0; k < 4; ++k) {
        AddRow<kAll>(weights[k], QuadAt(y.words + (j + k) * y.pitch + c), b, j + k, seen, sums);
      }
    }
  }
}

// sums = chains from 0 of pairs[row, j] * y[j], for the j that the row has, ascending.
template <int kBlocks>
__device__ __forceinline__ void AddLeaf(const float* pairs, const Rows& y, int width,
                                        const Seen& seen, Sums<kBlocks>& sums) {
  sums.Clear();
  if (seen.HasAll()) {
    AddRows<true>(pairs, y, width, seen, sums);
  } else {
    AddRows<false>(pairs, y, width, seen, sums);
  }
}

// A row of the thread's columns, times a factor.
template <int kBlocks>
__device__ __forceinline__ void StoreColumns(const acan_matrix& to, acan_i64 row, acan_i64 col,
                                             int width, const float (&v)[kBlocks * 4],
                                             float factor) {
  ACAN_UNROLL for (int b = 0; b < kBlocks; ++b) {
    const int c = b * kLeaf + Across() * 4;
    if (c >= width) continue;
    ACAN_UNROLL for (int e = 0; e < 4; ++e) {
      acan_store(&to, row, col + c + e, v[b * 4 + e] * factor);
    }
  }
}

// How many of the leaf's keys from `begin` on a row sees that sees `visible`.
__device__ __forceinline__ int SeenOf(acan_i64 visible, acan_i64 begin) {
  const acan_i64 seen = visible - begin;
  return seen <= 0 ? 0 : seen < kLeaf ? static_cast<int>(seen) : kLeaf;
}

// The same of the thread's queries.
__device__ __forceinline__ Seen KeysSeen(const acan_i64 (&visible)[kEach], acan_i64 begin) {
  Seen seen;
  ACAN_UNROLL for (int i = 0; i < kEach; ++i) {
    seen.begin[i] = 0;
    seen.end[i] = SeenOf(visible[i], begin);
  }
  return seen;
}

// Trailing ones: the levels that end with this leaf.
__device__ __forceinline__ int EndingLevels(acan_i64 leaf) {
  int levels = 0;
  for (; leaf & 1; leaf >>= 1) ++levels;
  return levels;
}

}  // namespace
}  // namespace acan::cuda
