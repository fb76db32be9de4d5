// One register tile of an exact product: kMr rows of P (broadcast) by kNv vectors of Q. Included
// once per instruction set, inside that unit's anonymous namespace, after its Vec and tile sizes:
//
//   Vec       a vector of kWidth floats: Load, Store, Broadcast, Fma, Add, Zero, Canonical
//   kTileRows, kTileVecs   the largest tile: all its accumulators fit into registers
//
// The canonical order within a tile: leaves of `block` are chains of fma from 0; finished leaf sums
// wait in `levels` (a binary counter, level h holds a node of 2^h leaves), so that a leaf costs
// about one load, addition and store per accumulator. A chunk of k is a node of the tree or a part
// of one leaf; its sum meets those of other chunks in the tile's outer levels, by the same rule.

// How a chunk of k begins and ends. It is the same for every tile.
struct Chunk {
  int64_t k;         // length
  bool resume;       // begins inside a leaf: continue from the open slot
  bool suspend;      // ends inside a leaf: leave it in the open slot
  uint64_t pending;  // bit h: outer level h holds a left sibling to add, lowest first
  int store_level;   // outer level that takes the sum; -1: the sum is the result
  int open_slot;     // slot of an unfinished leaf
  int near_slots;    // the first `near_slots` slots are near
};

// A tile's outer levels and its open leaf. Near slots are needed again within one span of k, the
// others only in the next.
struct Slots {
  float* near;
  float* far;

  __attribute__((always_inline)) float* At(const Chunk& chunk, int slot) const {
    return slot < chunk.near_slots ? near + slot * kTileFloats
                                   : far + (slot - chunk.near_slots) * kTileFloats;
  }
};

// Where a finished tile goes: element (i, j) of the tile is data[i * row_stride + j * col_stride].
// One of the strides is 1.
struct Result {
  float* data;
  int64_t row_stride;
  int64_t col_stride;
  int cols;  // valid columns of the tile
};

// Rows of P and of Q that are multiplied at once over one chunk. P's part (about 140 KiB) is read
// from L2 for each panel of Q, a panel of Q (16 to 32 KiB) from L1 for each tile of P.
constexpr int64_t kMaxGroupRows = kTileRows * (132 / kTileRows);

// If Q is kept, its panels come from L3. So each tile prefetches its share of the next panel, a
// power of two of floats for each k, such that all tiles of a full group together fetch the whole
// panel.
constexpr int64_t AheadFloats() {
  int64_t floats = 1;
  while (floats * kMaxGroupRows < kTileRows * kTileCols) floats *= 2;
  return floats;
}
constexpr int64_t kAheadFloats = AheadFloats();

// Where a tile reads P.
enum class LeftLayout {
  kInterleaved,  // packed, all rows of a tile side by side for each k
  kRows,         // packed row by row, kRowPitch floats apart
  kInPlace,      // the rows of the operand itself
};

// The operands of a tile: its parts of P and of Q, and what it prefetches into L2 for later tiles.
struct TileOperands {
  const float* p;
  int64_t p_pitch;  // from one row of P to the next, if it is in place
  const float* q;
  const float* next_q;  // its share of the next panel
  const float* next_c;  // where the next tile goes
};

template <int kMr, int kNv>
struct Sums {
  Vec v[kMr][kNv];

  __attribute__((always_inline)) void Clear() {
    ACAN_UNROLL for (int i = 0; i < kMr; ++i) {
      ACAN_UNROLL for (int j = 0; j < kNv; ++j) v[i][j] = Vec::Zero();
    }
  }
  __attribute__((always_inline)) void Load(const float* from) {
    ACAN_UNROLL for (int i = 0; i < kMr; ++i) {
      ACAN_UNROLL for (int j = 0; j < kNv; ++j) {
        v[i][j] = Vec::Load(from + (i * kNv + j) * Vec::kWidth);
      }
    }
  }
  __attribute__((always_inline)) void AddLeft(const float* left) {
    ACAN_UNROLL for (int i = 0; i < kMr; ++i) {
      ACAN_UNROLL for (int j = 0; j < kNv; ++j) {
        v[i][j] = Vec::Add(Vec::Load(left + (i * kNv + j) * Vec::kWidth), v[i][j]);
      }
    }
  }
  __attribute__((always_inline)) void Store(float* to) const {
    ACAN_UNROLL for (int i = 0; i < kMr; ++i) {
      ACAN_UNROLL for (int j = 0; j < kNv; ++j) {
        Vec::Store(to + (i * kNv + j) * Vec::kWidth, v[i][j]);
      }
    }
  }
};

// The rows of P that a tile multiplies, from some k on.
template <int kMr, LeftLayout kLayout>
struct LeftRows {
  static constexpr bool kInPlace = kLayout == LeftLayout::kInPlace;
  static constexpr bool kInterleaved = kLayout == LeftLayout::kInterleaved;
  static constexpr int64_t kStep = kInterleaved ? kTileRows : 1;         // for the next k
  static constexpr int64_t kPackedPitch = kInterleaved ? 1 : kRowPitch;  // to the next row
  // In place, rows share a pointer, because a pointer for each would need too many registers.
  static constexpr int kSharingRows = 3;
  static constexpr int kRowsOfPointer = kInPlace ? kSharingRows : kMr;
  static constexpr int kPointers = (kMr + kRowsOfPointer - 1) / kRowsOfPointer;

  const float* at[kPointers];
  int64_t pitch;

  __attribute__((always_inline)) LeftRows(const TileOperands& from, int64_t k)
      : pitch(kInPlace ? from.p_pitch : kPackedPitch) {
    ACAN_UNROLL for (int i = 0; i < kPointers; ++i) {
      at[i] = from.p + k * kStep + i * kRowsOfPointer * pitch;
    }
  }
  __attribute__((always_inline)) const float* At(int row, int k) const {
    return at[row / kRowsOfPointer] + row % kRowsOfPointer * pitch + k * kStep;
  }
  __attribute__((always_inline)) void Advance(int k) {
    ACAN_UNROLL for (int i = 0; i < kPointers; ++i) {
      at[i] += k * kStep;
      // Otherwise gcc sees that the pointers differ by multiples of the pitch, keeps one for each
      // row, and spills them.
      if constexpr (kInPlace) asm("" : "+r"(at[i]));
    }
  }
};

// acc += p[., k] * q[k, .] for one k.
template <int kMr, int kNv, LeftLayout kLayout>
ACAN_INLINE void MultiplyOne(Sums<kMr, kNv>& acc, const LeftRows<kMr, kLayout>& p, int k,
                             const float* q) {
  Vec right[kNv];
  ACAN_UNROLL for (int j = 0; j < kNv; ++j) right[j] = Vec::Load(q + j * Vec::kWidth);
  ACAN_UNROLL for (int i = 0; i < kMr; ++i) {
    const Vec left = Vec::Broadcast(p.At(i, k));
    ACAN_UNROLL for (int j = 0; j < kNv; ++j) Vec::Fma(acc.v[i][j], left, right[j]);
  }
}

// Prefetches a share of the next tile's part of P into L1, for kUnrollK values of k. In place, this
// is a line of some rows; the other rows have their turns until the next line begins.
template <LeftLayout kLayout>
ACAN_INLINE void PrefetchLeft(const TileOperands& from, int64_t k) {
  constexpr int kLines = kUnrollK * kTileRows / kLine;
  if (kLayout != LeftLayout::kInPlace) {
    const float* const next = from.p + kTileRows * (kRowPitch + k);
    ACAN_UNROLL for (int i = 0; i < kLines; ++i) __builtin_prefetch(next + i * kLine);
    return;
  }
  const int64_t first = kTileRows + k % kLine / kUnrollK * kLines;
  const float* const next = from.p + first * from.p_pitch + k / kLine * kLine;
  ACAN_UNROLL for (int i = 0; i < kLines; ++i) __builtin_prefetch(next + i * from.p_pitch);
}

// acc += p * q for the values of k in [k0, k0 + count), ascending. Meanwhile it prefetches the next
// tile's part of P into L1, and for each k kAheadFloats of the next panel of Q into L2.
template <int kMr, int kNv, LeftLayout kLayout>
ACAN_INLINE void Multiply(Sums<kMr, kNv>& acc, const TileOperands& from, int64_t k0,
                          int64_t count) {
  constexpr int64_t kStepQ = kNv * Vec::kWidth;
  LeftRows<kMr, kLayout> p(from, k0);
  const float* q = from.q + k0 * kStepQ;
  int64_t k = k0;
  for (; k + kUnrollK <= k0 + count; k += kUnrollK) {
    PrefetchLeft<kLayout>(from, k);
    __builtin_prefetch(from.next_q + k * kAheadFloats, 0, 2);
    ACAN_UNROLL for (int i = 0; i < kUnrollK; ++i) MultiplyOne(acc, p, i, q + i * kStepQ);
    p.Advance(kUnrollK);
    q += kUnrollK * kStepQ;
  }
  for (; k < k0 + count; ++k, p.Advance(1), q += kStepQ) MultiplyOne(acc, p, 0, q);
}

// Copies a finished tile of `rows` rows at `pitch` to a result that is ragged or transposed.
void StoreFromMemory(const float* tile, int pitch, int rows, const Result& to) {
  if (to.col_stride != 1) {
    Transpose(tile, pitch, to.data, to.col_stride, rows, to.cols);
    return;
  }
  for (int i = 0; i < rows; ++i) Copy(to.data + i * to.row_stride, tile + i * pitch, to.cols);
}

// Inlined, like everything that uses the sums: a reference to them would keep them out of
// registers.
template <int kMr, int kNv>
ACAN_INLINE void StoreResult(Sums<kMr, kNv>& acc, const Result& to) {
  ACAN_UNROLL for (int i = 0; i < kMr; ++i) {
    ACAN_UNROLL for (int j = 0; j < kNv; ++j) acc.v[i][j] = Vec::Canonical(acc.v[i][j]);
  }
  if (to.col_stride == 1 && to.cols == kNv * Vec::kWidth) {
    ACAN_UNROLL for (int i = 0; i < kMr; ++i) {
      ACAN_UNROLL for (int j = 0; j < kNv; ++j) {
        Vec::Store(to.data + i * to.row_stride + j * Vec::kWidth, acc.v[i][j]);
      }
    }
    return;
  }
  alignas(64) float tile[kTileFloats];
  acc.Store(tile);
  StoreFromMemory(tile, kNv * Vec::kWidth, kMr, to);
}

// Prefetches the lines that the tile adds or writes at its end, which are seldom in a near cache.
template <int kMr, int kNv>
ACAN_INLINE void PrefetchTargets(const Chunk& chunk, const Slots& slots, const Result& result) {
  if (chunk.store_level < 0 && result.col_stride == 1) {
    ACAN_UNROLL for (int i = 0; i < kMr; ++i) {
      ACAN_UNROLL for (int j = 0; j < kNv * Vec::kWidth; j += kLine) {
        __builtin_prefetch(result.data + i * result.row_stride + j, 1);
      }
    }
  }
  int level = 0;
  for (uint64_t t = chunk.pending; t != 0; t >>= 1, ++level) {
    if ((t & 1) == 0) continue;
    const float* const left = slots.At(chunk, level);
    for (int i = 0; i < kMr * kNv * Vec::kWidth; i += kLine) __builtin_prefetch(left + i);
  }
  if (chunk.store_level >= 0) {
    float* const to = slots.At(chunk, chunk.store_level);
    for (int i = 0; i < kMr * kNv * Vec::kWidth; i += kLine) __builtin_prefetch(to + i, 1);
  }
}

// Prefetches, during the first two leaves, the lines of the next tile's result, into L2 only. If
// all of these lines came from memory at once, they would delay the lines that the tile reads into
// L1.
template <int kMr, int kNv>
ACAN_INLINE void PrefetchNext(const Chunk& chunk, int leaf, const float* next,
                              const Result& result) {
  constexpr int kRows = (kMr + 1) / 2;
  if (leaf > 1 || chunk.store_level >= 0 || result.col_stride != 1) return;
  const float* row = next + leaf * kRows * result.row_stride;
  ACAN_UNROLL for (int i = 0; i < kRows; ++i, row += result.row_stride) {
    ACAN_UNROLL for (int j = 0; j < kNv * Vec::kWidth; j += kLine) {
      __builtin_prefetch(row + j, 0, 2);
    }
  }
}

template <int kMr, int kNv, LeftLayout kLayout>
void Tile(const TileOperands& from, const Chunk& chunk, int64_t block, const Slots& slots,
          const Result& result) {
  alignas(64) float levels[kInnerLevels][kTileFloats];
  Sums<kMr, kNv> acc;
  PrefetchTargets<kMr, kNv>(chunk, slots, result);
  int64_t done = 0;
  for (uint64_t leaf = 0;; ++leaf) {
    const int64_t count = chunk.k - done < block ? chunk.k - done : block;
    if (chunk.resume) {
      acc.Load(slots.At(chunk, chunk.open_slot));
    } else {
      acc.Clear();
    }
    PrefetchNext<kMr, kNv>(chunk, (int)leaf, from.next_c, result);
    Multiply<kMr, kNv, kLayout>(acc, from, done, count);
    done += count;
    const bool last = done == chunk.k;
    int level = 0;
    for (uint64_t t = leaf; last ? t != 0 : (t & 1) != 0; t >>= 1, ++level) {
      if (t & 1) acc.AddLeft(levels[level]);
    }
    if (last) break;
    acc.Store(levels[level]);
  }
  if (chunk.suspend) {
    acc.Store(slots.At(chunk, chunk.open_slot));
    return;
  }
  int level = 0;
  for (uint64_t t = chunk.pending; t != 0; t >>= 1, ++level) {
    if (t & 1) acc.AddLeft(slots.At(chunk, level));
  }
  if (chunk.store_level >= 0) {
    acc.Store(slots.At(chunk, chunk.store_level));
  } else {
    StoreResult(acc, result);
  }
}

using TileFunction = void (*)(const TileOperands& from, const Chunk& chunk, int64_t block,
                              const Slots& slots, const Result& result);

using TileTable = TileFunction[kTileRows][kTileVecs];

// Fills table[rows - 1][vectors - 1].
template <LeftLayout kLayout, int kMr, int kNv>
constexpr void FillTiles(TileTable& table) {
  table[kMr - 1][kNv - 1] = &Tile<kMr, kNv, kLayout>;
  if constexpr (kNv > 1) {
    FillTiles<kLayout, kMr, kNv - 1>(table);
  } else if constexpr (kMr > 1) {
    FillTiles<kLayout, kMr - 1, kTileVecs>(table);
  }
}

struct TileTables {
  TileTable interleaved;
  TileTable rows;
  TileTable in_place;

  const TileTable& Of(LeftLayout layout) const {
    if (layout == LeftLayout::kInterleaved) return interleaved;
    return layout == LeftLayout::kRows ? rows : in_place;
  }
};

constexpr TileTables MakeTiles() {
  TileTables tables{};
  FillTiles<LeftLayout::kInterleaved, kTileRows, kTileVecs>(tables.interleaved);
  FillTiles<LeftLayout::kRows, kTileRows, kTileVecs>(tables.rows);
  FillTiles<LeftLayout::kInPlace, kTileRows, kTileVecs>(tables.in_place);
  return tables;
}
constexpr TileTables kTiles = MakeTiles();
