// Register tiles of a convolution's weight gradient: some outputs by some vectors of a window's
// line, summed over pixels directly from lines of an image. Included once per instruction set,
// inside that unit's own anonymous namespace, after image_tile_inline.h.
//
//   dy  [pixel][output]         lines  [pixel][k of a line of the window], `q_pitch` floats apart
//   sums[output][k] = the canonical tree over pixels of dy * lines

#if defined(__AVX512F__)
constexpr int kWeightVecs = 3;  // most
#else
constexpr int kWeightVecs = kTileVecs;
#endif

// Outputs of the largest tile: as many as have room for their sums in the registers beside the
// factors.
constexpr int MostTileOutputs(int vecs) {
  return vecs == 1 ? (Vec::kWidth == 16 ? 12 : 8) : kTileFloats / (vecs * Vec::kWidth);
}
constexpr int kMaxTileOutputs = 12;

// What one tile sums over: a node of a group's tree, or the whole tree.
struct WeightTile {
  const float* p;  // dy of the first pixel
  int64_t p_pitch;
  const float* q;
  int64_t q_pitch;
  const Run* runs;  // of adjacent pixels; offsets are into q
  int64_t run_count;
  float* slots;        // sums of earlier nodes, which wait for their siblings
  int64_t slot_pitch;  // floats from one slot to the next
  uint64_t pending;    // bit s: slot s holds a left sibling to add, lowest first
  int store_slot;      // the slot that takes the sum; -1: the sum is the result
  Result result;
};

template <int kMr, int kNv>
ACAN_INLINE void MultiplyPixels(Sums<kMr, kNv>& acc, const float*& p, int64_t p_pitch,
                                const float* q, int64_t q_pitch, int64_t count) {
  const auto step = [&]() __attribute__((always_inline)) {
    Vec right[kNv];
    ACAN_UNROLL for (int j = 0; j < kNv; ++j) right[j] = Vec::Load(q + j * Vec::kWidth);
    ACAN_UNROLL for (int i = 0; i < kMr; ++i) {
      const Vec left = Vec::Broadcast(p + i);
      ACAN_UNROLL for (int j = 0; j < kNv; ++j) Vec::Fma(acc.v[i][j], left, right[j]);
    }
    p += p_pitch;
    q += q_pitch;
  };
  int64_t pixel = 0;
  for (; pixel + kUnrollK <= count; pixel += kUnrollK) {
    ACAN_UNROLL for (int i = 0; i < kUnrollK; ++i) step();
  }
  for (; pixel < count; ++pixel) step();
}

template <int kMr, int kNv>
void SumWeights(const WeightTile& t) {
  alignas(64) float levels[kRunLevels][kMr * kNv * Vec::kWidth];
  Sums<kMr, kNv> acc;
  acc.Clear();
  const float* p = t.p;
  uint64_t leaf = 0;
  for (int64_t r = 0; r < t.run_count; ++r) {
    const Run& run = t.runs[r];
    MultiplyPixels<kMr, kNv>(acc, p, t.p_pitch, t.q + run.offset, t.q_pitch, run.count);
    if (!run.ends_leaf) continue;
    const bool last = r + 1 == t.run_count;
    int level = 0;
    for (uint64_t left = leaf; last ? left != 0 : (left & 1) != 0; left >>= 1, ++level) {
      if (left & 1) acc.AddLeft(levels[level]);
    }
    if (last) break;
    acc.Store(levels[level]);
    acc.Clear();
    ++leaf;
  }
  int slot = 0;
  for (uint64_t left = t.pending; left != 0; left >>= 1, ++slot) {
    if (left & 1) acc.AddLeft(t.slots + slot * t.slot_pitch);
  }
  if (t.store_slot >= 0) {
    acc.Store(t.slots + t.store_slot * t.slot_pitch);
  } else {
    StoreResult(acc, t.result);
  }
}

using WeightTileFunction = void (*)(const WeightTile&);

struct WeightTiles {
  WeightTileFunction of[kWeightVecs][kMaxTileOutputs];  // [vectors - 1][outputs - 1]
};

template <int kMr, int kNv>
constexpr void FillWeightTiles(WeightTiles& tiles) {
  tiles.of[kNv - 1][kMr - 1] = &SumWeights<kMr, kNv>;
  if constexpr (kMr > 1) {
    FillWeightTiles<kMr - 1, kNv>(tiles);
  } else if constexpr (kNv > 1) {
    FillWeightTiles<MostTileOutputs(kNv - 1), kNv - 1>(tiles);
  }
}
constexpr WeightTiles MakeWeightTiles() {
  WeightTiles tiles{};
  FillWeightTiles<MostTileOutputs(kWeightVecs), kWeightVecs>(tiles);
  return tiles;
}
constexpr WeightTiles kWeightTiles = MakeWeightTiles();
