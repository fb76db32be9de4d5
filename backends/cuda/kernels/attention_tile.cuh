// What the kernels of exact attention share. The bits are those of acan/kernels/attention.h; only
// the distribution of the work differs. A block has a tile of queries (or keys) and goes through
// leaves of 64 keys (or queries). It computes each product q . k once, and then adds the leaf's
// rows. Both steps are products of matrices and share one loop. For each k, the loop reads a column
// of a, kRows numbers a thread, and a row of b, 8 numbers a thread, and adds their products to
// kRows x 8 sums.
//
//                           a[row, k]                        b[k, col]
//   products q . k          the tile's columns               the leaf's columns
//   sums over the leaf      pairs of tile and leaf           the leaf's rows
//
//   block    4 warps; each has 4 * kRows rows of the tile to itself
//   warp     4 lanes down, 8 lanes across
//   thread   quads of rows: 4 d .. 4 d + 3 of its warp's, and 16 + 4 d .. (d: its lane down)
//            quads of columns: 4 a .. 4 a + 3 of 64, and 32 + 4 a .. (a: its lane across)
//
// Asynchronous copies bring 16 columns (of the tile and of the leaf) or 16 rows (of the leaf) at a
// time into one of two stages, while the block computes with the other stage. Copies of four bytes
// transpose columns:
//
//   a stage of columns:  k = 0   tile's 64 or 128 rows | 4 unused     a stage of rows:
//                        ..                                           row 0   64 or 128 columns
//                        k = 15                                       ..
//                        k = 0   leaf's 64 rows | 4 unused            row 15
//                        ..
//
// Lanes are numbered such that neighbours share a lane across, and lanes two apart share a lane
// down; so a warp reads quads in two cycles. The pairs (weights or slopes) are in shared memory as
// pairs[row of leaf, row of tile].
#pragma once

#include "attention_stages.cuh"

namespace acan::cuda {
namespace {

// ---- products ----------------------------------------------------------------------------------

__device__ __forceinline__ float4 QuadAt(const float* words) {
  return *reinterpret_cast<const float4*>(words);
}

// The sums of the thread's rows and columns.
template <int kRows>
using Sums = float[kRows][kEach];

template <int kRows>
__device__ __forceinline__ void Clear(Sums<kRows>& sums) {
  ACAN_UNROLL for (int i = 0; i < kRows; ++i) {
    ACAN_UNROLL for (int j = 0; j < kEach; ++j) sums[i][j] = 0.0f;
  }
}

// The same, by reading zeros. A read of a quad determines whether the register of a sum is even or
// odd, and so does a read of factors. An instruction that needs three even registers, or three odd
// ones, waits for one of them. So neighbours among four rows are swapped: a sum's register and the
// register of its row's factor are never both even or both odd.
template <int kRows>
__device__ __forceinline__ void ReadZeros(const float* zeros, Sums<kRows>& sums) {
  ACAN_UNROLL for (int j = 0; j < kEach; ++j) {
    ACAN_UNROLL for (int i = 0; i < kRows; i += kQuad) {
      const float4 quad = QuadAt(zeros + j * kRows + i);
      sums[i + 1][j] = quad.x;
      sums[i][j] = quad.y;
      sums[i + 3][j] = quad.z;
      sums[i + 2][j] = quad.w;
    }
  }
}

// The positions of the thread's factors of one k. to_second: from the first quad of b's to the
// second.
struct FactorsAt {
  const float* a;
  const float* b;
  int a_pitch;
  int b_pitch;
  int to_second;

  __device__ __forceinline__ FactorsAt At(int k) const {
    return {a + k * a_pitch, b + k * b_pitch, a_pitch, b_pitch, to_second};
  }
};

// A thread's factors for one k.
template <int kRows>
struct Factors {
  float a[kRows];
  float b[kEach];
};

__device__ __forceinline__ void TakeQuad(const float* words, float* out) {
  const float4 quad = QuadAt(words);
  out[0] = quad.x;
  out[1] = quad.y;
  out[2] = quad.z;
  out[3] = quad.w;
}

template <int kRows>
__device__ __forceinline__ void ReadFactors(const FactorsAt& at, Factors<kRows>& out) {
  ACAN_UNROLL for (int i = 0; i < kRows; i += kQuad) TakeQuad(at.a + i * kDown, out.a + i);
  TakeQuad(at.b, out.b);
  TakeQuad(at.b + at.to_second, out.b + kQuad);
}

// Every other column runs from its last row to its first; gemm_ring.cuh gives the reason.
template <int kRows>
__device__ __forceinline__ void Multiply(const Factors<kRows>& f, Sums<kRows>& sums) {
  ACAN_UNROLL for (int j = 0; j < kEach; ++j) {
    ACAN_UNROLL for (int i = 0; i < kRows; ++i) {
      const int row = j % 2 == 0 ? i : kRows - 1 - i;
      sums[row][j] = ACAN_FMA(f.a[row], f.b[j], sums[row][j]);
    }
  }
}

// Adds the products of `steps` values of k, a multiple of four. Factors are read one k ahead.
template <int kRows>
__device__ __forceinline__ void MultiplySteps(const FactorsAt& from, int steps,
                                              Sums<kRows>& sums) {
  FactorsAt at = from;
  Factors<kRows> factors[2];
  ReadFactors<kRows>(at, factors[0]);
  ACAN_NO_UNROLL for (int left = steps; left > 0; left -= kQuad) {
    ACAN_UNROLL for (int k = 0; k < kQuad; ++k) {
      const int next = k + 1 < kQuad || left > kQuad ? k + 1 : k;
      ReadFactors<kRows>(at.At(next), factors[(k + 1) % 2]);
      Multiply<kRows>(factors[k % 2], sums);
    }
    at = at.At(kQuad);
  }
}

// Adds only some products of one step: those of rows i with begin[i] <= k < end[i].
template <int kRows>
__device__ __forceinline__ void MultiplySome(const FactorsAt& at, int k, const int (&begin)[kRows],
                                             const int (&end)[kRows], Sums<kRows>& sums) {
  Factors<kRows> f;
  ReadFactors<kRows>(at.At(k), f);
  ACAN_UNROLL for (int i = 0; i < kRows; ++i) {
    if (k < begin[i] || k >= end[i]) continue;
    ACAN_UNROLL for (int j = 0; j < kEach; ++j) {
      sums[i][j] = ACAN_FMA(f.a[i], f.b[j], sums[i][j]);
    }
  }
}

// The products q . k, in the canonical order: a chain for each 64 columns, of which there are at
// most two. The copies of part 0 have begun; `then` begins those of what follows. sees: whether the
// warp needs the products. REQUIRES: width % 4 == 0.
template <int kRows, int kBlocks, typename Then>
__device__ __forceinline__ void Products(Shared<kRows, kBlocks>& m, const Rows& tile,
                                         const Rows& leaf, bool sees, const Then& then,
                                         Sums<kRows>& out) {
  constexpr int kParts = kLeaf / kStep;
  const int parts = (tile.width + kStep - 1) / kStep;
  ACAN_UNROLL for (int b = 0; b < kBlocks; ++b) {
    Sums<kRows> sums;
    ReadZeros<kRows>(m.zeros, sums);
    const int end = kBlocks == 1 ? parts : Least(parts, (b + 1) * kParts);
    ACAN_NO_UNROLL for (int part = b * kParts; part < end; ++part) {
      const float* const stage = m.Arrive();
      if (part + 1 < parts) {
        m.BringPair(tile, leaf, part + 1);
      } else {
        then();
      }
      const FactorsAt at{stage + RowOf<kRows>(0),
                         stage + kStep * kTilePitch<kRows> + ColumnOf(0), kTilePitch<kRows>,
                         kLeafPitch, kApart};
      if (sees) MultiplySteps<kRows>(at, Least(kStep, tile.width - part * kStep), sums);
    }
    ACAN_UNROLL for (int i = 0; i < kRows; ++i) {
      ACAN_UNROLL for (int j = 0; j < kEach; ++j) {
        if (b == 0) {
          out[i][j] = sums[i][j];
        } else if (parts > b * kParts) {
          out[i][j] = out[i][j] + sums[i][j];
        }
      }
    }
  }
}

// Where quad `i / 4` of the thread's rows has its pairs with row `j` of the leaf, in shared memory.
template <int kRows>
__device__ __forceinline__ float* PairsAt(float* pairs, int i, int j) {
  return pairs + ColumnOf(j) * kTilePitch<kRows> + RowOf<kRows>(i);
}

__device__ __forceinline__ void PutQuad(float* to, float x, float y, float z, float w) {
  float4 quad;
  quad.x = x;
  quad.y = y;
  quad.z = z;
  quad.w = w;
  *reinterpret_cast<float4*>(to) = quad;
}

// Reads the thread's own pairs.
template <int kRows>
__device__ __forceinline__ void TakePairs(float* pairs, Sums<kRows>& out) {
  ACAN_UNROLL for (int j = 0; j < kEach; ++j) {
    ACAN_UNROLL for (int i = 0; i < kRows; i += kQuad) {
      const float4 quad = QuadAt(PairsAt<kRows>(pairs, i, j));
      out[i][j] = quad.x;
      out[i + 1][j] = quad.y;
      out[i + 2][j] = quad.z;
      out[i + 3][j] = quad.w;
    }
  }
}

template <int kRows>
__device__ __forceinline__ void ShowPairs(const Sums<kRows>& of, float* pairs) {
  ACAN_UNROLL for (int j = 0; j < kEach; ++j) {
    ACAN_UNROLL for (int i = 0; i < kRows; i += kQuad) {
      PutQuad(PairsAt<kRows>(pairs, i, j), of[i][j], of[i + 1][j], of[i + 2][j], of[i + 3][j]);
    }
  }
}

// ---- which pairs exist -------------------------------------------------------------------------

// The rows of the leaf that each row of the tile sees. They are a range, because hidden rows come
// first or last. kFrom: rows are keys, whose ranges begin later from row to row; otherwise they are
// queries, whose ranges end later.
template <int kRows, bool kFrom>
struct Sight {
  int rows;   // of the tile that exist
  int count;  // of the leaf
  int shift;  // row r sees rows from r + shift on, or up to there
  bool causal;

  __device__ __forceinline__ int Begin(int r) const {
    return kFrom && causal ? Least(Most(r + shift, 0), kLeaf) : 0;
  }
  __device__ __forceinline__ int End(int r) const {
    if (r >= rows) return 0;
    return kFrom || !causal ? count : Most(Least(r + shift, count), 0);
  }
  // For the warp's rows: a range that includes all of theirs, whether any row sees any, and whether
  // each row sees the whole leaf.
  __device__ __forceinline__ int WarpBegin() const { return Begin(WarpRow<kRows>()); }
  __device__ __forceinline__ int WarpEnd() const {
    const int first = WarpRow<kRows>();
    return first < rows ? End(Least(first + kDown * kRows, rows) - 1) : 0;
  }
  __device__ __forceinline__ bool HasAny() const { return WarpBegin() < WarpEnd(); }
  __device__ __forceinline__ bool HasAll() const {
    const int first = WarpRow<kRows>();
    const int last = first + kDown * kRows - 1;
    return last < rows && Begin(last) == 0 && End(first) == kLeaf;
  }
};

// ---- sums over the rows of a leaf --------------------------------------------------------------

// sums[b] = chains from 0 of pairs[j, row] * leaf[j], over the rows j that the row sees, ascending,
// for the 64 columns from 64 b on. The copies of part 0 have begun; `then` begins those of what
// follows.
template <int kRows, int kBlocks, bool kFrom, typename Then>
__device__ __forceinline__ void AddLeaf(Shared<kRows, kBlocks>& m, const Rows& leaf,
                                        const Sight<kRows, kFrom>& sight, const Then& then,
                                        Sums<kRows> (&sums)[kBlocks]) {
  constexpr int kParts = kLeaf / kStep;
  const bool all = sight.HasAll();
  const int least = sight.WarpBegin();
  const int most = sight.WarpEnd();
  ACAN_UNROLL for (int b = 0; b < kBlocks; ++b) ReadZeros<kRows>(m.zeros, sums[b]);
  ACAN_NO_UNROLL for (int part = 0; part < kParts; ++part) {
    const float* const stage = m.Arrive();
    if (part + 1 < kParts) {
      m.BringLeaf(leaf, part + 1);
    } else {
      then();
    }
    const int row0 = part * kStep;
    const float* const mine = m.pairs + row0 * kTilePitch<kRows> + RowOf<kRows>(0);
    ACAN_UNROLL for (int b = 0; b < kBlocks; ++b) {
      // Beyond the head's last column it reads any column, for sums that are not stored.
      const int first = Least(b * kLeaf + ColumnOf(0), leaf.width - kQuad);
      const int second = Least(b * kLeaf + ColumnOf(kQuad), leaf.width - kQuad);
      const FactorsAt at{mine, stage + first, kTilePitch<kRows>, kLeaf * kBlocks, second - first};
      if (all) {
        MultiplySteps<kRows>(at, kStep, sums[b]);
        continue;
      }
      int begin[kRows];
      int end[kRows];
      ACAN_UNROLL for (int i = 0; i < kRows; ++i) {
        begin[i] = sight.Begin(RowOf<kRows>(i)) - row0;
        end[i] = sight.End(RowOf<kRows>(i)) - row0;
      }
      ACAN_NO_UNROLL for (int k = Most(least - row0, 0); k < Least(most - row0, kStep); ++k) {
        MultiplySome<kRows>(at, k, begin, end, sums[b]);
      }
    }
  }
}

// Stores row i of the thread's columns, times a factor.
template <int kRows, int kBlocks>
__device__ __forceinline__ void StoreColumns(const acan_matrix& to, acan_i64 row, acan_i64 col,
                                             int width, const Sums<kRows> (&sums)[kBlocks], int i,
                                             float factor) {
  const bool wide = IsWide(to);
  ACAN_UNROLL for (int q = 0; q < kBlocks * 2; ++q) {
    const int c = q / 2 * kLeaf + ColumnOf(q % 2 * kQuad);
    if (c >= width) continue;
    float out[kQuad];
    ACAN_UNROLL for (int e = 0; e < kQuad; ++e) {
      const float x = sums[q / 2][i][q % 2 * kQuad + e] * factor;
      out[e] = x == x ? x : ACAN_NAN;
    }
    float* const words = to.data + row * to.stride + col + c;
    if (wide) {
      PutQuad(words, out[0], out[1], out[2], out[3]);
    } else {
      ACAN_UNROLL for (int e = 0; e < kQuad; ++e) words[e] = out[e];
    }
  }
}

// ---- levels of the tree ------------------------------------------------------------------------

// A quad has four rows of one column, in the order of ReadZeros.
template <int kRows, int kBlocks>
struct Level {
  float4 quads[kBlocks][kEach][kRows / kQuad];
};

template <int kRows, int kBlocks>
__device__ __forceinline__ void KeepLevel(const Sums<kRows> (&sums)[kBlocks],
                                          Level<kRows, kBlocks>& level) {
  ACAN_UNROLL for (int b = 0; b < kBlocks; ++b) {
    ACAN_UNROLL for (int j = 0; j < kEach; ++j) {
      ACAN_UNROLL for (int i = 0; i < kRows; i += kQuad) {
        PutQuad(reinterpret_cast<float*>(&level.quads[b][j][i / kQuad]), sums[b][i + 1][j],
                sums[b][i][j], sums[b][i + 3][j], sums[b][i + 2][j]);
      }
    }
  }
}

// join(row, left, sum) returns the sum of both.
template <int kRows, int kBlocks, typename Join>
__device__ __forceinline__ void JoinLevel(const Level<kRows, kBlocks>& level, const Join& join,
                                          Sums<kRows> (&sums)[kBlocks]) {
  ACAN_UNROLL for (int b = 0; b < kBlocks; ++b) {
    ACAN_UNROLL for (int j = 0; j < kEach; ++j) {
      ACAN_UNROLL for (int i = 0; i < kRows; i += kQuad) {
        const float4 quad = QuadAt(reinterpret_cast<const float*>(&level.quads[b][j][i / kQuad]));
        sums[b][i + 1][j] = join(i + 1, quad.x, sums[b][i + 1][j]);
        sums[b][i][j] = join(i, quad.y, sums[b][i][j]);
        sums[b][i + 3][j] = join(i + 3, quad.z, sums[b][i + 3][j]);
        sums[b][i + 2][j] = join(i + 2, quad.w, sums[b][i + 2][j]);
      }
    }
  }
}

// The number of levels that end with this leaf: its trailing ones.
__device__ __forceinline__ int EndingLevels(int leaf) {
  int levels = 0;
  for (; leaf & 1; leaf >>= 1) ++levels;
  return levels;
}

// ---- which tile --------------------------------------------------------------------------------

// Blocks start in the order of their numbers. The longest tiles of all rows of the launch come
// first, so that no long tile starts when the others end.
struct BlockPlace {
  acan_i64 r;
  int order;  // of the tile within its row
};
// rows: at most the number of blocks.
__device__ __forceinline__ BlockPlace PlaceOfBlock(acan_i64 rows) {
  const auto all = static_cast<unsigned>(rows);
  return {blockIdx.x % all, static_cast<int>(blockIdx.x / all)};
}

}  // namespace
}  // namespace acan::cuda
