// Exact attention, forward; attention_tile.cuh describes the method.
#include "attention_tile.cuh"

namespace acan::cuda {
namespace {

// What a block keeps in shared memory in addition to Shared.
template <int kRows, int kBlocks>
struct ForwardMemory {
  Shared<kRows, kBlocks> shared;
  float* largest;  // scores: [query, lane across]
  float* sums;     // of a leaf's weights: [query]

  static constexpr int kWords = kSharedWords<kRows, kBlocks> + kTileRows<kRows> * (kAcross + 1);
  __device__ __forceinline__ explicit ForwardMemory(float* memory)
      : shared(memory),
        largest(memory + kSharedWords<kRows, kBlocks>),
        sums(largest + kTileRows<kRows> * kAcross) {}
};

// The triples of the thread's queries, for the thread's columns.
template <int kRows, int kBlocks>
struct Nodes {
  float k[kRows];
  float sum[kRows];
  Sums<kRows> o[kBlocks];
};

template <int kRows, int kBlocks>
struct OpenNodes {
  float k[kRows];
  float sum[kRows];
  Level<kRows, kBlocks> o;
};

// Joins the nodes of the `wanted` queries; the others stay as they are.
template <int kRows, int kBlocks>
__device__ __forceinline__ void JoinNodes(const OpenNodes<kRows, kBlocks>& left,
                                          const bool (&wanted)[kRows],
                                          Nodes<kRows, kBlocks>& node) {
  acan_attention_factors factors[kRows];
  ACAN_UNROLL for (int i = 0; i < kRows; ++i) {
    acan_attention_factors& f = factors[i];
    f = acan_attention_factors_of(left.k[i], node.k[i]);
    if (!wanted[i]) {
      f.largest = node.k[i];
      f.pass = 2;
    }
    node.k[i] = f.largest;
    node.sum[i] = acan_attention_join(&f, left.sum[i], node.sum[i]);
  }
  JoinLevel<kRows, kBlocks>(
      left.o, [&](int i, float x, float y) { return acan_attention_join(&factors[i], x, y); },
      node.o);
}

// What all leaves of the block's tile share.
struct Tile {
  acan_attention_call call;
  acan_attention_place at;  // of the tile's first query
  int queries;              // of the tile; only those that exist
  int keys;                 // that exist
  int most_visible;         // the most keys that any query of the tile sees

  // The number of keys that query `row` of the tile sees; -1 if there is no such query.
  __device__ __forceinline__ int Visible(int row) const {
    return row < queries ? static_cast<int>(acan_attention_visible(&call, keys, at.query + row))
                         : -1;
  }
};

template <int kRows>
using KeysSeen = Sight<kRows, false>;

template <int kRows>
__device__ __forceinline__ KeysSeen<kRows> SightOf(const Tile& tile, int begin) {
  const acan_attention_call& call = tile.call;
  return {tile.queries, Least(kLeaf, tile.keys - begin),
          static_cast<int>(call.first_query + tile.at.query + 1 - call.first_key) - begin,
          call.causal != 0};
}

// Scores of hidden keys become -infinity, which is never the largest, and whose weight is 0.
template <int kRows>
__device__ __forceinline__ void HideScores(const KeysSeen<kRows>& sight, Sums<kRows>& scores) {
  ACAN_UNROLL for (int i = 0; i < kRows; ++i) {
    const int end = sight.End(RowOf<kRows>(i));
    ACAN_UNROLL for (int j = 0; j < kEach; ++j) {
      if (ColumnOf(j) >= end) scores[i][j] = ACAN_AS_F32(0xff800000u);
    }
  }
}

// Writes the largest score of each query among the thread's pairs to shared memory.
template <int kRows>
__device__ __forceinline__ void ShowLargest(const Sums<kRows>& scores, float* largest) {
  ACAN_UNROLL for (int i = 0; i < kRows; ++i) {
    float most = -ACAN_ATTENTION_BOUND;
    ACAN_UNROLL for (int j = 0; j < kEach; ++j) most = scores[i][j] > most ? scores[i][j] : most;
    largest[RowOf<kRows>(i) * kAcross + Across()] = most;
  }
}

__device__ __forceinline__ float LargestOf(const float* of) {
  float largest = -ACAN_ATTENTION_BOUND;
  ACAN_UNROLL for (int j = 0; j < kAcross; j += kQuad) {
    const float4 quad = QuadAt(of + j);
    largest = quad.x > largest ? quad.x : largest;
    largest = quad.y > largest ? quad.y : largest;
    largest = quad.z > largest ? quad.z : largest;
    largest = quad.w > largest ? quad.w : largest;
  }
  return largest;
}

// Sums a query's weights, with one thread of the query's warp. Hidden keys have weight 0, which
// changes no sum of weights.
template <int kRows, int kBlocks>
__device__ __forceinline__ void SumWeights(const ForwardMemory<kRows, kBlocks>& m) {
  if (Thread() % 32 >= kDown * kRows) return;
  const int row = WarpRow<kRows>() + Thread() % 32;
  float sum = 0.0f;
#pragma unroll 16
  for (int j = 0; j < kLeaf; ++j) sum = sum + m.shared.pairs[j * kTilePitch<kRows> + row];
  m.sums[row] = sum;
}

template <int kRows, int kBlocks>
__device__ __forceinline__ void DropWeights(const acan_args& a, const Tile& tile, int begin,
                                            const ForwardMemory<kRows, kBlocks>& m) {
  ACAN_NO_UNROLL for (int of = 0; of < kRows * kEach; ++of) {
    const int i = of / kEach;
    const int j = of % kEach;
    float* const weight = m.shared.pairs + ColumnOf(j) * kTilePitch<kRows> + RowOf<kRows>(i);
    *weight = acan_attention_drop(&a, &tile.call, tile.at.sequence, tile.at.query + RowOf<kRows>(i),
                                  tile.at.head, begin + ColumnOf(j), *weight);
  }
}

// Computes the weights of the leaf at key `begin` into m.shared.pairs, and K of each query. The
// sums of weights are valid after the next barrier.
template <int kRows, int kBlocks>
__device__ __forceinline__ void WeighLeaf(const acan_args& a, const Tile& tile, int begin,
                                          const KeysSeen<kRows>& sight, Sums<kRows>& s,
                                          const ForwardMemory<kRows, kBlocks>& m,
                                          float (&k)[kRows]) {
  const bool any = sight.HasAny();
  if (any) {
    ACAN_UNROLL for (int i = 0; i < kRows; ++i) {
      ACAN_UNROLL for (int j = 0; j < kEach; ++j) s[i][j] = acan_attention_score(s[i][j], a.f[0]);
    }
    if (!sight.HasAll()) HideScores<kRows>(sight, s);
    ShowLargest<kRows>(s, m.largest);
  }
  ACAN_BARRIER();
  if (any) {
    ACAN_UNROLL for (int i = 0; i < kRows; ++i) {
      const float shifted =
          acan_attention_shifted(LargestOf(m.largest + RowOf<kRows>(i) * kAcross));
      k[i] = shifted - ACAN_ATTENTION_SHIFT;
      ACAN_UNROLL for (int j = 0; j < kEach; ++j) {
        s[i][j] = acan_attention_weight(s[i][j], shifted);
      }
    }
    ShowPairs<kRows>(s, m.shared.pairs);
  }
  ACAN_BARRIER();
  if (any) SumWeights(m);
  if (!(a.f[1] > 0.0f)) return;
  ACAN_BARRIER();
  if (any) DropWeights(a, tile, begin, m);
}

template <int kRows, int kBlocks>
__device__ __forceinline__ void StoreQuery(const acan_args& a, const Tile& tile, int i,
                                           const Nodes<kRows, kBlocks>& node) {
  const acan_i64 row = tile.at.row + RowOf<kRows>(i);
  const float inverse = a.i[13] ? ACAN_DIV(1.0f, node.sum[i]) : 1.0f;
  StoreColumns<kRows, kBlocks>(a.m[0], row, tile.at.q_col, static_cast<int>(tile.call.width),
                               node.o, i, inverse);
  if (Across() != 0) return;
  acan_store(&a.m[1], row, 2 * tile.at.head, node.k[i]);
  acan_store(&a.m[1], row, 2 * tile.at.head + 1, node.sum[i]);
}

// Joins the leaf at key `begin` with the open nodes of each query that sees it, and stores the
// queries whose last leaf it is.
template <int kRows, int kBlocks>
__device__ __forceinline__ void EndLeaf(const acan_args& a, const Tile& tile, int begin,
                                        OpenNodes<kRows, kBlocks>* levels,
                                        Nodes<kRows, kBlocks>& node) {
  const int leaf = begin / kLeaf;
  const int ending = EndingLevels(leaf);
  int visible[kRows];
  bool any_is_last = false;
  ACAN_UNROLL for (int i = 0; i < kRows; ++i) {
    visible[i] = tile.Visible(RowOf<kRows>(i)) - begin;
    any_is_last = any_is_last || (visible[i] > 0 && visible[i] <= kLeaf);
  }
  int level = 0;
  for (int pending = leaf; pending != 0 && (any_is_last || level < ending);
       pending >>= 1, ++level) {
    if ((pending & 1) == 0) continue;
    bool wanted[kRows];
    ACAN_UNROLL for (int i = 0; i < kRows; ++i) {
      wanted[i] = visible[i] > 0 && (visible[i] <= kLeaf || level < ending);
    }
    JoinNodes<kRows, kBlocks>(levels[level], wanted, node);
  }
  bool any_goes_on = false;
  ACAN_UNROLL for (int i = 0; i < kRows; ++i) {
    any_goes_on = any_goes_on || visible[i] > kLeaf;
    if (visible[i] > 0 && visible[i] <= kLeaf) StoreQuery(a, tile, i, node);
  }
  if (!any_goes_on) return;
  OpenNodes<kRows, kBlocks>& open = levels[ending];
  ACAN_UNROLL for (int i = 0; i < kRows; ++i) {
    open.k[i] = node.k[i];
    open.sum[i] = node.sum[i];
  }
  KeepLevel<kRows, kBlocks>(node.o, open.o);
}

__device__ __forceinline__ Tile FindTile(const acan_args& a, acan_i64 r, acan_i64 first, int rows) {
  Tile tile;
  tile.call = acan_attention_call_of(&a, &a.m[2]);
  const acan_attention_call& call = tile.call;
  acan_attention_place& at = tile.at;
  at.sequence = r / call.heads;
  at.head = r % call.heads;
  at.query = first;
  at.row = at.sequence * call.queries + at.query;
  at.key_row = at.sequence * call.keys;
  at.q_col = at.head * call.width;
  at.k_col = at.head / call.shared * call.width;
  const acan_i64 keys = acan_attention_keys(&call, &a.m[5], at.sequence);
  const acan_i64 behind = acan_attention_least(call.queries, first + rows);
  tile.queries = static_cast<int>(behind - first);
  tile.keys = static_cast<int>(keys);
  tile.most_visible = static_cast<int>(acan_attention_visible(&call, keys, behind - 1));
  return tile;
}

template <int kRows, int kBlocks>
__device__ __forceinline__ void ForwardTile(const acan_args& a, acan_i64 r, acan_i64 first,
                                            float* memory) {
  const Tile tile = FindTile(a, r, first, kTileRows<kRows>);
  const acan_attention_call& call = tile.call;
  ForwardMemory<kRows, kBlocks> m(memory);
  const Rows q = RowsOf(a.m[2], tile.at.row, tile.queries, tile.at.q_col, call.width);
  const Rows k = RowsOf(a.m[3], tile.at.key_row, call.keys, tile.at.k_col, call.width);
  const Rows v = RowsOf(a.m[4], tile.at.key_row, call.keys, tile.at.k_col, call.width);
  OpenNodes<kRows, kBlocks> levels[kLevels<kRows>];
  Nodes<kRows, kBlocks> node;
  ACAN_UNROLL for (int i = 0; i < kRows; ++i) {
    node.k[i] = ACAN_ATTENTION_NO_KEYS;
    node.sum[i] = 0.0f;
  }
  ACAN_UNROLL for (int b = 0; b < kBlocks; ++b) Clear<kRows>(node.o[b]);
  ACAN_UNROLL for (int i = 0; i < kRows; ++i) {
    if (tile.Visible(RowOf<kRows>(i)) == 0) StoreQuery(a, tile, i, node);
  }
  if (tile.most_visible > 0) m.shared.BringPair(q, k, 0);
  ACAN_NO_UNROLL for (int begin = 0; begin < tile.most_visible; begin += kLeaf) {
    const KeysSeen<kRows> sight = SightOf<kRows>(tile, begin);
    const Rows values = From(v, begin);
    Sums<kRows> scores;
    Products(
        m.shared, q, From(k, begin), sight.HasAny(), [&] { m.shared.BringLeaf(values, 0); },
        scores);
    WeighLeaf(a, tile, begin, sight, scores, m, node.k);
    AddLeaf(
        m.shared, values, sight,
        [&] {
          if (begin + kLeaf < tile.most_visible) {
            m.shared.BringPair(q, From(k, begin + kLeaf), 0);
          }
        },
        node.o);
    if (!sight.HasAny()) continue;
    ACAN_UNROLL for (int i = 0; i < kRows; ++i) node.sum[i] = m.sums[RowOf<kRows>(i)];
    EndLeaf(a, tile, begin, levels, node);
  }
}

template <int kRows, int kBlocks>
__global__ void __launch_bounds__(kAttentionThreads, AttentionBlocks(kRows))
    AttentionKernel(const __grid_constant__ AttentionLaunch l) {
  ACAN_DYNAMIC_SHARED(memory);
  const acan_i64 queries = l.args.i[1];
  const acan_i64 tiles = (queries + kTileRows<kRows> - 1) / kTileRows<kRows>;
  const BlockPlace place = PlaceOfBlock(l.rows);
  // Later queries see more keys, so their tiles come first.
  const acan_i64 number = tiles - 1 - place.order;
  ForwardTile<kRows, kBlocks>(l.args, place.r, number * kTileRows<kRows>, memory);
}

}  // namespace

AttentionTileKernel AttentionForward(AttentionShape shape) {
  switch (shape) {
    case AttentionShape::kTall:
      return {reinterpret_cast<const void*>(&AttentionKernel<8, 1>),
              sizeof(float) * ForwardMemory<8, 1>::kWords};
    case AttentionShape::kLow:
      return {reinterpret_cast<const void*>(&AttentionKernel<4, 1>),
              sizeof(float) * ForwardMemory<4, 1>::kWords};
    case AttentionShape::kWide:
      break;
  }
  return {reinterpret_cast<const void*>(&AttentionKernel<4, 2>),
          sizeof(float) * ForwardMemory<4, 2>::kWords};
}

}  // namespace acan::cuda
