// The vectorised forward pass of attention: tiles of 64 queries of one head, leaf by leaf of keys.
// Included once per instruction set, after attention/tile_inline.h.

// A float for each lane of a tile; lanes are queries. For a leaf: K + 1.5 * 2^23 while weights are
// computed, or the sum.
struct LaneFloats {
  alignas(64) float v[kEdge];
};
// How many keys of the leaf each lane sees; 0 or negative: none.
struct LaneLimits {
  alignas(64) int32_t v[kEdge];
};

// What waits in one level of the tree: a triple for each lane.
struct TripleLanes {
  LaneFloats k;
  LaneFloats sum;
};
constexpr int64_t kTripleFloats = sizeof(TripleLanes) / sizeof(float);

LaneLimits LimitsOf(int64_t keys, bool causal, int64_t shift) {
  LaneLimits limits;
  for (int64_t i = 0; i < kEdge; ++i) {
    limits.v[i] = (int32_t)(causal ? Clamp(i + shift + 1, keys) : keys);
  }
  return limits;
}

// Turns products into scores, and finds the largest of each lane.
template <bool kMasked>
void ScoreLanes(float* __restrict s, int64_t keys, float scale, const LaneLimits& limits,
                LaneFloats& out) {
  LaneFloats largest;
  for (int64_t i = 0; i < kEdge; ++i) largest.v[i] = -ACAN_ATTENTION_BOUND;
  for (int64_t j = 0; j < keys; ++j, s += kEdge) {
    ACAN_INDEPENDENT
    for (int64_t i = 0; i < kEdge; ++i) {
      const float x = acan_attention_score(s[i], scale);
      const float seen = !kMasked || (int32_t)j < limits.v[i] ? x : -ACAN_ATTENTION_BOUND;
      s[i] = x;
      largest.v[i] = seen > largest.v[i] ? seen : largest.v[i];
    }
  }
  out = largest;
}

// Turns scores into weights, and sums them.
template <bool kMasked>
void WeighLanes(float* __restrict s, int64_t keys, const LaneFloats& shifted,
                const LaneLimits& limits, LaneFloats& out) {
  LaneFloats sum;
  for (int64_t i = 0; i < kEdge; ++i) sum.v[i] = 0.0f;
  for (int64_t j = 0; j < keys; ++j, s += kEdge) {
    ACAN_INDEPENDENT
    for (int64_t i = 0; i < kEdge; ++i) {
      const float w = acan_attention_weight(s[i], shifted.v[i]);
      const float seen = !kMasked || (int32_t)j < limits.v[i] ? w : 0.0f;
      s[i] = seen;
      sum.v[i] = sum.v[i] + seen;
    }
  }
  out = sum;
}

// One head of one sequence.
struct HeadPlace {
  int64_t sequence;
  int64_t head;
  int64_t query_row;  // the sequence's first row in q
  int64_t key_row;    // the same in k and v
  int64_t q_col;
  int64_t k_col;
};

HeadPlace PlaceOf(const acan_attention_call& call, int64_t sequence, int64_t head) {
  return {sequence,
          head,
          sequence * call.queries,
          sequence * call.keys,
          head * call.width,
          head / call.shared * call.width};
}

ACAN_INLINE float* At(const acan_matrix& m, int64_t row, int64_t col) {
  return m.data + row * m.stride + col;
}

// Applies dropout, if there is any, to a square of keys and queries.
void DropSquare(const acan_args& a, const acan_attention_call& call, const HeadPlace& at,
                int64_t key0, int64_t keys, int64_t query0, int64_t queries, float* square) {
  if (!(a.f[1] > 0.0f)) return;
  for (int64_t j = 0; j < keys; ++j) {
    for (int64_t i = 0; i < queries; ++i) {
      float& x = square[j * kEdge + i];
      x = acan_attention_drop(&a, &call, at.sequence, query0 + i, at.head, key0 + j, x);
    }
  }
}

// Leaves of k and v as squares: those of all keys, packed once for all tiles and heads that read
// them, or only the current one.
struct KeptLeaves {
  float* squares;
  bool all;
  int64_t packed;  // the number of leaves packed, from the first on
};

// A tile of queries, its scratch, and the tree over leaves of keys.
struct ForwardTile {
  const acan_args& a;
  const acan_attention_call& call;
  const HeadPlace& at;
  int64_t query0;
  int64_t queries;  // of the tile
  int64_t squares;  // that cover the width
  KeptLeaves& kept;
  float* q;  // transposed
  float* s;
  float* score_levels;
  float* o;                             // of the current node
  float* slots[ACAN_ATTENTION_LEVELS];  // o of the levels; swapped with the current node's
  TripleLanes* levels;                  // of the levels
  TripleLanes node;
};

// Without the leaves that are kept.
ACAN_INLINE int64_t ForwardFloats(int64_t width, int64_t keys) {
  const int64_t squares = Squares(width);
  const int levels = LevelsFor(Squares(keys));
  return kSquare * (squares * (2 + levels) + 1 + LevelsFor(squares)) + kTripleFloats * levels;
}

void CarveForward(ForwardTile& t, int64_t keys, float* scratch) {
  const int64_t matrix = t.squares * kSquare;
  const auto take = [&](int64_t floats) {
    float* out = scratch;
    scratch += floats;
    return out;
  };
  t.q = take(matrix);
  t.o = take(matrix);
  t.s = take(kSquare);
  t.score_levels = take(kSquare * LevelsFor(t.squares));
  const int levels = LevelsFor(Squares(keys));
  for (int level = 0; level < levels; ++level) t.slots[level] = take(matrix);
  t.levels = reinterpret_cast<TripleLanes*>(take(kTripleFloats * levels));
}

// Returns k of the leaf at `begin`, followed by v.
const float* PackLeaf(ForwardTile& t, int64_t begin, int64_t count) {
  const int64_t leaf = begin / kEdge;
  const int64_t row = t.at.key_row + begin;
  float* to = t.kept.squares + (t.kept.all ? leaf * 2 * t.squares * kSquare : 0);
  if (leaf < t.kept.packed) return to;
  PackSquares(At(t.a.m[3], row, t.at.k_col), t.a.m[3].stride, count, t.call.width, to);
  PackSquares(At(t.a.m[4], row, t.at.k_col), t.a.m[4].stride, count, t.call.width,
              to + t.squares * kSquare);
  // A leaf of which this tile sees only a part is packed again for others.
  if (t.kept.all && count == Clamp(t.call.keys - begin, kEdge)) t.kept.packed = leaf + 1;
  return to;
}

// What the products with v prefetch: at the last leaf of keys the rows that the tile is written to,
// before that the next tile's q.
RowsAhead AheadOf(const ForwardTile& t, int64_t begin, bool last) {
  if (last) {
    const acan_matrix& o = t.a.m[0];
    return {At(o, t.at.query_row + t.query0, t.at.q_col), o.stride, t.queries};
  }
  if (begin != 0) return {};
  const acan_matrix& q = t.a.m[2];
  const int64_t next = t.query0 + kEdge;
  return {At(q, t.at.query_row + next, t.at.q_col), q.stride, Clamp(t.call.queries - next, kEdge)};
}

// Sets the current node to the triple of `count` keys from `begin` on.
void ForwardLeaf(ForwardTile& t, int64_t begin, int64_t count, bool last) {
  const acan_attention_call& call = t.call;
  const float* k = PackLeaf(t, begin, count);
  const float* v = k + t.squares * kSquare;
  const int64_t shift = call.first_query + t.query0 - call.first_key - begin;
  const bool masked = call.causal != 0 && shift + 1 < count;
  MultiplySquares(k, t.q, call.width, count, masked, shift, t.score_levels, t.s);
  const LaneLimits limits = LimitsOf(count, masked, shift);
  LaneFloats largest;
  (masked ? ScoreLanes<true> : ScoreLanes<false>)(t.s, count, t.a.f[0], limits, largest);
  for (int64_t i = 0; i < kEdge; ++i) largest.v[i] = acan_attention_shifted(largest.v[i]);
  (masked ? WeighLanes<true> : WeighLanes<false>)(t.s, count, largest, limits, t.node.sum);
  for (int64_t i = 0; i < kEdge; ++i) {
    t.node.k.v[i] = limits.v[i] > 0 ? largest.v[i] - ACAN_ATTENTION_SHIFT : ACAN_ATTENTION_NO_KEYS;
  }
  DropSquare(t.a, call, t.at, begin, count, t.query0, t.queries, t.s);
  const RowsAhead ahead = AheadOf(t, begin, last);
  for (int64_t x = 0; x < t.squares; ++x) {
    Multiply<1>({t.s, v + x * kSquare, t.o + x * kSquare, false, nullptr, t.queries,
                 SquareCols(call.width, x), count, masked ? Steps::kUpToRow : Steps::kAll, shift,
                 SquareOf(ahead, x)});
  }
}

// Joins the node of a level, which is the left one, with the current node.
void JoinLevel(ForwardTile& t, int level) {
  const TripleLanes& left = t.levels[level];
  for (int64_t i = 0; i < t.queries; ++i) {
    const acan_attention_factors f = acan_attention_factors_of(left.k.v[i], t.node.k.v[i]);
    t.node.k.v[i] = f.largest;
    t.node.sum.v[i] = acan_attention_join(&f, left.sum.v[i], t.node.sum.v[i]);
    if (f.pass == 2) continue;
    for (int64_t x = 0; x < t.squares; ++x) {
      const float* from = t.slots[level] + x * kSquare + i * kEdge;
      float* to = t.o + x * kSquare + i * kEdge;
      if (f.pass == 1) {
        __builtin_memcpy(to, from, kEdge * sizeof(float));
        continue;
      }
      for (int64_t c = 0; c < kEdge; ++c) to[c] = ACAN_FMA(from[c], f.left, to[c] * f.right);
    }
  }
}

void FinishTile(ForwardTile& t) {
  const bool finish = t.a.i[13] != 0;
  for (int64_t i = 0; i < t.queries; ++i) {
    const int64_t row = t.at.query_row + t.query0 + i;
    acan_store(&t.a.m[1], row, 2 * t.at.head, t.node.k.v[i]);
    acan_store(&t.a.m[1], row, 2 * t.at.head + 1, t.node.sum.v[i]);
    if (!finish) continue;
    const float inverse = 1.0f / t.node.sum.v[i];
    for (int64_t x = 0; x < t.squares; ++x) {
      float* o = t.o + x * kSquare + i * kEdge;
      for (int64_t c = 0; c < kEdge; ++c) o[c] = o[c] * inverse;
    }
  }
  UnpackSquares(t.o, t.queries, t.call.width, At(t.a.m[0], t.at.query_row + t.query0, t.at.q_col),
                t.a.m[0].stride);
}

void RunForwardTile(ForwardTile& t) {
  const acan_attention_call& call = t.call;
  PackTransposed(At(t.a.m[2], t.at.query_row + t.query0, t.at.q_col), t.a.m[2].stride, t.queries,
                 call.width, t.q);
  const int64_t keys = acan_attention_keys(&call, &t.a.m[5], t.at.sequence);
  const int64_t visible = acan_attention_visible(&call, keys, t.query0 + t.queries - 1);
  if (visible == 0) {
    for (int64_t i = 0; i < kEdge; ++i) {
      t.node.k.v[i] = ACAN_ATTENTION_NO_KEYS;
      t.node.sum.v[i] = 0.0f;
    }
    for (int64_t i = 0; i < t.squares * kSquare; ++i) t.o[i] = 0.0f;
  }
  int64_t leaf = 0;
  for (int64_t begin = 0; begin < visible; begin += kEdge, ++leaf) {
    const bool last = begin + kEdge >= visible;
    ForwardLeaf(t, begin, last ? visible - begin : kEdge, last);
    int level = 0;
    for (int64_t pending = leaf; pending != 0 && (last || (pending & 1) != 0);
         pending >>= 1, ++level) {
      if ((pending & 1) != 0) JoinLevel(t, level);
    }
    if (last) break;
    t.levels[level] = t.node;
    float* free = t.slots[level];
    t.slots[level] = t.o;
    t.o = free;
  }
  FinishTile(t);
}

// Returns false, having done nothing, if the scratch is too small.
bool RunAttention(const acan_args& a, const Region& region, float* scratch, int64_t floats) {
  const acan_attention_call call = acan_attention_call_of(&a, &a.m[2]);
  const int64_t leaf_floats = 2 * Squares(call.width) * kSquare;
  const int64_t left = floats - ForwardFloats(call.width, call.keys);
  if (left < leaf_floats) return false;
  KeptLeaves kept{scratch, left >= Squares(call.keys) * leaf_floats, 0};
  float* tile_scratch = scratch + (kept.all ? Squares(call.keys) : 1) * leaf_floats;
  int64_t kept_for = -1;
  for (int64_t r = region.row_begin; r < region.row_end; ++r) {
    const HeadPlace at = PlaceOf(call, r / call.heads, r % call.heads);
    if (r / call.shared != kept_for) kept.packed = 0;
    kept_for = r / call.shared;
    for (int64_t c = region.col_begin; c < region.col_end; ++c) {
      const int64_t query0 = c * kEdge;
      ForwardTile tile{a,
                       call,
                       at,
                       query0,
                       Clamp(call.queries - query0, kEdge),
                       Squares(call.width),
                       kept,
                       {},
                       {},
                       {},
                       {},
                       {},
                       {},
                       {}};
      CarveForward(tile, call.keys, tile_scratch);
      RunForwardTile(tile);
    }
  }
  return true;
}
