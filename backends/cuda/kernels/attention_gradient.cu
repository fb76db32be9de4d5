// The gradient of exact attention; attention_tile.cuh describes the method.
#include "attention_pairs.cuh"

namespace acan::cuda {
namespace {

// ---- the terms ---------------------------------------------------------------------------------

constexpr int kLanes = 16;  // of a row term

// A block computes the terms of 64 heads of queries: 16 lanes of each, then the terms, in lane
// order.
template <int kBlocks>
__device__ __forceinline__ void FindTerms(const acan_args& a, acan_i64 first, float* lanes) {
  constexpr int kAtOnce = kAttentionThreads / kLanes;
  const acan_attention_call call = acan_attention_call_of(&a, &a.m[3]);
  const acan_i64 count = a.m[3].rows * call.heads;
  const int lane_of = Thread() % kLanes;
#pragma unroll 4
  for (int i = 0; i < kAttentionTerms / kAtOnce; ++i) {
    const int mine = Thread() / kLanes + i * kAtOnce;
    const acan_i64 place = acan_attention_least(first + mine, count - 1);
    const acan_i64 row = place / call.heads;
    const acan_i64 col = place % call.heads * call.width;
    ACAN_UNROLL for (int b = 0; b < kBlocks; ++b) {
      float lane = 0.0f;
      ACAN_UNROLL for (int e = 0; e < kLeaf / kLanes; ++e) {
        const int c = b * kLeaf + e * kLanes + lane_of;
        if (c >= call.width) continue;
        lane = ACAN_FMA(acan_load(&a.m[8], row, col + c), acan_load(&a.m[9], row, col + c), lane);
      }
      lanes[(b * kAttentionTerms + mine) * kLanes + lane_of] = lane;
    }
  }
  ACAN_BARRIER();
  const acan_i64 place = first + Thread();
  if (Thread() >= kAttentionTerms || place >= count) return;
  float term = 0.0f;
  ACAN_UNROLL for (int b = 0; b < kBlocks; ++b) {
    float all[kLanes];
    ACAN_UNROLL for (int l = 0; l < kLanes; ++l) {
      all[l] = lanes[(b * kAttentionTerms + Thread()) * kLanes + l];
    }
    ACAN_UNROLL for (int step = kLanes / 2; step > 0; step /= 2) {
      ACAN_UNROLL for (int l = 0; l < step; ++l) all[l] = all[l] + all[l + step];
    }
    if (b == 0) {
      term = all[0];
    } else if (call.width > b * kLeaf) {
      term = term + all[0];
    }
  }
  const acan_i64 row = place / call.heads;
  const acan_i64 head = place % call.heads;
  float* const to = a.m[0].data + row * a.m[0].stride + head * call.width;
  to[kShifted] = acan_load(&a.m[7], row, 2 * head) + ACAN_ATTENTION_SHIFT;
  to[kInverse] = ACAN_DIV(1.0f, acan_load(&a.m[7], row, 2 * head + 1));
  to[kTerm] = term;
}

template <int kBlocks>
__global__ void __launch_bounds__(kAttentionThreads)
    AttentionTermsKernel(const __grid_constant__ AttentionLaunch l) {
  ACAN_DYNAMIC_SHARED(lanes);
  FindTerms<kBlocks>(l.args, static_cast<acan_i64>(blockIdx.x) * kAttentionTerms, lanes);
}

// ---- the gradient of queries -------------------------------------------------------------------

// Pushes the leaf at key `begin` for each query that sees it, and stores the queries whose last
// leaf it is. The tile's first query is `first`.
template <int kRows, int kBlocks>
__device__ __forceinline__ void EndKeyLeaf(const acan_args& a, const Group& group, acan_i64 first,
                                           const Sight<kRows, false>& sight, int begin,
                                           Level<kRows, kBlocks>* levels,
                                           Sums<kRows> (&sums)[kBlocks]) {
  const acan_attention_call& call = group.call;
  const int leaf = begin / kLeaf;
  const int ending = EndingLevels(leaf);
  int visible[kRows];
  bool any_is_last = false;
  bool any_goes_on = false;
  ACAN_UNROLL for (int i = 0; i < kRows; ++i) {
    const acan_i64 query = first + RowOf<kRows>(i);
    const auto all = static_cast<int>(acan_attention_visible(&call, group.keys, query));
    visible[i] = RowOf<kRows>(i) < sight.rows ? all - begin : -1;
    any_is_last = any_is_last || (visible[i] > 0 && visible[i] <= kLeaf);
    any_goes_on = any_goes_on || visible[i] > kLeaf;
  }
  AddToZero<kRows, kBlocks>(sums);
  int level = 0;
  for (int pending = leaf; pending != 0 && (any_is_last || level < ending);
       pending >>= 1, ++level) {
    if ((pending & 1) == 0) continue;
    JoinLevel<kRows, kBlocks>(
        levels[level],
        [&](int i, float left, float sum) {
          return visible[i] <= kLeaf || level < ending ? left + sum : sum;
        },
        sums);
  }
  ACAN_UNROLL for (int i = 0; i < kRows; ++i) {
    if (visible[i] <= 0 || visible[i] > kLeaf) continue;
    StoreColumns<kRows, kBlocks>(a.m[0], group.at.sequence * call.queries + first + RowOf<kRows>(i),
                                 group.at.q_col, static_cast<int>(call.width), sums, i, 1.0f);
  }
  if (any_goes_on) KeepLevel<kRows, kBlocks>(sums, levels[ending]);
}

// Queries that see no key have a gradient of 0.
template <int kRows, int kBlocks>
__device__ __forceinline__ void StoreBlindQueries(const acan_args& a, const Group& group,
                                                  acan_i64 first, int rows) {
  Sums<kRows> sums[kBlocks];
  ACAN_UNROLL for (int b = 0; b < kBlocks; ++b) Clear<kRows>(sums[b]);
  ACAN_UNROLL for (int i = 0; i < kRows; ++i) {
    const acan_i64 query = first + RowOf<kRows>(i);
    if (RowOf<kRows>(i) >= rows || acan_attention_visible(&group.call, group.keys, query) != 0) {
      continue;
    }
    StoreColumns<kRows, kBlocks>(a.m[0], group.at.sequence * group.call.queries + query,
                                 group.at.q_col, static_cast<int>(group.call.width), sums, i, 1.0f);
  }
}

// Computes dq of a tile of queries of a head.
template <int kRows, int kBlocks>
__device__ __forceinline__ void QueryTile(const acan_args& a, const Group& group, acan_i64 first,
                                          GradientMemory<kRows, kBlocks>& m) {
  const acan_attention_call& call = group.call;
  const Rows q = QueryRows(a, 3, group, first);
  const Rows d_o = QueryRows(a, 9, group, first);
  const Rows all_k = KeyRows(a, 4, group, 0);
  const Rows all_v = KeyRows(a, 5, group, 0);
  const int rows = Least(kTileRows<kRows>, q.count);
  const auto most_visible =
      static_cast<int>(acan_attention_visible(&call, group.keys, first + rows - 1));
  if (most_visible > 0) {
    m.shared.BringPair(q, all_k, 0);
    BringTerms<kTileRows<kRows>>(a, group, first, m);
  }
  // The stored gradients overwrite the terms, so these must have arrived.
  __pipeline_commit();
  __pipeline_wait_prior(0);
  ACAN_BARRIER();
  StoreBlindQueries<kRows, kBlocks>(a, group, first, rows);
  Level<kRows, kBlocks> levels[kLevels<kRows>];
  ACAN_NO_UNROLL for (int begin = 0; begin < most_visible; begin += kLeaf) {
    const Sight<kRows, false> sight{
        rows, Least(kLeaf, group.keys - begin),
        static_cast<int>(call.first_query + first + 1 - call.first_key) - begin, call.causal != 0};
    const bool any = sight.HasAny();
    const Rows k = From(all_k, begin);
    const Rows v = From(all_v, begin);
    Sums<kRows> products;
    Products(
        m.shared, q, k, any, [&] { m.shared.BringPair(d_o, v, 0); }, products);
    // Hidden keys are included, though nothing adds them: a branch for each pair would take longer.
    if (any) {
      FindWeights<true>(a, m, products);
      ShowPairs<kRows>(products, m.shared.pairs);
      if (a.f[1] > 0.0f) {
        DrawWeights<true, kRows>(a, group, first, begin, m.shared.pairs, nullptr);
      }
    }
    Products(
        m.shared, d_o, v, any, [&] { m.shared.BringLeaf(k, 0); }, products);
    if (any) {
      FindSlopes<true>(a, m, m.shared.pairs, products);
      ShowPairs<kRows>(products, m.shared.pairs);
    }
    Sums<kRows> sums[kBlocks];
    AddLeaf(
        m.shared, k, sight,
        [&] {
          if (begin + kLeaf < most_visible) {
            m.shared.BringPair(q, From(all_k, begin + kLeaf), 0);
          }
        },
        sums);
    if (any) EndKeyLeaf<kRows, kBlocks>(a, group, first, sight, begin, levels, sums);
  }
}

template <int kRows, int kBlocks>
__global__ void __launch_bounds__(kAttentionThreads, AttentionBlocks(kRows))
    AttentionQueryGradientKernel(const __grid_constant__ AttentionLaunch l) {
  ACAN_DYNAMIC_SHARED(memory);
  constexpr int kTile = kTileRows<kRows>;
  const acan_i64 shared = l.args.i[4];
  const acan_i64 tiles = (l.args.i[1] + kTile - 1) / kTile;
  const BlockPlace place = PlaceOfBlock(l.rows * shared);
  GradientMemory<kRows, kBlocks> m(memory);
  Group group = FindGroup(l.args, place.r / shared);
  TakeHead(group, place.r % shared);
  // Later queries see more keys, so their tiles come first.
  const acan_i64 number = tiles - 1 - place.order;
  QueryTile(l.args, group, number * kTile, m);
}

// ---- the gradients of keys and values ----------------------------------------------------------

// Sums of keys over leaves of queries.
template <int kRows, int kBlocks>
struct KeySums {
  Level<kRows, kBlocks> levels[kLevels<kRows>];
  Level<kRows, kBlocks> heads;  // the leaf's sum over the heads so far
};

// The way of a tile of keys through leaves of queries, each with all heads that share the keys.
struct KeyWalk {
  acan_i64 first;  // the tile's first key
  int least;       // the first leaf with a query that sees any of the keys
  int leaves;
  int h;
  int leaf;

  __device__ __forceinline__ bool IsLast() const { return leaf + 1 == leaves; }
};

// As acan_attention_push, for a leaf of which head walk.h, of those that share the keys, has
// `sums`. After the last leaf, `sums` is the whole sum. All leaves before leaf walk.least are 0,
// which changes nothing, because no sum is -0.
template <int kRows, int kBlocks>
__device__ __forceinline__ void PushLeaf(KeySums<kRows, kBlocks>& of, const KeyWalk& walk,
                                         acan_i64 shared, Sums<kRows> (&sums)[kBlocks]) {
  const auto add = [](int, float left, float sum) { return left + sum; };
  if (walk.h == 0) {
    AddToZero<kRows, kBlocks>(sums);
  } else {
    JoinLevel<kRows, kBlocks>(of.heads, add, sums);
  }
  if (walk.h + 1 < shared) {
    KeepLevel<kRows, kBlocks>(sums, of.heads);
    return;
  }
  int level = 0;
  for (int pending = walk.leaf; pending != 0 && (walk.IsLast() || (pending & 1) != 0);
       pending >>= 1, ++level) {
    // All leaves of the node are before walk.least, so it is 0.
    if ((pending & 1) == 0 || walk.leaf >> level << level <= walk.least) continue;
    JoinLevel<kRows, kBlocks>(of.levels[level], add, sums);
  }
  if (!walk.IsLast()) KeepLevel<kRows, kBlocks>(sums, of.levels[level]);
}

template <int kRows, int kBlocks>
__device__ __forceinline__ void StoreKeys(const acan_args& a, int m, const Group& group,
                                          acan_i64 first, const Sums<kRows> (&sums)[kBlocks]) {
  ACAN_UNROLL for (int i = 0; i < kRows; ++i) {
    const acan_i64 key = first + RowOf<kRows>(i);
    if (key >= group.call.keys) continue;
    StoreColumns<kRows, kBlocks>(a.m[m], group.at.key_row + key, group.at.k_col,
                                 static_cast<int>(group.call.width), sums, i, 1.0f);
  }
}

// Adds the contribution of one head's leaf of queries. The copies of its first part and its terms
// have begun; `then` begins those of what follows.
template <int kRows, int kBlocks, typename Then>
__device__ __forceinline__ void AddQueryLeaf(const acan_args& a, const Group& group,
                                             const KeyWalk& walk, const Then& then,
                                             GradientMemory<kRows, kBlocks>& m,
                                             KeySums<kRows, kBlocks>& dk,
                                             KeySums<kRows, kBlocks>& dv) {
  const acan_attention_call& call = group.call;
  const int begin = walk.leaf * kLeaf;
  const Rows k = KeyRows(a, 4, group, walk.first);
  const Rows v = KeyRows(a, 5, group, walk.first);
  const Rows q = QueryRows(a, 3, group, begin);
  const Rows d_o = QueryRows(a, 9, group, begin);
  const Sight<kRows, true> sight{
      Least(kTileRows<kRows>, group.keys - static_cast<int>(walk.first)), Least(kLeaf, q.count),
      static_cast<int>(walk.first + call.first_key - call.first_query) - begin, call.causal != 0};
  const bool any = sight.HasAny();
  const bool ends = walk.IsLast() && walk.h + 1 == call.shared;
  float* const weights = a.f[1] > 0.0f ? m.weights : m.shared.pairs;
  Sums<kRows> products;
  Sums<kRows> sums[kBlocks];
  Products(
      m.shared, k, q, any, [&] { m.shared.BringLeaf(d_o, 0); }, products);
  if (any) {
    FindWeights<false>(a, m, products);
    ShowPairs<kRows>(products, weights);
    if (a.f[1] > 0.0f) {
      DrawWeights<false, kRows>(a, group, walk.first, begin, weights, m.shared.pairs);
    }
  }
  AddLeaf(
      m.shared, d_o, sight, [&] { m.shared.BringPair(v, d_o, 0); }, sums);
  PushLeaf<kRows, kBlocks>(dv, walk, call.shared, sums);
  if (ends) StoreKeys<kRows, kBlocks>(a, 2, group, walk.first, sums);
  Products(
      m.shared, v, d_o, any, [&] { m.shared.BringLeaf(q, 0); }, products);
  if (any) {
    FindSlopes<false>(a, m, weights, products);
    ShowPairs<kRows>(products, m.shared.pairs);
  }
  AddLeaf(m.shared, q, sight, then, sums);
  PushLeaf<kRows, kBlocks>(dk, walk, call.shared, sums);
  if (ends) StoreKeys<kRows, kBlocks>(a, 1, group, walk.first, sums);
}

// The first leaf with a query that sees key `first`; `leaves` if there is none.
__device__ __forceinline__ int LeastLeaf(const Group& group, acan_i64 first, int leaves) {
  const acan_attention_call& call = group.call;
  if (group.keys <= first) return leaves;
  const acan_i64 least = call.causal ? first + call.first_key - call.first_query : 0;
  if (least >= call.queries) return leaves;
  return least <= 0 ? 0 : static_cast<int>(least / kLeaf);
}

// Computes dk and dv of a tile of keys.
template <int kRows, int kBlocks>
__device__ __forceinline__ void KeyTile(const acan_args& a, Group& group, acan_i64 first,
                                        GradientMemory<kRows, kBlocks>& m) {
  const acan_attention_call& call = group.call;
  KeyWalk walk{first, 0, static_cast<int>((call.queries + kLeaf - 1) / kLeaf), 0, 0};
  walk.least = LeastLeaf(group, first, walk.leaves);
  TakeHead(group, 0);
  if (walk.least == walk.leaves) {
    Sums<kRows> zeros[kBlocks];
    ACAN_UNROLL for (int b = 0; b < kBlocks; ++b) Clear<kRows>(zeros[b]);
    StoreKeys<kRows, kBlocks>(a, 1, group, first, zeros);
    StoreKeys<kRows, kBlocks>(a, 2, group, first, zeros);
    return;
  }
  KeySums<kRows, kBlocks> dk;
  KeySums<kRows, kBlocks> dv;
  const auto bring = [&](int leaf) {
    m.shared.BringPair(KeyRows(a, 4, group, first), QueryRows(a, 3, group, leaf * kLeaf), 0);
    BringTerms<kLeaf>(a, group, leaf * kLeaf, m);
  };
  walk.leaf = walk.least;
  bring(walk.leaf);
  ACAN_NO_UNROLL while (walk.leaf < walk.leaves) {
    KeyWalk next = walk;
    if (++next.h == call.shared) {
      next.h = 0;
      ++next.leaf;
    }
    const Group mine = group;
    TakeHead(group, next.h);
    AddQueryLeaf(
        a, mine, walk,
        [&] {
          if (next.leaf != next.leaves) bring(next.leaf);
        },
        m, dk, dv);
    walk = next;
  }
}

// Tiles of keys. The first tiles are the longest.
template <int kRows, int kBlocks>
__global__ void __launch_bounds__(kAttentionThreads, AttentionBlocks(kRows))
    AttentionKeyGradientKernel(const __grid_constant__ AttentionLaunch l) {
  ACAN_DYNAMIC_SHARED(memory);
  constexpr int kTile = kTileRows<kRows>;
  const BlockPlace place = PlaceOfBlock(l.rows);
  GradientMemory<kRows, kBlocks> m(memory);
  Group group = FindGroup(l.args, place.r);
  KeyTile(l.args, group, static_cast<acan_i64>(place.order) * kTile, m);
}

template <int kRows, int kBlocks>
AttentionTileKernel KeyKernelOf(bool dropout) {
  using Memory = GradientMemory<kRows, kBlocks>;
  return {reinterpret_cast<const void*>(&AttentionKeyGradientKernel<kRows, kBlocks>),
          sizeof(float) * (dropout ? Memory::kWordsWithDropout : Memory::kWords)};
}

template <int kRows, int kBlocks>
AttentionTileKernel QueryKernelOf() {
  return {reinterpret_cast<const void*>(&AttentionQueryGradientKernel<kRows, kBlocks>),
          sizeof(float) * GradientMemory<kRows, kBlocks>::kWords};
}

template <int kBlocks>
AttentionTileKernel TermsKernelOf() {
  return {reinterpret_cast<const void*>(&AttentionTermsKernel<kBlocks>),
          sizeof(float) * kBlocks * kAttentionTerms * kLanes};
}

}  // namespace

AttentionTileKernel AttentionTerms(AttentionShape shape) {
  return shape == AttentionShape::kWide ? TermsKernelOf<2>() : TermsKernelOf<1>();
}

AttentionTileKernel AttentionKeyGradient(AttentionShape shape, bool dropout) {
  if (shape == AttentionShape::kTall) return KeyKernelOf<8, 1>(dropout);
  return shape == AttentionShape::kLow ? KeyKernelOf<4, 1>(dropout) : KeyKernelOf<4, 2>(dropout);
}

AttentionTileKernel AttentionQueryGradient(AttentionShape shape) {
  if (shape == AttentionShape::kTall) return QueryKernelOf<8, 1>();
  return shape == AttentionShape::kLow ? QueryKernelOf<4, 1>() : QueryKernelOf<4, 2>();
}

}  // namespace acan::cuda
