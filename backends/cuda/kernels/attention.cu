// Exact attention, forward: attention_tile.cuh says how.
#include "attention_tile.cuh"

namespace acan::cuda {
namespace {

// What a block keeps in shared memory.
template <int kBlocks>
struct ForwardMemory {
  Rows q, k, v;
  float* pairs;    // scores' weights: [query, key]
  float* largest;  // [query, thread across]

  __device__ __forceinline__ ForwardMemory(float* memory, int width) {
    const int pitch = width + 4;
    q = {memory, pitch};
    k = {q.words + kLeaf * pitch, pitch};
    v = {k.words + kLeaf * pitch, pitch};
    pairs = v.words + kLeaf * pitch;
    largest = pairs + kLeaf * kPairPitch;
  }
  static constexpr int Words(int width) {
    return 3 * kLeaf * (width + 4) + kLeaf * kPairPitch + kLeaf * kSide;
  }
};

// The triples of the thread's queries, of its columns.
template <int kBlocks>
struct Nodes {
  float k[kEach];
  float sum[kEach];
  Sums<kBlocks> o;
};

template <int kBlocks>
__device__ __forceinline__ void JoinQuery(const Nodes<kBlocks>& left, int i, Nodes<kBlocks>& node) {
  const acan_attention_factors f = acan_attention_factors_of(left.k[i], node.k[i]);
  node.k[i] = f.largest;
  node.sum[i] = acan_attention_join(&f, left.sum[i], node.sum[i]);
  ACAN_UNROLL for (int c = 0; c < kBlocks * 4; ++c) {
    node.o.v[i][c] = acan_attention_join(&f, left.o.v[i][c], node.o.v[i][c]);
  }
}

template <int kBlocks>
__device__ __forceinline__ void KeepQuery(const Nodes<kBlocks>& node, int i,
                                          Nodes<kBlocks>& level) {
  level.k[i] = node.k[i];
  level.sum[i] = node.sum[i];
  ACAN_UNROLL for (int c = 0; c < kBlocks * 4; ++c) level.o.v[i][c] = node.o.v[i][c];
}

// What all leaves of the block's tile share.
struct Tile {
  acan_attention_call call;
  acan_attention_place at;  // of the thread's first query
  acan_i64 visible[kEach];  // keys of its queries; -1: there is no such query
  acan_i64 most_visible;    // of the tile
};

// The weights of the leaf at key `begin` into m.pairs, and K and the sum of each query.
template <int kBlocks>
__device__ __forceinline__ void WeighLeaf(const acan_args& a, const Tile& tile, acan_i64 begin,
                                          const Seen& seen, const ForwardMemory<kBlocks>& m,
                                          Nodes<kBlocks>& node) {
  const int width = static_cast<int>(tile.call.width);
  float s[kEach][kEach];
  Products<kBlocks>(m.q, m.k, width, s);
  ACAN_UNROLL for (int i = 0; i < kEach; ++i) {
    float largest = -ACAN_ATTENTION_BOUND;
    ACAN_UNROLL for (int j = 0; j < kEach; ++j) {
      s[i][j] = acan_attention_score(s[i][j], a.f[0]);
      if (seen.Has(i, Across() + j * kSide) && s[i][j] > largest) largest = s[i][j];
    }
    m.largest[(Down() * kEach + i) * kSide + Across()] = largest;
  }
  ACAN_BARRIER();
  ACAN_UNROLL for (int i = 0; i < kEach; ++i) {
    float largest = -ACAN_ATTENTION_BOUND;
    for (int j = 0; j < kSide; ++j) {
      const float other = m.largest[(Down() * kEach + i) * kSide + j];
      largest = other > largest ? other : largest;
    }
    const float shifted = acan_attention_shifted(largest);
    node.k[i] = shifted - ACAN_ATTENTION_SHIFT;
    ACAN_UNROLL for (int j = 0; j < kEach; ++j) {
      const int key = Across() + j * kSide;
      s[i][j] = seen.Has(i, key) ? acan_attention_weight(s[i][j], shifted) : 0.0f;
      m.pairs[(Down() * kEach + i) * kPairPitch + key] = s[i][j];
    }
  }
  ACAN_BARRIER();
  // Hidden keys have weight 0, which changes no sum of weights.
  ACAN_UNROLL for (int i = 0; i < kEach; ++i) node.sum[i] = 0.0f;
  ACAN_NO_UNROLL for (int j = 0; j < kLeaf; j += 4) {
    ACAN_UNROLL for (int i = 0; i < kEach; ++i) {
      const float4 quad = QuadAt(m.pairs + (Down() * kEach + i) * kPairPitch + j);
      node.sum[i] = node.sum[i] + quad.x;
      node.sum[i] = node.sum[i] + quad.y;
      node.sum[i] = node.sum[i] + quad.z;
      node.sum[i] = node.sum[i] + quad.w;
    }
  }
  if (!(a.f[1] > 0.0f)) return;
  ACAN_BARRIER();
  ACAN_NO_UNROLL for (int i = 0; i < kEach * kEach; ++i) {
    const int mine = i / kEach;
    const int key = Across() + i % kEach * kSide;
    float* const weight = m.pairs + (Down() * kEach + mine) * kPairPitch + key;
    *weight = acan_attention_drop(&a, &tile.call, tile.at.sequence, tile.at.query + mine,
                                  tile.at.head, begin + key, *weight);
  }
  ACAN_BARRIER();
}

template <int kBlocks>
__device__ __forceinline__ void StoreQuery(const acan_args& a, const Tile& tile, int i,
                                           const Nodes<kBlocks>& node) {
  const acan_i64 row = tile.at.row + i;
  const float inverse = a.i[13] ? ACAN_DIV(1.0f, node.sum[i]) : 1.0f;
  StoreColumns<kBlocks>(a.m[0], row, tile.at.q_col, static_cast<int>(tile.call.width), node.o.v[i],
                        inverse);
  if (Across() != 0) return;
  acan_store(&a.m[1], row, 2 * tile.at.head, node.k[i]);
  acan_store(&a.m[1], row, 2 * tile.at.head + 1, node.sum[i]);
}

// Joins the leaf at key `begin` with the open nodes of each query that sees it, and stores those
// whose last one it is.
template <int kBlocks>
__device__ __forceinline__ void EndLeaf(const acan_args& a, const Tile& tile, acan_i64 begin,
                                        Nodes<kBlocks>* levels, Nodes<kBlocks>& node) {
  const acan_i64 leaf = begin / kLeaf;
  const int ending = EndingLevels(leaf);
  bool is_last[kEach];
  bool any_is_last = false;
  ACAN_UNROLL for (int i = 0; i < kEach; ++i) {
    is_last[i] = tile.visible[i] > begin && tile.visible[i] <= begin + kLeaf;
    any_is_last = any_is_last || is_last[i];
  }
  int level = 0;
  for (acan_i64 pending = leaf; pending != 0 && (any_is_last || level < ending);
       pending >>= 1, ++level) {
    if ((pending & 1) == 0) continue;
    ACAN_UNROLL for (int i = 0; i < kEach; ++i) {
      if (tile.visible[i] > begin && (is_last[i] || level < ending)) {
        JoinQuery(levels[level], i, node);
      }
    }
  }
  ACAN_UNROLL for (int i = 0; i < kEach; ++i) {
    if (is_last[i]) StoreQuery(a, tile, i, node);
    if (tile.visible[i] > begin + kLeaf) KeepQuery(node, i, levels[ending]);
  }
}

__device__ __forceinline__ Tile FindTile(const acan_args& a, acan_i64 r, acan_i64 number) {
  Tile tile;
  tile.call = acan_attention_call_of(&a, &a.m[2]);
  const acan_attention_call& call = tile.call;
  acan_attention_place& at = tile.at;
  at.sequence = r / call.heads;
  at.head = r % call.heads;
  at.query = number * kLeaf + Down() * kEach;
  at.row = at.sequence * call.queries + at.query;
  at.key_row = at.sequence * call.keys;
  at.q_col = at.head * call.width;
  at.k_col = at.head / call.shared * call.width;
  const acan_i64 keys = acan_attention_keys(&call, &a.m[5], at.sequence);
  ACAN_UNROLL for (int i = 0; i < kEach; ++i) {
    tile.visible[i] =
        at.query + i < call.queries ? acan_attention_visible(&call, keys, at.query + i) : -1;
  }
  const acan_i64 last = acan_attention_least(call.queries, (number + 1) * kLeaf) - 1;
  tile.most_visible = acan_attention_visible(&call, keys, last);
  return tile;
}

template <int kBlocks>
__device__ __forceinline__ void ForwardTile(const acan_args& a, acan_i64 r, acan_i64 number,
                                            float* memory) {
  const Tile tile = FindTile(a, r, number);
  const acan_attention_call& call = tile.call;
  const int width = static_cast<int>(call.width);
  const ForwardMemory<kBlocks> m(memory, width);
  const acan_i64 first = number * kLeaf;
  BringRows<kBlocks>(a.m[2], tile.at.sequence * call.queries + first, call.queries - first,
                     tile.at.q_col, width, m.q);
  Nodes<kBlocks> levels[kLevels];
  Nodes<kBlocks> node;
  ACAN_UNROLL for (int i = 0; i < kEach; ++i) {
    node.k[i] = ACAN_ATTENTION_NO_KEYS;
    node.sum[i] = 0.0f;
  }
  node.o.Clear();
  ACAN_UNROLL for (int i = 0; i < kEach; ++i) {
    if (tile.visible[i] == 0) StoreQuery(a, tile, i, node);
  }
  ACAN_NO_UNROLL for (acan_i64 begin = 0; begin < tile.most_visible; begin += kLeaf) {
    const acan_i64 row = tile.at.key_row + begin;
    BringRows<kBlocks>(a.m[3], row, call.keys - begin, tile.at.k_col, width, m.k);
    BringRows<kBlocks>(a.m[4], row, call.keys - begin, tile.at.k_col, width, m.v);
    const Seen seen = KeysSeen(tile.visible, begin);
    ACAN_BARRIER();
    WeighLeaf(a, tile, begin, seen, m, node);
    AddLeaf(m.pairs, m.v, width, seen, node.o);
    EndLeaf(a, tile, begin, levels, node);
    ACAN_BARRIER();
  }
  ACAN_BARRIER();
}

template <int kBlocks>
__global__ void __launch_bounds__(kAttentionThreads)
    AttentionKernel(const __grid_constant__ AttentionLaunch l) {
  ACAN_DYNAMIC_SHARED(memory);
  for (acan_i64 r = blockIdx.y; r < l.rows; r += gridDim.y) {
    ForwardTile<kBlocks>(l.args, r, blockIdx.x, memory);
  }
}

}  // namespace

const void* AttentionTileKernel(int column_blocks) {
  return column_blocks == 1 ? reinterpret_cast<const void*>(&AttentionKernel<1>)
                            : reinterpret_cast<const void*>(&AttentionKernel<2>);
}

std::size_t AttentionTileBytes(int head_width) {
  return sizeof(float) * static_cast<std::size_t>(ForwardMemory<1>::Words(head_width));
}

}  // namespace acan::cuda
