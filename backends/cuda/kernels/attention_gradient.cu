// The gradient of exact attention: attention_tile.cuh says how.
#include "attention_tile.cuh"

namespace acan::cuda {
namespace {

// What a block keeps in shared memory.
template <int kBlocks>
struct GradientMemory {
  Rows q, k, v, g;  // g: the gradient of o
  float* pairs;     // slopes or weights: [row of the thread, row of the leaf]
  float* lanes;     // of row terms: [query, 64 columns, lane]
  float* shifted;   // of 64 queries: acan_attention_row
  float* inverse;
  float* term;

  __device__ __forceinline__ GradientMemory(float* memory, int width) {
    const int pitch = width + 4;
    q = {memory, pitch};
    k = {q.words + kLeaf * pitch, pitch};
    v = {k.words + kLeaf * pitch, pitch};
    g = {v.words + kLeaf * pitch, pitch};
    pairs = g.words + kLeaf * pitch;
    lanes = pairs + kLeaf * kPairPitch;
    shifted = lanes + kBlocks * kLeaf * kSide;
    inverse = shifted + kLeaf;
    term = inverse + kLeaf;
  }
  static constexpr int Words(int width) {
    return 4 * kLeaf * (width + 4) + kLeaf * kPairPitch + kBlocks * kLeaf * kSide + 3 * kLeaf;
  }
};

// What is the same for all tiles of a row of the launch.
struct Group {
  acan_attention_call call;
  acan_attention_place at;  // its first head, and no query
  acan_i64 number;          // of the key's head
  acan_i64 keys;            // that exist
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
  group.keys = acan_attention_keys(&group.call, &a.m[6], group.at.sequence);
  return group;
}

__device__ __forceinline__ void TakeHead(Group& group, acan_i64 h) {
  group.at.head = group.number * group.call.shared + h;
  group.at.q_col = group.at.head * group.call.width;
}

// Sixteen lanes of the row terms of 64 queries, and then the terms, in lane order.
template <int kBlocks>
__device__ __forceinline__ void FindTerms(const acan_args& a, const Group& group, acan_i64 first,
                                          const GradientMemory<kBlocks>& m) {
  const acan_attention_call& call = group.call;
  const int width = static_cast<int>(call.width);
  const acan_i64 last = call.queries - 1;
  ACAN_UNROLL for (int i = 0; i < kEach; ++i) {
    const int mine = Down() * kEach + i;
    const acan_i64 query = first + mine < last ? first + mine : last;
    const acan_i64 row = group.at.sequence * call.queries + query;
    ACAN_UNROLL for (int b = 0; b < kBlocks; ++b) {
      float lane = 0.0f;
      ACAN_UNROLL for (int e = 0; e < kEach; ++e) {
        const int c = b * kLeaf + e * kSide + Across();
        if (c >= width) continue;
        lane = ACAN_FMA(acan_load(&a.m[8], row, group.at.q_col + c),
                        m.g.words[mine * m.g.pitch + c], lane);
      }
      m.lanes[(b * kLeaf + mine) * kSide + Across()] = lane;
    }
  }
  ACAN_BARRIER();
  const int mine = static_cast<int>(threadIdx.x);
  if (mine >= kLeaf) return;
  float term = 0.0f;
  ACAN_UNROLL for (int b = 0; b < kBlocks; ++b) {
    float lanes[kSide];
    ACAN_UNROLL for (int l = 0; l < kSide; ++l) {
      lanes[l] = m.lanes[(b * kLeaf + mine) * kSide + l];
    }
    ACAN_UNROLL for (int step = kSide / 2; step > 0; step /= 2) {
      ACAN_UNROLL for (int l = 0; l < step; ++l) lanes[l] = lanes[l] + lanes[l + step];
    }
    term = b == 0 ? lanes[0] : term + lanes[0];
  }
  const acan_i64 query = first + mine < last ? first + mine : last;
  const acan_i64 row = group.at.sequence * call.queries + query;
  m.term[mine] = term;
  m.shifted[mine] = acan_load(&a.m[7], row, 2 * group.at.head) + ACAN_ATTENTION_SHIFT;
  m.inverse[mine] = ACAN_DIV(1.0f, acan_load(&a.m[7], row, 2 * group.at.head + 1));
}

// Brings 64 queries of a head, with what their pairs need. Ends behind a barrier.
template <int kBlocks>
__device__ __forceinline__ void BringQueries(const acan_args& a, const Group& group, acan_i64 first,
                                             const GradientMemory<kBlocks>& m) {
  const acan_i64 row = group.at.sequence * group.call.queries + first;
  const int width = static_cast<int>(group.call.width);
  BringRows<kBlocks>(a.m[3], row, group.call.queries - first, group.at.q_col, width, m.q);
  BringRows<kBlocks>(a.m[9], row, group.call.queries - first, group.at.q_col, width, m.g);
  ACAN_BARRIER();
  FindTerms(a, group, first, m);
  ACAN_BARRIER();
}

template <int kBlocks>
__device__ __forceinline__ void BringKeys(const acan_args& a, const Group& group, acan_i64 first,
                                          const GradientMemory<kBlocks>& m) {
  const acan_i64 row = group.at.key_row + first;
  const int width = static_cast<int>(group.call.width);
  BringRows<kBlocks>(a.m[4], row, group.call.keys - first, group.at.k_col, width, m.k);
  BringRows<kBlocks>(a.m[5], row, group.call.keys - first, group.at.k_col, width, m.v);
}

// Where the thread's pair of row i and column j is shown to the others.
__device__ __forceinline__ int PairAt(int i, int j) {
  return (Down() * kEach + i) * kPairPitch + Across() + j * kSide;
}

// What dropout multiplies the thread's pairs with: 0, or 1 / (1 - rate). first_row, first_col: the
// numbers in the call of the block's queries and keys, or of its keys and queries.
__device__ __forceinline__ void DrawPairs(const acan_args& a, const Group& group,
                                          bool rows_are_queries, acan_i64 first_row,
                                          acan_i64 first_col, float* pairs) {
  if (!(a.f[1] > 0.0f)) return;
  ACAN_NO_UNROLL for (int of = 0; of < kEach * kEach; ++of) {
    const int i = of / kEach;
    const int j = of % kEach;
    const acan_i64 row = first_row + Down() * kEach + i;
    const acan_i64 col = first_col + Across() + j * kSide;
    pairs[PairAt(i, j)] =
        acan_attention_drop(&a, &group.call, group.at.sequence, rows_are_queries ? row : col,
                            group.at.head, rows_are_queries ? col : row, 1.0f);
  }
}

// acan_attention_pair of a query, `mine` of the block's, and a key. drawn: what DrawPairs says.
template <int kBlocks>
__device__ __forceinline__ acan_attention_pair PairOf(const acan_args& a,
                                                      const GradientMemory<kBlocks>& m, int mine,
                                                      const float* drawn, float product,
                                                      float gradient) {
  const float weight =
      acan_attention_weight(acan_attention_score(product, a.f[0]), m.shifted[mine]) *
      m.inverse[mine];
  acan_attention_pair pair;
  pair.weight = weight;
  if (a.f[1] > 0.0f) {
    const float kept = *drawn;
    pair.weight = kept == 0.0f ? 0.0f : weight * kept;
    gradient = kept == 0.0f ? 0.0f : gradient * kept;
  }
  pair.slope = acan_attention_slope(weight, gradient, m.term[mine], a.f[0]);
  return pair;
}

template <int kBlocks>
__device__ __forceinline__ void AddSums(const Sums<kBlocks>& left, int i, Sums<kBlocks>& sums) {
  ACAN_UNROLL for (int c = 0; c < kBlocks * 4; ++c) sums.v[i][c] = left.v[i][c] + sums.v[i][c];
}

// ---- the gradient of queries -------------------------------------------------------------------

// Pushes the leaf at key `begin` for each query that sees it, and stores those whose last one it
// is. visible: of the thread's queries.
template <int kBlocks>
__device__ __forceinline__ void EndKeyLeaf(const acan_args& a, const Group& group, acan_i64 row,
                                           const acan_i64 (&visible)[kEach], acan_i64 begin,
                                           Sums<kBlocks>* levels, Sums<kBlocks>& sums) {
  const acan_i64 leaf = begin / kLeaf;
  const int ending = EndingLevels(leaf);
  bool is_last[kEach];
  bool any_is_last = false;
  ACAN_UNROLL for (int i = 0; i < kEach; ++i) {
    is_last[i] = visible[i] > begin && visible[i] <= begin + kLeaf;
    any_is_last = any_is_last || is_last[i];
    ACAN_UNROLL for (int c = 0; c < kBlocks * 4; ++c) sums.v[i][c] = 0.0f + sums.v[i][c];
  }
  int level = 0;
  for (acan_i64 pending = leaf; pending != 0 && (any_is_last || level < ending);
       pending >>= 1, ++level) {
    if ((pending & 1) == 0) continue;
    ACAN_UNROLL for (int i = 0; i < kEach; ++i) {
      if (visible[i] > begin && (is_last[i] || level < ending)) AddSums(levels[level], i, sums);
    }
  }
  ACAN_UNROLL for (int i = 0; i < kEach; ++i) {
    if (is_last[i]) {
      StoreColumns<kBlocks>(a.m[0], row + i, group.at.q_col, static_cast<int>(group.call.width),
                            sums.v[i], 1.0f);
    }
    if (visible[i] <= begin + kLeaf) continue;
    ACAN_UNROLL for (int c = 0; c < kBlocks * 4; ++c) levels[ending].v[i][c] = sums.v[i][c];
  }
}

// The slopes of the leaf at key `begin`: [query, key].
template <int kBlocks>
__device__ __forceinline__ void FindQuerySlopes(const acan_args& a, const Group& group,
                                                acan_i64 first, acan_i64 begin,
                                                const GradientMemory<kBlocks>& m) {
  const int width = static_cast<int>(group.call.width);
  float products[kEach][kEach];
  float gradients[kEach][kEach];
  Products<kBlocks>(m.q, m.k, width, products);
  Products<kBlocks>(m.g, m.v, width, gradients);
  // Of hidden keys, too, which nobody adds: a branch for each pair takes longer.
  DrawPairs(a, group, true, first, begin, m.pairs);
  ACAN_UNROLL for (int i = 0; i < kEach; ++i) {
    ACAN_UNROLL for (int j = 0; j < kEach; ++j) {
      float* const pair = m.pairs + PairAt(i, j);
      *pair = PairOf(a, m, Down() * kEach + i, pair, products[i][j], gradients[i][j]).slope;
    }
  }
}

// dq of 64 queries of a head.
template <int kBlocks>
__device__ __forceinline__ void QueryTile(const acan_args& a, const Group& group, acan_i64 first,
                                          const GradientMemory<kBlocks>& m) {
  const acan_attention_call& call = group.call;
  const int width = static_cast<int>(call.width);
  BringQueries(a, group, first, m);
  const acan_i64 query = first + Down() * kEach;
  const acan_i64 row = group.at.sequence * call.queries + query;
  acan_i64 visible[kEach];
  Sums<kBlocks> levels[kLevels];
  Sums<kBlocks> sums;
  sums.Clear();
  ACAN_UNROLL for (int i = 0; i < kEach; ++i) {
    visible[i] =
        query + i < call.queries ? acan_attention_visible(&call, group.keys, query + i) : -1;
    if (visible[i] == 0) {
      StoreColumns<kBlocks>(a.m[0], row + i, group.at.q_col, width, sums.v[i], 1.0f);
    }
  }
  const acan_i64 last = acan_attention_least(call.queries, first + kLeaf) - 1;
  const acan_i64 most_visible = acan_attention_visible(&call, group.keys, last);
  ACAN_NO_UNROLL for (acan_i64 begin = 0; begin < most_visible; begin += kLeaf) {
    BringKeys(a, group, begin, m);
    const Seen seen = KeysSeen(visible, begin);
    ACAN_BARRIER();
    FindQuerySlopes(a, group, first, begin, m);
    ACAN_BARRIER();
    AddLeaf(m.pairs, m.k, width, seen, sums);
    EndKeyLeaf(a, group, row, visible, begin, levels, sums);
    ACAN_BARRIER();
  }
}

// ---- the gradients of keys and values ----------------------------------------------------------

// Pairs of the thread's keys with the queries x, x + 16, ... of the leaf.
struct Pairs {
  float slope[kEach][kEach];
  float weight[kEach][kEach];
};

template <int kBlocks>
__device__ __forceinline__ void FindPairs(const acan_args& a, const Group& group,
                                          acan_i64 first_key, acan_i64 begin,
                                          const GradientMemory<kBlocks>& m, Pairs& pairs) {
  const int width = static_cast<int>(group.call.width);
  float gradients[kEach][kEach];
  Products<kBlocks>(m.k, m.q, width, pairs.slope);
  Products<kBlocks>(m.v, m.g, width, gradients);
  DrawPairs(a, group, false, first_key, begin, m.pairs);
  ACAN_UNROLL for (int i = 0; i < kEach; ++i) {
    ACAN_UNROLL for (int j = 0; j < kEach; ++j) {
      const acan_attention_pair pair = PairOf(a, m, Across() + j * kSide, m.pairs + PairAt(i, j),
                                              pairs.slope[i][j], gradients[i][j]);
      pairs.slope[i][j] = pair.slope;
      pairs.weight[i][j] = pair.weight;
    }
  }
}

__device__ __forceinline__ void ShowPairs(const float (&of)[kEach][kEach], float* pairs) {
  ACAN_UNROLL for (int i = 0; i < kEach; ++i) {
    ACAN_UNROLL for (int j = 0; j < kEach; ++j) {
      pairs[PairAt(i, j)] = of[i][j];
    }
  }
}

// Which of the leaf's queries see the thread's keys: those from some one on.
__device__ __forceinline__ Seen QueriesThatSee(const Group& group, acan_i64 first_key,
                                               acan_i64 begin) {
  const acan_attention_call& call = group.call;
  const int count = SeenOf(call.queries, begin);
  Seen seen;
  ACAN_UNROLL for (int i = 0; i < kEach; ++i) {
    const acan_i64 key = first_key + Down() * kEach + i;
    const acan_i64 least = call.causal ? key + call.first_key - call.first_query - begin : 0;
    seen.begin[i] = least <= 0 ? 0 : least < kLeaf ? static_cast<int>(least) : kLeaf;
    seen.end[i] = key < group.keys ? count : 0;
  }
  return seen;
}

// Adds what one head's leaf of queries gives. REQUIRES: keys are there.
template <int kBlocks>
__device__ __forceinline__ void AddQueryLeaf(const acan_args& a, const Group& group,
                                             acan_i64 first_key, acan_i64 begin, const Seen& seen,
                                             const GradientMemory<kBlocks>& m, Sums<kBlocks>& dk,
                                             Sums<kBlocks>& dv) {
  const int width = static_cast<int>(group.call.width);
  BringQueries(a, group, begin, m);
  Pairs pairs;
  FindPairs(a, group, first_key, begin, m, pairs);
  ShowPairs(pairs.slope, m.pairs);
  ACAN_BARRIER();
  Sums<kBlocks> chain;
  AddLeaf(m.pairs, m.q, width, seen, chain);
  ACAN_UNROLL for (int i = 0; i < kEach; ++i) AddSums(chain, i, dk);
  ACAN_BARRIER();
  ShowPairs(pairs.weight, m.pairs);
  ACAN_BARRIER();
  AddLeaf(m.pairs, m.g, width, seen, chain);
  ACAN_UNROLL for (int i = 0; i < kEach; ++i) AddSums(chain, i, dv);
  ACAN_BARRIER();
}

// As acan_attention_push.
template <int kBlocks>
__device__ __forceinline__ void PushLeaf(Sums<kBlocks>* levels, acan_i64 leaf, bool is_last,
                                         Sums<kBlocks>& sums) {
  int level = 0;
  for (acan_i64 pending = leaf; pending != 0 && (is_last || (pending & 1) != 0);
       pending >>= 1, ++level) {
    if ((pending & 1) == 0) continue;
    ACAN_UNROLL for (int i = 0; i < kEach; ++i) AddSums(levels[level], i, sums);
  }
  if (!is_last) levels[level] = sums;
}

// dk and dv of 64 keys.
template <int kBlocks>
__device__ __forceinline__ void KeyTile(const acan_args& a, Group& group, acan_i64 first_key,
                                        const GradientMemory<kBlocks>& m) {
  const acan_attention_call& call = group.call;
  const int width = static_cast<int>(call.width);
  BringKeys(a, group, first_key, m);
  Sums<kBlocks> k_levels[kLevels];
  Sums<kBlocks> v_levels[kLevels];
  Sums<kBlocks> dk;
  Sums<kBlocks> dv;
  ACAN_NO_UNROLL for (acan_i64 begin = 0; begin < call.queries; begin += kLeaf) {
    dk.Clear();
    dv.Clear();
    const Seen seen = QueriesThatSee(group, first_key, begin);
    const acan_i64 last = acan_attention_least(call.queries, begin + kLeaf) - 1;
    // A leaf that sees none of the keys adds 0: there is no -0 that it would change.
    if (acan_attention_visible(&call, group.keys, last) > first_key) {
      ACAN_NO_UNROLL for (acan_i64 h = 0; h < call.shared; ++h) {
        TakeHead(group, h);
        AddQueryLeaf(a, group, first_key, begin, seen, m, dk, dv);
      }
    }
    const bool is_last = begin + kLeaf >= call.queries;
    PushLeaf(k_levels, begin / kLeaf, is_last, dk);
    PushLeaf(v_levels, begin / kLeaf, is_last, dv);
  }
  ACAN_UNROLL for (int i = 0; i < kEach; ++i) {
    const acan_i64 key = first_key + Down() * kEach + i;
    if (key >= call.keys) continue;
    StoreColumns<kBlocks>(a.m[1], group.at.key_row + key, group.at.k_col, width, dk.v[i], 1.0f);
    StoreColumns<kBlocks>(a.m[2], group.at.key_row + key, group.at.k_col, width, dv.v[i], 1.0f);
  }
}

// Two blocks a multiprocessor, where their shared memory leaves room for two.
template <int kBlocks>
__global__ void __launch_bounds__(kAttentionThreads, kBlocks == 1 ? 2 : 1)
    AttentionGradientKernel(const __grid_constant__ AttentionLaunch l) {
  ACAN_DYNAMIC_SHARED(memory);
  for (acan_i64 r = blockIdx.y; r < l.rows; r += gridDim.y) {
    Group group = FindGroup(l.args, r);
    const GradientMemory<kBlocks> m(memory, static_cast<int>(group.call.width));
    const acan_i64 query_tiles = (group.call.queries + kLeaf - 1) / kLeaf;
    const acan_i64 tile = blockIdx.x;
    if (tile >= query_tiles) {
      KeyTile(l.args, group, (tile - query_tiles) * kLeaf, m);
    } else {
      for (acan_i64 h = 0; h < group.call.shared; ++h) {
        TakeHead(group, h);
        QueryTile(l.args, group, tile * kLeaf, m);
      }
    }
    ACAN_BARRIER();
  }
}

}  // namespace

const void* AttentionGradientTileKernel(int column_blocks) {
  return column_blocks == 1 ? reinterpret_cast<const void*>(&AttentionGradientKernel<1>)
                            : reinterpret_cast<const void*>(&AttentionGradientKernel<2>);
}

std::size_t AttentionGradientTileBytes(int head_width) {
  const int words = head_width <= kLeaf ? GradientMemory<1>::Words(head_width)
                                        : GradientMemory<2>::Words(head_width);
  return sizeof(float) * static_cast<std::size_t>(words);
}

}  // namespace acan::cuda
