// What the kernels of the gradient of exact attention share: the pairs of queries and keys.
#pragma once

#include "attention_tile.cuh"

namespace acan::cuda {
namespace {

// What acan_attention_row holds for a query's head. A separate kernel stores it in the first words
// of the head's columns of dq. The kernel for keys reads it there; then the gradients of queries
// overwrite it.
constexpr int kShifted = 0;
constexpr int kInverse = 1;
constexpr int kTerm = 2;
constexpr int kTermWords = 3;
constexpr acan_u32 kSign = 0x80000000u;

// What a block keeps in shared memory in addition to Shared.
template <int kRows, int kBlocks>
struct GradientMemory {
  Shared<kRows, kBlocks> shared;
  float* terms;    // of the queries of the tile or of the leaf: [kTermWords][kQueries]
  float* weights;  // as pairs, before dropout, negative where dropout drops; only with dropout

  static constexpr int kQueries = kTileRows<kRows> > kLeaf ? kTileRows<kRows> : kLeaf;
  static constexpr int kWords = kSharedWords<kRows, kBlocks> + kTermWords * kQueries;
  static constexpr int kWordsWithDropout = kWords + kPairWords<kRows>;
  __device__ __forceinline__ explicit GradientMemory(float* memory)
      : shared(memory),
        terms(memory + kSharedWords<kRows, kBlocks>),
        weights(terms + kTermWords * kQueries) {}
};

// What all tiles of a row of the launch share.
struct Group {
  acan_attention_call call;
  acan_attention_place at;  // its first head; without a query
  acan_i64 number;          // of the key's head
  int keys;                 // that exist
};

__device__ __forceinline__ Group FindGroup(const acan_args& a, acan_i64 r) {
  Group group;
  group.call = acan_attention_call_of(&a, &a.m[3]);
  const acan_i64 key_heads = group.call.heads / group.call.shared;
  group.number = r % key_heads;
  group.at = {};
  group.at.sequence = r / key_heads;
  group.at.key_row = group.at.sequence * group.call.keys;
  group.at.k_col = group.number * group.call.width;
  group.keys = static_cast<int>(acan_attention_keys(&group.call, &a.m[6], group.at.sequence));
  return group;
}

__device__ __forceinline__ void TakeHead(Group& group, acan_i64 h) {
  group.at.head = group.number * group.call.shared + h;
  group.at.q_col = group.at.head * group.call.width;
}

// The rows of operand `m` from query or key `first` of the group on.
__device__ __forceinline__ Rows QueryRows(const acan_args& a, int m, const Group& group,
                                          acan_i64 first) {
  return RowsOf(a.m[m], group.at.sequence * group.call.queries + first, group.call.queries - first,
                group.at.q_col, group.call.width);
}
__device__ __forceinline__ Rows KeyRows(const acan_args& a, int m, const Group& group,
                                        acan_i64 first) {
  return RowsOf(a.m[m], group.at.key_row + first, group.call.keys - first, group.at.k_col,
                group.call.width);
}

// Begins to copy the terms of kCount queries.
template <int kCount, int kRows, int kBlocks>
__device__ __forceinline__ void BringTerms(const acan_args& a, const Group& group, acan_i64 first,
                                           const GradientMemory<kRows, kBlocks>& m) {
  const Rows dq = QueryRows(a, 0, group, first);
  ACAN_UNROLL for (int i = 0; i < kCount * kTermWords; i += kAttentionThreads) {
    const int query = (i + Thread()) % kCount;
    const int word = (i + Thread()) / kCount;
    acan_copy_async(m.terms + word * m.kQueries + query,
                    dq.words + Least(query, dq.count - 1) * dq.stride + word, 4, word < kTermWords);
  }
}

// Turns the thread's products into weights before dropout. kQueriesAreRows: the tile is of queries.
template <bool kQueriesAreRows, int kRows, int kBlocks>
__device__ __forceinline__ void FindWeights(const acan_args& a,
                                            const GradientMemory<kRows, kBlocks>& m,
                                            Sums<kRows>& products) {
  ACAN_UNROLL for (int i = 0; i < kRows; ++i) {
    ACAN_UNROLL for (int j = 0; j < kEach; ++j) {
      const float* const terms = m.terms + (kQueriesAreRows ? RowOf<kRows>(i) : ColumnOf(j));
      products[i][j] = acan_attention_weight(acan_attention_score(products[i][j], a.f[0]),
                                             terms[kShifted * m.kQueries]) *
                       terms[kInverse * m.kQueries];
    }
  }
}

// Turns the thread's gradients into slopes. weights: from FindWeights, negative where dropout
// drops.
template <bool kQueriesAreRows, int kRows, int kBlocks>
__device__ __forceinline__ void FindSlopes(const acan_args& a,
                                           const GradientMemory<kRows, kBlocks>& m, float* weights,
                                           Sums<kRows>& gradients) {
  const bool drops = a.f[1] > 0.0f;
  Sums<kRows> own;
  TakePairs<kRows>(weights, own);
  ACAN_UNROLL for (int i = 0; i < kRows; ++i) {
    ACAN_UNROLL for (int j = 0; j < kEach; ++j) {
      float weight = own[i][j];
      float gradient = gradients[i][j];
      if (drops) {
        const bool dropped = (ACAN_AS_U32(weight) & kSign) != 0;
        weight = ACAN_AS_F32(ACAN_AS_U32(weight) & ~kSign);
        gradient = dropped ? 0.0f : gradient * a.f[2];
      }
      const float term =
          m.terms[kTerm * m.kQueries + (kQueriesAreRows ? RowOf<kRows>(i) : ColumnOf(j))];
      gradients[i][j] = acan_attention_slope(weight, gradient, term, a.f[0]);
    }
  }
}

// Marks those of the thread's own weights that dropout drops. first_row, first_col: the indices in
// the call of the block's first query and key, or of its first key and query. kept: receives the
// weights after dropout; may be null.
template <bool kQueriesAreRows, int kRows>
__device__ __forceinline__ void DrawWeights(const acan_args& a, const Group& group,
                                            acan_i64 first_row, acan_i64 first_col, float* weights,
                                            float* kept) {
  ACAN_NO_UNROLL for (int of = 0; of < kRows * kEach; ++of) {
    const int i = of / kEach;
    const int j = of % kEach;
    const acan_i64 row = first_row + RowOf<kRows>(i);
    const acan_i64 col = first_col + ColumnOf(j);
    const int at = ColumnOf(j) * kTilePitch<kRows> + RowOf<kRows>(i);
    const float draw =
        acan_attention_drop(&a, &group.call, group.at.sequence, kQueriesAreRows ? row : col,
                            group.at.head, kQueriesAreRows ? col : row, 1.0f);
    const float weight = weights[at];
    if (kept != nullptr) kept[at] = draw == 0.0f ? 0.0f : weight * draw;
    weights[at] = draw == 0.0f ? ACAN_AS_F32(ACAN_AS_U32(weight) | kSign)
                               : ACAN_AS_F32(ACAN_AS_U32(weight) & ~kSign);
  }
}

// sums = 0 + sums.
template <int kRows, int kBlocks>
__device__ __forceinline__ void AddToZero(Sums<kRows> (&sums)[kBlocks]) {
  ACAN_UNROLL for (int b = 0; b < kBlocks; ++b) {
    ACAN_UNROLL for (int i = 0; i < kRows; ++i) {
      ACAN_UNROLL for (int j = 0; j < kEach; ++j) sums[b][i][j] = 0.0f + sums[b][i][j];
    }
  }
}

}  // namespace
}  // namespace acan::cuda
