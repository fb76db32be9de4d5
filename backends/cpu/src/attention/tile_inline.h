// The parts of the vectorised driver of attention: squares of 64 x 64 floats and their products.
// Included once per instruction set, inside that unit's own anonymous namespace, after
// pack_inline.h. The kernels' single source (kernels/attention.h) defines what is computed.
//
// A matrix of up to 64 rows is a list of squares, one for each 64 columns, so that every stride is
// a constant. The scores and weights of a leaf are one square, with keys as rows and queries as
// columns:
//
//   s[key][query] = k[key][.] * q^T[.][query]          lanes are queries: the softmax needs no sums
//   o[query][.]   = w[key][query] * v[key][.]          across lanes
//   dk[key][.]    = ds[key][query] * q[query][.]

constexpr int64_t kEdge = ACAN_ATTENTION_LEAF;
constexpr int64_t kSquare = kEdge * kEdge;

#if defined(__AVX512F__)
constexpr int kSquareRows = 12;  // of a register tile
#elif defined(__AVX2__)
constexpr int kSquareRows = 6;
#else
constexpr int kSquareRows = 2;  // calls of fmaf keep no sums in registers
#endif
constexpr int kSquareVecs = 2;

// The steps of a product that a row takes: a query sees the keys up to its own, and a key is seen
// by the queries from its own on. `shift` is the first query's position minus the first key's.
enum class Steps : uint8_t { kAll, kUpToRow, kFromRow };

// Rows of a large matrix that a later step reads or writes, and which are not in a near cache.
struct RowsAhead {
  const float* first = nullptr;
  int64_t stride = 0;
  int64_t rows = 0;
};

// c[row][col] = chain over t of a(row, t) * b[t][col], added to base[row][col] if `add`.
struct SquareProduct {
  const float* a;
  const float* b;
  float* c;
  bool add;
  const float* base;  // null: 0
  int64_t rows;
  int64_t cols;
  int64_t steps;
  Steps which = Steps::kAll;
  int64_t shift = 0;
  RowsAhead ahead = {};  // meanwhile `cols` floats of each row are prefetched
};

ACAN_INLINE int64_t Clamp(int64_t value, int64_t most) {
  return value < 0 ? 0 : value < most ? value : most;
}

template <int kRows, int kVecs>
struct SquareSums {
  Vec v[kRows][kVecs];
};

// One step, for the rows from `begin` to before `end`.
template <int64_t kRowStride, int kRows, int kVecs>
ACAN_INLINE void SquareStep(SquareSums<kRows, kVecs>& acc, const float* a, const float* b,
                            int64_t begin, int64_t end) {
  Vec right[kVecs];
  ACAN_UNROLL for (int j = 0; j < kVecs; ++j) right[j] = Vec::Load(b + j * Vec::kWidth);
  ACAN_UNROLL for (int i = 0; i < kRows; ++i) {
    if (i < begin || i >= end) continue;
    const Vec left = Vec::Broadcast(a + i * kRowStride);
    ACAN_UNROLL for (int j = 0; j < kVecs; ++j) Vec::Fma(acc.v[i][j], left, right[j]);
  }
}

// a(row, t) = a[row * kRowStride + t * kStep]; one of the two strides is 1, the other kEdge.
template <int64_t kRowStride, int kRows, int kVecs>
void MultiplyPart(const SquareProduct& p, int64_t row, int64_t col) {
  constexpr int64_t kStep = kRowStride == 1 ? kEdge : 1;
  SquareSums<kRows, kVecs> acc;
  ACAN_UNROLL for (int i = 0; i < kRows; ++i) {
    ACAN_UNROLL for (int j = 0; j < kVecs; ++j) acc.v[i][j] = Vec::Zero();
  }
  const float* a = p.a + row * kRowStride;
  const float* b = p.b + col;
  int64_t t = 0, all = p.steps, end = p.steps;
  if (p.which == Steps::kUpToRow) {
    all = Clamp(row + p.shift + 1, p.steps);
    end = Clamp(row + p.shift + kRows, p.steps);
  } else if (p.which == Steps::kFromRow) {
    t = Clamp(row - p.shift, p.steps);
    for (const int64_t full = Clamp(row - p.shift + kRows - 1, p.steps); t < full; ++t) {
      SquareStep<kRowStride>(acc, a + t * kStep, b + t * kEdge, 0, t + p.shift - row + 1);
    }
  }
  for (; t < all; ++t) SquareStep<kRowStride>(acc, a + t * kStep, b + t * kEdge, 0, kRows);
  for (; t < end; ++t) {
    SquareStep<kRowStride>(acc, a + t * kStep, b + t * kEdge, t - p.shift - row, kRows);
  }
  ACAN_UNROLL for (int i = 0; i < kRows; ++i) {
    ACAN_UNROLL for (int j = 0; j < kVecs; ++j) {
      const int64_t at = (row + i) * kEdge + col + j * Vec::kWidth;
      const Vec base = p.base != nullptr ? Vec::Load(p.base + at) : Vec::Zero();
      Vec::Store(p.c + at, p.add ? Vec::Add(base, acc.v[i][j]) : acc.v[i][j]);
    }
  }
}

using PartFunction = void (*)(const SquareProduct&, int64_t, int64_t);
struct PartTable {
  PartFunction of[kSquareRows][kSquareVecs];
};
template <int64_t kRowStride, int kRow = 0>
constexpr void FillParts(PartTable& table) {
  if constexpr (kRow < kSquareRows) {
    table.of[kRow][0] = &MultiplyPart<kRowStride, kRow + 1, 1>;
    table.of[kRow][1] = &MultiplyPart<kRowStride, kRow + 1, 2>;
    FillParts<kRowStride, kRow + 1>(table);
  }
}
template <int64_t kRowStride>
constexpr PartTable kParts = [] {
  PartTable table{};
  FillParts<kRowStride>(table);
  return table;
}();

// Rows of the next part, with `left` rows to go. The last two parts are halves, since a part of few
// rows takes as long as a full one.
ACAN_INLINE int64_t PartRows(int64_t left) {
  if (left > kSquareRows && left < 2 * kSquareRows) return (left + 1) / 2;
  return left < kSquareRows ? left : kSquareRows;
}

// The part that belongs to `square`, of matrices of several squares.
ACAN_INLINE RowsAhead SquareOf(const RowsAhead& ahead, int64_t square) {
  if (ahead.rows == 0) return ahead;
  return {ahead.first + square * kEdge, ahead.stride, ahead.rows};
}

// Prefetches into L2 only, and few rows with each part. If all of these lines came from memory at
// once, they would delay the lines that the product reads into L1.
constexpr int64_t kRowsEachPart = 6;
ACAN_INLINE void FetchRows(const RowsAhead& ahead, int64_t begin, int64_t cols) {
  const int64_t end = Clamp(begin + kRowsEachPart, ahead.rows);
  for (int64_t r = begin; r < end; ++r) {
    const float* row = ahead.first + r * ahead.stride;
    for (int64_t c = 0; c < cols; c += kLine) __builtin_prefetch(row + c, 0, 2);
  }
}

// `hidden`: only elements whose query (the column) sees their key (the row) are needed.
template <int64_t kRowStride>
void Multiply(const SquareProduct& p, bool hidden = false) {
  int64_t fetched = 0;
  for (int64_t col = 0, cols = 0; col < p.cols; col += cols) {
    const int vecs = p.cols - col > Vec::kWidth ? 2 : 1;
    cols = vecs * Vec::kWidth;
    for (int64_t row = 0, rows = 0; row < p.rows; row += rows) {
      rows = PartRows(p.rows - row);
      if (hidden && col + cols - 1 + p.shift < row) break;
      FetchRows(p.ahead, fetched, p.cols);
      fetched += kRowsEachPart;
      kParts<kRowStride>.of[rows - 1][vecs - 1](p, row, col);
    }
  }
}

// Columns of square `square` of a matrix of `width` columns.
ACAN_INLINE int64_t SquareCols(int64_t width, int64_t square) {
  const int64_t left = width - square * kEdge;
  return left < kEdge ? left : kEdge;
}
ACAN_INLINE int64_t Squares(int64_t width) {
  return (width + kEdge - 1) / kEdge;
}

// Packs rows of a matrix [rows, width] as squares; columns beyond the last are zeros up to a line.
void PackSquares(const float* from, int64_t stride, int64_t rows, int64_t width, float* to) {
  for (int64_t s = 0; s < Squares(width); ++s, from += kEdge, to += kSquare) {
    const int64_t cols = SquareCols(width, s);
    for (int64_t r = 0; r < rows; ++r) {
      if (r + kRowsAhead < rows) PrefetchRow(from + (r + kRowsAhead) * stride, cols);
      Copy(to + r * kEdge, from + r * stride, cols);
      for (int64_t c = cols; c % kLine != 0; ++c) to[r * kEdge + c] = 0.0f;
    }
  }
}

// The same, transposed: to[col][row]; rows beyond the last are zeros.
void PackTransposed(const float* from, int64_t stride, int64_t rows, int64_t width, float* to) {
  for (int64_t s = 0; s < Squares(width); ++s, from += kEdge, to += kSquare) {
    const int64_t cols = SquareCols(width, s);
    for (int64_t r = 0; r < rows; ++r) PrefetchRow(from + r * stride, cols);
    Transpose(from, stride, to, kEdge, rows, cols);
    for (int64_t c = 0; c < cols; ++c) {
      for (int64_t r = rows; r < kEdge; ++r) to[c * kEdge + r] = 0.0f;
    }
  }
}

// Stores rows of floats that are `pitch` apart; NaNs become the one NaN.
void UnpackSquare(const float* from, int64_t pitch, int64_t rows, int64_t cols, float* to,
                  int64_t stride) {
  for (int64_t r = 0; r < rows; ++r) {
    int64_t c = 0;
    for (; c + Vec::kWidth <= cols; c += Vec::kWidth) {
      Vec::Store(to + r * stride + c, Vec::Canonical(Vec::Load(from + r * pitch + c)));
    }
    for (; c < cols; ++c) {
      const float x = from[r * pitch + c];
      to[r * stride + c] = x == x ? x : ACAN_NAN;
    }
  }
}

// Stores rows of squares.
void UnpackSquares(const float* from, int64_t rows, int64_t width, float* to, int64_t stride) {
  for (int64_t s = 0; s < Squares(width); ++s, from += kSquare, to += kEdge) {
    UnpackSquare(from, kEdge, rows, SquareCols(width, s), to, stride);
  }
}

// to += left for the rows of a square. The left operand comes first, as in the tree.
ACAN_INLINE void AddLeftSquare(const float* left, int64_t rows, float* to) {
  for (int64_t i = 0; i < rows * kEdge; i += Vec::kWidth) {
    Vec::Store(to + i, Vec::Add(Vec::Load(left + i), Vec::Load(to + i)));
  }
}

// The levels that a counter needs for `leaves` leaves.
ACAN_INLINE int LevelsFor(int64_t leaves) {
  return leaves <= 1 ? 0 : 64 - __builtin_clzll((uint64_t)(leaves - 1));
}

// The products of rows of a (keys) with columns of b (queries), over all squares of their width.
// Each square is a leaf of the canonical tree. `levels`: LevelsFor(squares) squares of scratch.
void MultiplySquares(const float* a, const float* b, int64_t width, int64_t keys, bool hidden,
                     int64_t shift, float* levels, float* out) {
  const int64_t squares = Squares(width);
  for (int64_t t = 0; t < squares; ++t, a += kSquare, b += kSquare) {
    const bool last = t == squares - 1;
    float* to = last ? out : levels + __builtin_ctzll(~(uint64_t)t) * kSquare;
    const bool odd = (t & 1) != 0;
    SquareProduct p{
        a,           b,    to, odd, odd ? levels : nullptr, keys, kEdge, SquareCols(width, t),
        Steps::kAll, shift};
    Multiply<kEdge>(p, hidden);
    int level = 1;
    for (int64_t pending = t >> 1; pending != 0 && (last || (odd && (pending & 1) != 0));
         pending >>= 1, ++level) {
      if ((pending & 1) != 0) AddLeftSquare(levels + level * kSquare, keys, to);
    }
  }
}
