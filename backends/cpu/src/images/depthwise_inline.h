// The vectorised driver of depthwise convolution. Included once per instruction set, inside that
// unit's own anonymous namespace, after pack_inline.h. The kernels' single source
// (kernels/depthwise.h) defines what is computed.
//
// The driver takes kBand channels at a time. It packs a band of rows of one image with the zeros
// around it, so that no tap is outside, and the weights of these channels beside it. A register
// tile is some adjacent pixels by some vectors of channels:
//
//   packed  [row][pixel][kBand]            weights  [tap][kBand]
//   sums[pixel][channel] = chain over the taps of packed * weight

constexpr int64_t kBand = 64;               // channels
constexpr int64_t kBandFloats = 96 * 1024;  // of packed rows, which stay in L2
#if defined(__AVX512F__)
constexpr int kTilePixels = 8;
#else
constexpr int kTilePixels = 6;
#endif
constexpr int kTileChannelVecs = 2;
static_assert(kBand % (kTileChannelVecs * Vec::kWidth) == 0);

// Sums of adjacent pixels, for some vectors of channels.
struct DepthwiseTile {
  const float* packed;  // the first tap of the first pixel
  const float* weight;
  float* out;
  int64_t out_stride;
  int64_t row_floats;  // of a packed row
  int64_t window_height;
  int64_t window_width;
  int64_t channels;  // the number that is stored
};

// `kStride`: the distance between neighbouring pixels of the tile in the image. As a constant, it
// is a part of the addresses. `kTaps` divides the window's width. The weights of so many taps are
// kept in registers, so that each pixel of the image is loaded once for all sums that it is in:
//
//   pixel of the image     0    1    2    3    4    ..        kStride = 1, kTaps = 3
//   taps of sums[0]        0    1    2
//   taps of sums[1]             0    1    2
//   taps of sums[2]                  0    1    2
template <int kStride, int kPixels, int kVecs, int kTaps>
void SumTaps(const DepthwiseTile& t) {
  Vec sums[kPixels][kVecs];
  ACAN_UNROLL for (int i = 0; i < kPixels; ++i) {
    ACAN_UNROLL for (int j = 0; j < kVecs; ++j) sums[i][j] = Vec::Zero();
  }
  const float* weight = t.weight;
  for (int64_t y = 0; y < t.window_height; ++y) {
    const float* x = t.packed + y * t.row_floats;
    for (int64_t tap = 0; tap < t.window_width; tap += kTaps) {
      // Otherwise gcc keeps what the next taps read again in registers, and has none left for the
      // sums.
      asm("" : "+r"(x));
      Vec right[kTaps][kVecs];
      ACAN_UNROLL for (int k = 0; k < kTaps; ++k, weight += kBand) {
        ACAN_UNROLL for (int j = 0; j < kVecs; ++j) {
          right[k][j] = Vec::Load(weight + j * Vec::kWidth);
        }
      }
      _Pragma("GCC unroll 32") for (int at = 0; at < (kPixels - 1) * kStride + kTaps; ++at) {
        ACAN_UNROLL for (int j = 0; j < kVecs; ++j) {
          const Vec left = Vec::Load(x + at * kBand + j * Vec::kWidth);
          ACAN_UNROLL for (int i = 0; i < kPixels; ++i) {
            const int k = at - i * kStride;
            if (k >= 0 && k < kTaps) Vec::Fma(sums[i][j], left, right[k][j]);
          }
        }
      }
      x += kTaps * kBand;
    }
  }
  ACAN_UNROLL for (int i = 0; i < kPixels; ++i) {
    alignas(64) float row[kVecs * Vec::kWidth];
    ACAN_UNROLL for (int j = 0; j < kVecs; ++j) {
      Vec::Store(row + j * Vec::kWidth, Vec::Canonical(sums[i][j]));
    }
    Copy(t.out + i * t.out_stride, row, t.channels);
  }
}

using DepthwiseFunction = void (*)(const DepthwiseTile&);
struct DepthwiseTable {
  DepthwiseFunction of[kTilePixels][kTileChannelVecs];
};
template <int kStride, int kTaps, int kPixels, int kVecs>
constexpr void FillDepthwise(DepthwiseTable& table) {
  table.of[kPixels - 1][kVecs - 1] = &SumTaps<kStride, kPixels, kVecs, kTaps>;
  if constexpr (kVecs > 1) {
    FillDepthwise<kStride, kTaps, kPixels, kVecs - 1>(table);
  } else if constexpr (kPixels > 1) {
    FillDepthwise<kStride, kTaps, kPixels - 1, kTileChannelVecs>(table);
  }
}
template <int kStride, int kTaps>
constexpr DepthwiseTable kDepthwiseTable = [] {
  DepthwiseTable table{};
  FillDepthwise<kStride, kTaps, kTilePixels, kTileChannelVecs>(table);
  return table;
}();

// The functions for a width of the window. With AVX2 there are too few registers for weights of
// several taps.
template <int kStride>
const DepthwiseTable& DepthwiseTableOf([[maybe_unused]] int64_t window_width) {
#if defined(__AVX512F__)
  if (window_width % 7 == 0) return kDepthwiseTable<kStride, 7>;
  if (window_width % 5 == 0) return kDepthwiseTable<kStride, 5>;
  if (window_width % 3 == 0) return kDepthwiseTable<kStride, 3>;
#endif
  return kDepthwiseTable<kStride, 1>;
}

// Pixels of the next tile, with `left` to go in a row. The last two tiles are halves, since a tile
// of few pixels takes as long as a full one. With a wide stride, one pixel at a time.
ACAN_INLINE int64_t TilePixels(int64_t left, int64_t stride) {
  if (stride > 2) return 1;
  if (left > kTilePixels && left < 2 * kTilePixels) return (left + 1) / 2;
  return left < kTilePixels ? left : kTilePixels;
}

struct Depthwise {
  const acan_args& a;
  const acan_window& w;
  int64_t packed_width;  // pixels of a packed row
  int64_t band_rows;     // of the result, at most
  float* weights;
  float* packed;
};

// Channels c .. c + count - 1 of a row of a matrix, zeros up to kBand.
ACAN_INLINE void PackChannels(const float* from, int64_t count, float* to) {
  Copy(to, from, count);
  for (int64_t i = count; i < kBand; ++i) to[i] = 0.0f;
}

// Packs what the rows out_begin .. out_end - 1 of an image's result read of channels
// c .. c + count - 1.
void PackBand(const Depthwise& d, int64_t image, int64_t out_begin, int64_t out_end, int64_t c,
              int64_t count) {
  const acan_matrix& x = d.a.m[1];
  const int64_t first = out_begin * d.w.stride_y - d.w.padding_y;
  const int64_t last = (out_end - 1) * d.w.stride_y - d.w.padding_y + d.w.window_height;
  float* to = d.packed;
  for (int64_t y = first; y < last; ++y) {
    const bool inside = y >= 0 && y < d.w.height;
    const float* row = x.data + (image * d.w.height + y) * d.w.width * x.stride + c;
    for (int64_t at = 0; at < d.packed_width; ++at, to += kBand) {
      const int64_t pixel = at - d.w.padding_x;
      const bool there = inside && pixel >= 0 && pixel < d.w.width;
      if (there && pixel + kRowsAhead < d.w.width) {
        PrefetchRow(row + (pixel + kRowsAhead) * x.stride, count);
      }
      PackChannels(there ? row + pixel * x.stride : to, there ? count : 0, to);
    }
  }
}

// Computes the pixels begin .. end - 1 of a row of the result, which is row `packed_y` of the band.
void SumRow(const Depthwise& d, int64_t row, int64_t packed_y, int64_t begin, int64_t end,
            int64_t c, int64_t count) {
  const acan_matrix& out = d.a.m[0];
  constexpr int64_t kCols = kTileChannelVecs * Vec::kWidth;
  for (int64_t x = begin, pixels = 0; x < end; x += pixels) {
    pixels = TilePixels(end - x, d.w.stride_x);
    for (int64_t j = 0; j < count; j += kCols) {
      const int64_t channels = count - j < kCols ? count - j : kCols;
      const float* packed = d.packed + (packed_y * d.packed_width + x * d.w.stride_x) * kBand + j;
      const DepthwiseTile tile{packed,
                               d.weights + j,
                               out.data + (row + x) * out.stride + c + j,
                               out.stride,
                               d.packed_width * kBand,
                               d.w.window_height,
                               d.w.window_width,
                               channels};
      const DepthwiseTable& table = d.w.stride_x == 2 ? DepthwiseTableOf<2>(d.w.window_width)
                                                      : DepthwiseTableOf<1>(d.w.window_width);
      table.of[pixels - 1][(channels + Vec::kWidth - 1) / Vec::kWidth - 1](tile);
    }
  }
}

// Computes rows begin .. end - 1 of the result, channels c .. c + count - 1.
void RunDepthwiseRows(const Depthwise& d, int64_t begin, int64_t end, int64_t c, int64_t count) {
  const acan_matrix& weight = d.a.m[2];
  for (int64_t tap = 0; tap < weight.rows; ++tap) {
    PackChannels(weight.data + tap * weight.stride + c, count, d.weights + tap * kBand);
  }
  const int64_t lines = (end + d.w.out_width - 1) / d.w.out_width;  // rows of pixels
  for (int64_t line = begin / d.w.out_width, rows = 0; line < lines; line += rows) {
    const int64_t image = line / d.w.out_height, out_y = line % d.w.out_height;
    rows = Clamp(lines - line, d.band_rows);
    rows = Clamp(d.w.out_height - out_y, rows);
    PackBand(d, image, out_y, out_y + rows, c, count);
    for (int64_t y = 0; y < rows; ++y) {
      const int64_t row = (line + y) * d.w.out_width;
      SumRow(d, row, y * d.w.stride_y, row < begin ? begin - row : 0,
             Clamp(end - row, d.w.out_width), c, count);
    }
  }
}

// Returns false, having done nothing, if the sums have several leaves or the scratch is too small.
// The region's columns are elements of the result; the single source computes those before and
// after whole rows.
bool RunDepthwise(const LaunchArgs& launch, const Region& region, float* scratch, int64_t floats) {
  const acan_args a = KernelArgsOf(launch);
  const acan_window w = acan_window_of(&a);
  const int64_t taps = w.window_height * w.window_width;
  const int64_t channels = a.m[0].cols;
  const int64_t packed_width = w.width + 2 * w.padding_x;
  const int64_t begin = (region.col_begin + channels - 1) / channels;
  const int64_t end = region.col_end / channels;
  const int64_t left = floats - taps * kBand;
  const int64_t least = w.window_height * packed_width * kBand;
  if (taps > a.i[8] || left < least || begin >= end) return false;
  const int64_t room = Clamp(left, kBandFloats < least ? least : kBandFloats);
  const int64_t band_rows = (room - least) / (w.stride_y * packed_width * kBand) + 1;
  const Depthwise d{a, w, packed_width, band_rows, scratch, scratch + taps * kBand};
  for (int64_t c = 0; c < channels; c += kBand) {
    RunDepthwiseRows(d, begin, end, c, Clamp(channels - c, kBand));
  }
  Launch(kDepthwise, launch, {0, 1, region.col_begin, begin * channels});
  Launch(kDepthwise, launch, {0, 1, end * channels, region.col_end});
  return true;
}
