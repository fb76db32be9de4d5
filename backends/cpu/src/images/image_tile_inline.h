// Register tiles of convolutions: adjacent pixels by some vectors of channels, read directly from
// lines of an image, in which a tile's pixels are at a constant distance. Included once per
// instruction set, inside that unit's own anonymous namespace, after tile_inline.h.
//
//   pixels  [pixel][k], `pitch` floats apart         weights  [k][vectors of the panel]
//   sums[pixel][channel] = the canonical tree over k of pixels * weights

// Elements of k that are contiguous both in the pixels and in the weights.
struct Run {
  int64_t offset;  // of the first element, in the pixels
  int64_t count;
  bool ends_leaf;
};
constexpr int kMaxRuns = 256;
constexpr int kRunLevels = 8;  // of a tree of kMaxRuns leaves

#if defined(__AVX512F__)
constexpr int kPanelVecs = 4;  // most
#else
constexpr int kPanelVecs = 2;
#endif

// Pixels of the largest tile: as many as have room for their sums in the registers.
constexpr int MostTilePixels(int vecs) {
  return vecs == 4 ? 6 : vecs == 1 ? 12 : kTileFloats / (vecs * Vec::kWidth);
}

// Vectors of the next panel, with `cols` columns to go.
ACAN_INLINE int PanelVecs(int64_t cols) {
  const int64_t vecs = (cols + Vec::kWidth - 1) / Vec::kWidth;
  return vecs >= kPanelVecs ? kPanelVecs : vecs >= 2 ? 2 : 1;
}

template <int kMr, int kNv>
ACAN_INLINE void MultiplyRun(Sums<kMr, kNv>& acc, const float* p, int64_t pitch, const float* q,
                             int64_t count) {
  // Three pixels share one address register; there are not enough registers for one each.
  constexpr int kGroups = (kMr + 2) / 3;
  const float* of[kGroups];
  ACAN_UNROLL for (int g = 0; g < kGroups; ++g) of[g] = p + 3 * g * pitch;
  const auto step = [&](int64_t k, int ahead) __attribute__((always_inline)) {
    Vec right[kNv];
    ACAN_UNROLL for (int j = 0; j < kNv; ++j) {
      right[j] = Vec::Load(q + ((k + ahead) * kNv + j) * Vec::kWidth);
    }
    ACAN_UNROLL for (int i = 0; i < kMr; ++i) {
      const Vec left = Vec::Broadcast(of[i / 3] + i % 3 * pitch + ahead);
      ACAN_UNROLL for (int j = 0; j < kNv; ++j) Vec::Fma(acc.v[i][j], left, right[j]);
    }
  };
  int64_t k = 0;
  for (; k + kUnrollK <= count; k += kUnrollK) {
    ACAN_UNROLL for (int i = 0; i < kUnrollK; ++i) step(k, i);
    ACAN_UNROLL for (int g = 0; g < kGroups; ++g) of[g] += kUnrollK;
  }
  for (; k < count; ++k) {
    step(k, 0);
    ACAN_UNROLL for (int g = 0; g < kGroups; ++g)++ of[g];
  }
}

// Sums the whole tree over `count` runs, the last of which ends a leaf.
template <int kMr, int kNv>
ACAN_INLINE void SumRuns(Sums<kMr, kNv>& acc, const float* p, int64_t pitch, const float* q,
                         const Run* runs, int64_t count) {
  alignas(64) float levels[kRunLevels][kMr * kNv * Vec::kWidth];
  uint64_t leaf = 0;
  acc.Clear();
  for (int64_t r = 0; r < count; ++r) {
    MultiplyRun<kMr, kNv>(acc, p + runs[r].offset, pitch, q, runs[r].count);
    q += runs[r].count * kNv * Vec::kWidth;
    if (!runs[r].ends_leaf) continue;
    const bool last = r + 1 == count;
    int level = 0;
    for (uint64_t t = leaf; last ? t != 0 : (t & 1) != 0; t >>= 1, ++level) {
      if (t & 1) acc.AddLeft(levels[level]);
    }
    if (last) break;
    acc.Store(levels[level]);
    acc.Clear();
    ++leaf;
  }
}

// A tile of a convolution: the sums of all runs.
struct ConvolutionTile {
  const float* p;
  int64_t pitch;
  const float* q;
  const Run* runs;
  int64_t run_count;
  Result result;
};

template <int kMr, int kNv>
void SumForward(const ConvolutionTile& t) {
  Sums<kMr, kNv> acc;
  SumRuns<kMr, kNv>(acc, t.p, t.pitch, t.q, t.runs, t.run_count);
  StoreResult(acc, t.result);
}

// What one tap adds to a tile of an input gradient: the sums of `runs` over the outputs, for the
// pixels that have a window under the tap.
struct Tap {
  int64_t offset;  // of the first pixel's output
  const float* q;
  int64_t begin;  // pixels of the line that have a window
  int64_t end;
};

struct ConvolutionBackTile {
  const float* p;
  int64_t pitch;
  const Tap* taps;
  int64_t tap_count;
  const Run* runs;
  int64_t run_count;
  int64_t first;  // the tile's first pixel of the line
  Result result;
};

// Adds the taps in ascending order, as a chain from 0.
template <int kMr, int kNv>
void SumBackward(const ConvolutionBackTile& t) {
  constexpr int kRow = kNv * Vec::kWidth;
  alignas(64) float total[kMr * kRow];
  alignas(64) float part[kMr * kRow];
  Sums<kMr, kNv> acc;
  acc.Clear();
  acc.Store(total);
  for (int64_t at = 0; at < t.tap_count; ++at) {
    const Tap& tap = t.taps[at];
    const int64_t begin = tap.begin > t.first ? tap.begin - t.first : 0;
    const int64_t end = tap.end - t.first < kMr ? tap.end - t.first : kMr;
    if (begin >= end) continue;
    SumRuns<kMr, kNv>(acc, t.p + tap.offset, t.pitch, tap.q, t.runs, t.run_count);
    if (begin == 0 && end == kMr) {
      acc.AddLeft(total);
      acc.Store(total);
      continue;
    }
    acc.Store(part);
    for (int64_t i = begin * kRow; i < end * kRow; i += Vec::kWidth) {
      Vec::Store(total + i, Vec::Add(Vec::Load(total + i), Vec::Load(part + i)));
    }
  }
  acc.Load(total);
  StoreResult(acc, t.result);
}

// A function for each number of pixels and each width of a panel.
template <typename Tile>
using ImageTileFunction = void (*)(const Tile&);

template <typename Tile>
struct ImageTiles {
  ImageTileFunction<Tile> of[kPanelVecs][12];  // [vectors - 1][pixels - 1]
};

template <int kMr, int kNv>
constexpr void FillImageTiles(ImageTiles<ConvolutionTile>& forward,
                              ImageTiles<ConvolutionBackTile>& back) {
  forward.of[kNv - 1][kMr - 1] = &SumForward<kMr, kNv>;
  back.of[kNv - 1][kMr - 1] = &SumBackward<kMr, kNv>;
  if constexpr (kMr > 1) {
    FillImageTiles<kMr - 1, kNv>(forward, back);
  } else if constexpr (kNv > 1) {
    FillImageTiles<MostTilePixels(kNv / 2), kNv / 2>(forward, back);
  }
}

struct AllImageTiles {
  ImageTiles<ConvolutionTile> forward;
  ImageTiles<ConvolutionBackTile> backward;
};
constexpr AllImageTiles MakeImageTiles() {
  AllImageTiles tiles{};
  FillImageTiles<MostTilePixels(kPanelVecs), kPanelVecs>(tiles.forward, tiles.backward);
  return tiles;
}
constexpr AllImageTiles kImageTiles = MakeImageTiles();

// Pixels of the next tile, with `left` to go in a line; the tiles of a line have nearly equal
// sizes.
ACAN_INLINE int64_t NextTilePixels(int64_t left, int64_t most) {
  const int64_t tiles = (left + most - 1) / most;
  return (left + tiles - 1) / tiles;
}
