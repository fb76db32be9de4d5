// The vectorised backward pass of attention. Included once per instruction set, after
// attention/forward_inline.h.
//
// A sweep goes over leaves of 64 queries, the heads that share a key, and leaves of 64 keys. One
// square of weights serves dq, dk and dv together, with five products for each square. That needs
// room for the trees of dk and dv over all keys. If the scratch lacks that room, the sweep computes
// dq alone, and then dk and dv for as many keys at a time as fit: seven products, with the same
// bits.

// dk or dv of one leaf of keys: the sum over the current leaf of queries, and the tree's levels.
struct KeySums {
  float* leaf;
  float* levels;
};

struct Sweep {
  const acan_args& a;
  const acan_attention_call& call;
  int64_t sequence;
  int64_t group;
  int64_t keys;     // that exist in this sequence
  int64_t squares;  // that cover the width
  int64_t query_leaves;
  int64_t key_begin;  // leaves of keys
  int64_t key_end;
  bool of_queries;  // dq
  bool of_keys;     // dk and dv
  // Scratch; `matrix` is the number of floats in the squares of 64 rows.
  int64_t matrix;
  float* kept;  // for each leaf of keys: k, v and, if of_keys, two KeySums
  int64_t kept_floats;
  float* q_transposed;
  float* do_transposed;
  float* q;
  float* d_o;
  float* dq;
  float* dq_levels;
  float* s;  // scores, then weights after dropout
  float* g;  // gradients of the weights, then of the products q . k
  float* levels;
  LaneFloats shifted;
  LaneFloats inverse;
  LaneFloats term;
};

ACAN_INLINE int64_t KeptFloats(int64_t matrix, int64_t query_leaves, bool of_keys) {
  return matrix * (2 + (of_keys ? 2 * (1 + LevelsFor(query_leaves)) : 0));
}
// Without the kept leaves of keys. If nothing is summed over queries, one leaf is kept at a time.
ACAN_INLINE int64_t SweepFloats(int64_t matrix, int64_t key_leaves) {
  return matrix * (5 + LevelsFor(key_leaves)) + kSquare * (2 + LevelsFor(matrix / kSquare));
}

void CarveSweep(Sweep& w, float* scratch) {
  const auto take = [&](int64_t floats) {
    float* out = scratch;
    scratch += floats;
    return out;
  };
  w.matrix = w.squares * kSquare;
  w.q_transposed = take(w.matrix);
  w.do_transposed = take(w.matrix);
  w.q = take(w.matrix);
  w.d_o = take(w.matrix);
  w.dq = take(w.matrix);
  w.dq_levels = take(w.matrix * LevelsFor(Squares(w.call.keys)));
  w.s = take(kSquare);
  w.g = take(kSquare);
  w.levels = take(kSquare * LevelsFor(w.squares));
  w.kept = scratch;
  w.kept_floats = KeptFloats(w.matrix, w.query_leaves, w.of_keys);
}

ACAN_INLINE float* KeptOf(const Sweep& w, int64_t key_leaf) {
  return w.kept + (w.of_keys ? key_leaf - w.key_begin : 0) * w.kept_floats;
}
ACAN_INLINE KeySums SumsOf(const Sweep& w, int64_t key_leaf, int which) {
  float* dk = KeptOf(w, key_leaf) + 2 * w.matrix;
  float* at = dk + which * w.matrix * (1 + LevelsFor(w.query_leaves));
  return {at, at + w.matrix};
}
ACAN_INLINE int64_t KeysIn(const Sweep& w, int64_t key_leaf) {
  return Clamp(w.keys - key_leaf * kEdge, kEdge);
}
ACAN_INLINE int64_t QueriesIn(const Sweep& w, int64_t query_leaf) {
  return Clamp(w.call.queries - query_leaf * kEdge, kEdge);
}
// The position of the first query of one leaf minus that of the first key of the other.
ACAN_INLINE int64_t ShiftOf(const Sweep& w, int64_t query_leaf, int64_t key_leaf) {
  return w.call.first_query - w.call.first_key + (query_leaf - key_leaf) * kEdge;
}
// Whether any query of the first leaf sees a key of the second.
ACAN_INLINE bool Meet(const Sweep& w, int64_t query_leaf, int64_t key_leaf) {
  if (KeysIn(w, key_leaf) == 0) return false;
  return !w.call.causal || ShiftOf(w, query_leaf, key_leaf) + QueriesIn(w, query_leaf) > 0;
}

void PackKeys(const Sweep& w, int64_t key_leaf) {
  const HeadPlace at = PlaceOf(w.call, w.sequence, w.group * w.call.shared);
  const int64_t row = at.key_row + key_leaf * kEdge;
  float* to = KeptOf(w, key_leaf);
  PackSquares(At(w.a.m[4], row, at.k_col), w.a.m[4].stride, KeysIn(w, key_leaf), w.call.width, to);
  PackSquares(At(w.a.m[5], row, at.k_col), w.a.m[5].stride, KeysIn(w, key_leaf), w.call.width,
              to + w.matrix);
}

// acan_attention_row_term, with sixteen lanes at once.
float RowTerm(const float* x, const float* y, int64_t width) {
  float levels[ACAN_TREE_LEVELS];
  int64_t leaf = 0;
  for (int64_t begin = 0; begin < width; begin += kEdge, ++leaf) {
    const int64_t end = Clamp(width, begin + kEdge);
    constexpr int kVecs = 16 / Vec::kWidth;
    Vec sums[kVecs];
    ACAN_UNROLL for (int v = 0; v < kVecs; ++v) sums[v] = Vec::Zero();
    int64_t c = begin;
    for (; c + 16 <= end; c += 16) {
      ACAN_UNROLL for (int v = 0; v < kVecs; ++v) {
        const int64_t at = c + v * Vec::kWidth;
        Vec::Fma(sums[v], Vec::Load(x + at), Vec::Load(y + at));
      }
    }
    alignas(64) float lanes[16];
    ACAN_UNROLL for (int v = 0; v < kVecs; ++v) Vec::Store(lanes + v * Vec::kWidth, sums[v]);
    for (int64_t l = 0; c + l < end; ++l) lanes[l] = ACAN_FMA(x[c + l], y[c + l], lanes[l]);
    for (int64_t l = 0; l < 8; ++l) lanes[l] = lanes[l] + lanes[l + 8];
    for (int64_t l = 0; l < 4; ++l) lanes[l] = lanes[l] + lanes[l + 4];
    for (int64_t l = 0; l < 2; ++l) lanes[l] = lanes[l] + lanes[l + 2];
    acan_tree_push(levels, leaf, lanes[0] + lanes[1]);
  }
  return acan_tree_total(levels, leaf);
}

// Packs what a leaf of queries of one head needs for all keys.
void PackQueries(Sweep& w, const HeadPlace& at, int64_t query_leaf) {
  const int64_t row = at.query_row + query_leaf * kEdge;
  const int64_t queries = QueriesIn(w, query_leaf);
  const int64_t width = w.call.width;
  const acan_matrix& q = w.a.m[3];
  const acan_matrix& d_o = w.a.m[9];
  PackTransposed(At(q, row, at.q_col), q.stride, queries, width, w.q_transposed);
  PackTransposed(At(d_o, row, at.q_col), d_o.stride, queries, width, w.do_transposed);
  if (w.of_keys) {
    PackSquares(At(q, row, at.q_col), q.stride, queries, width, w.q);
    PackSquares(At(d_o, row, at.q_col), d_o.stride, queries, width, w.d_o);
  }
  for (int64_t i = 0; i < kEdge; ++i) {
    const int64_t r = row + (i < queries ? i : 0);  // lanes without a query need valid values
    w.shifted.v[i] = acan_load(&w.a.m[7], r, 2 * at.head) + ACAN_ATTENTION_SHIFT;
    w.inverse.v[i] = 1.0f / acan_load(&w.a.m[7], r, 2 * at.head + 1);
    w.term.v[i] =
        i < queries ? RowTerm(At(w.a.m[8], r, at.q_col), At(d_o, r, at.q_col), width) : 0.0f;
  }
}

// Turns products q . k into weights, and gradients of weights into gradients of the products.
// Prefetches the first `keys` rows of `ahead`.
void SlopeLanes(const Sweep& w, int64_t keys, const RowsAhead& ahead) {
  float* __restrict s = w.s;
  float* __restrict g = w.g;
  const float scale = w.a.f[0];
  const LaneFloats shifted = w.shifted, inverse = w.inverse, term = w.term;
  for (int64_t j = 0; j < keys; ++j, s += kEdge, g += kEdge) {
    for (int64_t c = 0; j < ahead.rows && c < w.call.width; c += kLine) {
      __builtin_prefetch(ahead.first + j * ahead.stride + c, 0, 2);
    }
    ACAN_INDEPENDENT
    for (int64_t i = 0; i < kEdge; ++i) {
      const float score = acan_attention_score(s[i], scale);
      const float weight = acan_attention_weight(score, shifted.v[i]) * inverse.v[i];
      s[i] = weight;
      g[i] = acan_attention_slope(weight, g[i], term.v[i], scale);
    }
  }
}

// The rows of a leaf of queries, with all columns of the head.
RowsAhead QueryRows(const Sweep& w, const HeadPlace& at, const acan_matrix& m, int64_t query_leaf) {
  return {At(m, at.query_row + query_leaf * kEdge, at.q_col), m.stride, QueriesIn(w, query_leaf)};
}

// What each of the three products of a square prefetches: the next leaf's q, dO and o, or at the
// end the rows that dk and dv are written to.
RowsAhead AheadOf(const Sweep& w, const HeadPlace& at, int64_t query_leaf, int64_t key_leaf,
                  int product) {
  constexpr int kOperands[] = {3, 9, 8};
  if (query_leaf + 1 < w.query_leaves) {
    if (key_leaf != w.key_begin) return {};
    return QueryRows(w, at, w.a.m[kOperands[product]], query_leaf + 1);
  }
  if (!w.of_keys || product == 2) return {};
  const acan_matrix& m = w.a.m[1 + product];
  return {At(m, at.key_row + key_leaf * kEdge, at.k_col), m.stride, KeysIn(w, key_leaf)};
}

// Computes the square of a leaf of queries and a leaf of keys: weights in s, gradients of products
// in g. After the `last` square of a leaf of queries, dq is stored.
void ComputeSquare(const Sweep& w, const HeadPlace& at, int64_t query_leaf, int64_t key_leaf,
                   bool last) {
  const int64_t keys = KeysIn(w, key_leaf);
  const int64_t queries = QueriesIn(w, query_leaf);
  const int64_t shift = ShiftOf(w, query_leaf, key_leaf);
  const int64_t key0 = key_leaf * kEdge, query0 = query_leaf * kEdge;
  const bool hidden = w.call.causal != 0;
  const float* k = KeptOf(w, key_leaf);
  MultiplySquares(k, w.q_transposed, w.call.width, keys, hidden, shift, w.levels, w.s);
  MultiplySquares(k + w.matrix, w.do_transposed, w.call.width, keys, hidden, shift, w.levels, w.g);
  DropSquare(w.a, w.call, at, key0, keys, query0, queries, w.g);
  const bool stores = last && w.of_queries;
  SlopeLanes(w, keys, stores ? QueryRows(w, at, w.a.m[0], query_leaf) : RowsAhead{});
  if (w.of_keys) DropSquare(w.a, w.call, at, key0, keys, query0, queries, w.s);
}

// Joins a leaf with the levels that end here; the last leaf with all levels. Leaves out nodes that
// do not exist, which are those before leaf `first`. Otherwise stores the leaf in its level.
void PushMatrix(float* sums, float* levels, int64_t matrix, int64_t rows, int64_t leaf, bool last,
                int64_t first) {
  int level = 0;
  int64_t pending = leaf;
  for (; pending != 0 && (last || (pending & 1) != 0); pending >>= 1, ++level) {
    if ((pending & 1) == 0 || pending << level <= first) continue;
    for (int64_t x = 0; x < matrix; x += kSquare) {
      AddLeftSquare(levels + level * matrix + x, rows, sums + x);
    }
  }
  if (last) return;
  for (int64_t x = 0; x < matrix; x += kSquare) {
    Copy(levels + level * matrix + x, sums + x, rows * kEdge);
  }
}

void AddToQueries(const Sweep& w, const HeadPlace& at, int64_t query_leaf, int64_t key_leaf,
                  bool last) {
  const int64_t queries = QueriesIn(w, query_leaf);
  const RowsAhead ahead = AheadOf(w, at, query_leaf, key_leaf, 0);
  for (int64_t x = 0; x < w.squares; ++x) {
    Multiply<1>({w.g, KeptOf(w, key_leaf) + x * kSquare, w.dq + x * kSquare, true, nullptr, queries,
                 SquareCols(w.call.width, x), KeysIn(w, key_leaf),
                 w.call.causal ? Steps::kUpToRow : Steps::kAll, ShiftOf(w, query_leaf, key_leaf),
                 SquareOf(ahead, x)});
  }
  PushMatrix(w.dq, w.dq_levels, w.matrix, queries, key_leaf, last, 0);
  if (!last) return;
  UnpackSquares(w.dq, queries, w.call.width,
                At(w.a.m[0], at.query_row + query_leaf * kEdge, at.q_col), w.a.m[0].stride);
}

void AddToKeys(const Sweep& w, const HeadPlace& at, int64_t query_leaf, int64_t key_leaf,
               bool first_head) {
  for (int which = 0; which < 2; ++which) {
    const RowsAhead ahead = AheadOf(w, at, query_leaf, key_leaf, 1 + which);
    float* sums = SumsOf(w, key_leaf, which).leaf;
    const float* square = which == 0 ? w.g : w.s;
    const float* with = which == 0 ? w.q : w.d_o;
    for (int64_t x = 0; x < w.squares; ++x) {
      float* to = sums + x * kSquare;
      Multiply<kEdge>({square, with + x * kSquare, to, true, first_head ? nullptr : to,
                       KeysIn(w, key_leaf), SquareCols(w.call.width, x), QueriesIn(w, query_leaf),
                       w.call.causal ? Steps::kFromRow : Steps::kAll,
                       ShiftOf(w, query_leaf, key_leaf), SquareOf(ahead, x)});
    }
  }
}

void ZeroQueries(const Sweep& w, const HeadPlace& at, int64_t query_leaf) {
  for (int64_t i = 0; i < QueriesIn(w, query_leaf); ++i) {
    float* row = At(w.a.m[0], at.query_row + query_leaf * kEdge + i, at.q_col);
    for (int64_t c = 0; c < w.call.width; ++c) row[c] = 0.0f;
  }
}

void SweepHead(Sweep& w, int64_t query_leaf, int64_t shared) {
  const HeadPlace at = PlaceOf(w.call, w.sequence, w.group * w.call.shared + shared);
  int64_t end = w.key_end;  // the leaves that meet come first
  while (end > w.key_begin && !Meet(w, query_leaf, end - 1)) --end;
  if (end == w.key_begin) {
    if (w.of_queries) ZeroQueries(w, at, query_leaf);
    return;
  }
  PackQueries(w, at, query_leaf);
  for (int64_t key_leaf = w.key_begin; key_leaf < end; ++key_leaf) {
    if (!w.of_keys) PackKeys(w, key_leaf);
    const bool last = key_leaf == end - 1;
    ComputeSquare(w, at, query_leaf, key_leaf, last);
    if (w.of_queries) AddToQueries(w, at, query_leaf, key_leaf, last);
    if (w.of_keys) AddToKeys(w, at, query_leaf, key_leaf, shared == 0);
  }
}

// The sums of a leaf of queries, over its heads, are complete and go into the trees of the keys.
void PushKeys(const Sweep& w, int64_t query_leaf) {
  const bool last = query_leaf == w.query_leaves - 1;
  for (int64_t key_leaf = w.key_begin; key_leaf < w.key_end; ++key_leaf) {
    if (!Meet(w, query_leaf, key_leaf)) continue;
    int64_t first = 0;
    while (!Meet(w, first, key_leaf)) ++first;
    for (int which = 0; which < 2; ++which) {
      const KeySums sums = SumsOf(w, key_leaf, which);
      PushMatrix(sums.leaf, sums.levels, w.matrix, KeysIn(w, key_leaf), query_leaf, last, first);
    }
  }
}

void StoreKeys(const Sweep& w, int64_t key_leaf) {
  const HeadPlace at = PlaceOf(w.call, w.sequence, w.group * w.call.shared);
  const int64_t rows = Clamp(w.call.keys - key_leaf * kEdge, kEdge);
  const int64_t summed = Meet(w, w.query_leaves - 1, key_leaf) ? KeysIn(w, key_leaf) : 0;
  for (int which = 0; which < 2; ++which) {
    const acan_matrix& m = w.a.m[1 + which];
    float* to = At(m, at.key_row + key_leaf * kEdge, at.k_col);
    UnpackSquares(SumsOf(w, key_leaf, which).leaf, summed, w.call.width, to, m.stride);
    for (int64_t j = summed; j < rows; ++j) {
      for (int64_t c = 0; c < w.call.width; ++c) to[j * m.stride + c] = 0.0f;
    }
  }
}

void RunSweep(Sweep& w, int64_t query_begin, int64_t query_end) {
  if (w.of_keys) {
    for (int64_t j = w.key_begin; j < w.key_end; ++j) PackKeys(w, j);
  }
  for (int64_t i = query_begin; i < query_end; ++i) {
    for (int64_t h = 0; h < w.call.shared; ++h) SweepHead(w, i, h);
    if (w.of_keys) PushKeys(w, i);
  }
  if (!w.of_keys) return;
  for (int64_t j = w.key_begin; j < w.key_end; ++j) StoreKeys(w, j);
}

// Computes one sequence and key-value head: dq of its leaves of queries, dk and dv of its leaves of
// keys.
void RunGradientRow(Sweep& w, const Region& region, float* scratch, int64_t floats) {
  const int64_t key_leaves = Squares(w.call.keys);
  const int64_t query_begin = Clamp(region.col_begin, w.query_leaves);
  const int64_t query_end = Clamp(region.col_end, w.query_leaves);
  const int64_t key_begin = Clamp(region.col_begin - w.query_leaves, key_leaves);
  const int64_t key_end = Clamp(region.col_end - w.query_leaves, key_leaves);
  const int64_t matrix = w.squares * kSquare;
  const int64_t room = (floats - SweepFloats(matrix, key_leaves)) /
                       KeptFloats(matrix, w.query_leaves, true);  // leaves of keys that fit
  const bool together = query_end - query_begin == w.query_leaves &&
                        key_end - key_begin == key_leaves && room >= key_leaves;
  if (query_begin < query_end) {
    w.key_begin = 0;
    w.key_end = key_leaves;
    w.of_queries = true;
    w.of_keys = together;
    CarveSweep(w, scratch);
    RunSweep(w, query_begin, query_end);
  }
  w.of_queries = false;
  w.of_keys = true;
  for (int64_t j = key_begin; j < key_end && !together; j += room) {
    w.key_begin = j;
    w.key_end = Clamp(key_end, j + room);
    CarveSweep(w, scratch);
    RunSweep(w, 0, w.query_leaves);
  }
}

// Returns false, having done nothing, if the scratch is too small.
bool RunAttentionGradient(const acan_args& a, const Region& region, float* scratch,
                          int64_t floats) {
  const acan_attention_call call = acan_attention_call_of(&a, &a.m[3]);
  const int64_t matrix = Squares(call.width) * kSquare;
  const int64_t query_leaves = Squares(call.queries);
  if (floats < SweepFloats(matrix, Squares(call.keys)) + KeptFloats(matrix, query_leaves, true)) {
    return false;
  }
  const int64_t groups = call.heads / call.shared;
  for (int64_t r = region.row_begin; r < region.row_end; ++r) {
    Sweep sweep{a,
                call,
                r / groups,
                r % groups,
                acan_attention_keys(&call, &a.m[6], r / groups),
                Squares(call.width),
                query_leaves,
                0,
                0,
                false,
                false,
                0,
                nullptr,
                0,
                nullptr,
                nullptr,
                nullptr,
                nullptr,
                nullptr,
                nullptr,
                nullptr,
                nullptr,
                nullptr,
                {},
                {},
                {}};
    RunGradientRow(sweep, region, scratch, floats);
  }
  return true;
}
