// Copies operands into panels. Included once per instruction set, before tile_inline.h.

// to[c * to_stride + r] = from[r * from_stride + c] for r < rows, c < cols.
ACAN_INLINE void TransposeScalar(const float* from, int64_t from_stride, float* to,
                                 int64_t to_stride, int64_t rows, int64_t cols) {
  for (int64_t c = 0; c < cols; ++c) {
    for (int64_t r = 0; r < rows; ++r) to[c * to_stride + r] = from[r * from_stride + c];
  }
}

#if defined(__AVX2__)
ACAN_INLINE void Transpose8x8(const float* from, int64_t from_stride, float* to,
                              int64_t to_stride) {
  // Rows r and r + 4 are loaded side by side, so that the loads exchange the 128-bit halves.
  __m256 row[8];
  ACAN_UNROLL for (int i = 0; i < 4; ++i) {
    const float* low = from + i * from_stride;
    const float* high = from + (i + 4) * from_stride;
    row[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high), 1);
    row[i + 4] = _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low + 4)),
                                      _mm_loadu_ps(high + 4), 1);
  }
  ACAN_UNROLL for (int half = 0; half < 8; half += 4) {
    const __m256 a = _mm256_unpacklo_ps(row[half], row[half + 1]);
    const __m256 b = _mm256_unpackhi_ps(row[half], row[half + 1]);
    const __m256 c = _mm256_unpacklo_ps(row[half + 2], row[half + 3]);
    const __m256 d = _mm256_unpackhi_ps(row[half + 2], row[half + 3]);
    float* out = to + half * to_stride;
    _mm256_storeu_ps(out, _mm256_shuffle_ps(a, c, 0x44));
    _mm256_storeu_ps(out + to_stride, _mm256_shuffle_ps(a, c, 0xee));
    _mm256_storeu_ps(out + 2 * to_stride, _mm256_shuffle_ps(b, d, 0x44));
    _mm256_storeu_ps(out + 3 * to_stride, _mm256_shuffle_ps(b, d, 0xee));
  }
}

ACAN_INLINE void Transpose4x4(const float* from, int64_t from_stride, float* to,
                              int64_t to_stride) {
  __m128 a = _mm_loadu_ps(from);
  __m128 b = _mm_loadu_ps(from + from_stride);
  __m128 c = _mm_loadu_ps(from + 2 * from_stride);
  __m128 d = _mm_loadu_ps(from + 3 * from_stride);
  _MM_TRANSPOSE4_PS(a, b, c, d);
  _mm_storeu_ps(to, a);
  _mm_storeu_ps(to + to_stride, b);
  _mm_storeu_ps(to + 2 * to_stride, c);
  _mm_storeu_ps(to + 3 * to_stride, d);
}

void Transpose(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
               int64_t cols) {
  int64_t r = 0;
  for (; r + 8 <= rows; r += 8) {
    int64_t c = 0;
    for (; c + 8 <= cols; c += 8) {
      Transpose8x8(from + r * from_stride + c, from_stride, to + c * to_stride + r, to_stride);
    }
    TransposeScalar(from + r * from_stride + c, from_stride, to + c * to_stride + r, to_stride, 8,
                    cols - c);
  }
  for (; r + 4 <= rows; r += 4) {
    int64_t c = 0;
    for (; c + 4 <= cols; c += 4) {
      Transpose4x4(from + r * from_stride + c, from_stride, to + c * to_stride + r, to_stride);
    }
    TransposeScalar(from + r * from_stride + c, from_stride, to + c * to_stride + r, to_stride, 4,
                    cols - c);
  }
  TransposeScalar(from + r * from_stride, from_stride, to + r, to_stride, rows - r, cols);
}
#else
void Transpose(const float* from, int64_t from_stride, float* to, int64_t to_stride, int64_t rows,
               int64_t cols) {
  TransposeScalar(from, from_stride, to, to_stride, rows, cols);
}
#endif

// Packing walks rows that are far apart, which the hardware does not recognise as a stream, so it
// prefetches some rows ahead.
constexpr int64_t kRowsAhead = 6;
ACAN_INLINE void PrefetchRow(const float* row, int64_t floats) {
  for (int64_t i = 0; i < floats; i += kLine) __builtin_prefetch(row + i);
}

ACAN_INLINE void Copy(float* to, const float* from, int64_t count) {
  int64_t i = 0;
  for (; i + Vec::kWidth <= count; i += Vec::kWidth) Vec::Store(to + i, Vec::Load(from + i));
  for (; i < count; ++i) to[i] = from[i];
}

// Floats from one panel of Q to the next: a cache line more than the panel's size, so that the same
// k of many panels is not in one set of the cache.
int64_t PanelPitch(int64_t chunk) {
  return chunk * kTileCols + kLine;
}

// Columns of the next panel, with `left` to go. A few columns too many for one panel become two
// panels of more than one vector each, since one vector has too few sums to keep the processor
// busy.
int64_t PanelCols(int64_t left) {
  constexpr int64_t kFewer = kTileCols - Vec::kWidth;
  if (kTileVecs > 2 && left > kTileCols && left <= kTileCols + Vec::kWidth) return kFewer;
  return left < kTileCols ? left : kTileCols;
}
int64_t PanelWidth(int64_t cols) {
  return (cols + Vec::kWidth - 1) / Vec::kWidth * Vec::kWidth;
}

// Packs one row of a group's panels, across all of them: to[panel * pitch + i * width + j].
ACAN_INLINE void PackRowOfPanels(const float* row, int64_t cols, int64_t i, int64_t pitch,
                                 float* to) {
  int64_t j = 0;
  for (float* out = to + i * kTileCols; PanelCols(cols - j) == kTileCols; out += pitch) {
    ACAN_UNROLL for (int v = 0; v < kTileCols; v += Vec::kWidth) {
      Vec::Store(out + v, Vec::Load(row + j + v));
    }
    j += kTileCols;
    to += pitch;
  }
  for (int64_t count = 0; j < cols; j += count, to += pitch) {
    count = PanelCols(cols - j);
    const int64_t width = PanelWidth(count);
    Copy(to + i * width, row + j, count);
    for (int64_t pad = count; pad < width; ++pad) to[i * width + pad] = 0.0f;
  }
}

// Packs a group's panels from rows that are far apart.
ACAN_INLINE void PackTransposed(const float* from, int64_t row_stride, int64_t rows, int64_t k,
                                int64_t pitch, float* to) {
  for (int64_t j = 0, cols = 0; j < rows; j += cols, to += pitch) {
    cols = PanelCols(rows - j);
    const int64_t width = PanelWidth(cols);
    Transpose(from + j * row_stride, row_stride, to, width, cols, k);
    for (int64_t i = 0; cols < width && i < k; ++i) {
      for (int64_t pad = cols; pad < width; ++pad) to[i * width + pad] = 0.0f;
    }
  }
}

// Q: rows [first, first + rows) of the operand, k from k0 on, as panels of PanelCols columns:
// to[panel * pitch + i * width + j], padded with zeros, whose sums are not stored. Each group of
// `group` rows (whole panels) is cut into panels as the code that multiplies the group cuts it.
void PackColumns(const Operand& operand, int64_t first, int64_t rows, int64_t group, int64_t k0,
                 int64_t k, int64_t pitch, float* to) {
  const float* from = operand.data + first * operand.row_stride + k0 * operand.k_stride;
  const int64_t group_pitch = group / kTileCols * pitch;
  if (operand.row_stride == 1) {
    // Walks along the operand's rows, across all panels: strips would touch a page for every few
    // floats.
    for (int64_t i = 0; i < k; ++i) {
      const float* row = from + i * operand.k_stride;
      if (i + kRowsAhead < k) PrefetchRow(row + kRowsAhead * operand.k_stride, rows);
      float* out = to;
      for (int64_t g = 0; g < rows; g += group, out += group_pitch) {
        PackRowOfPanels(row + g, rows - g < group ? rows - g : group, i, pitch, out);
      }
    }
    return;
  }
  for (int64_t g = 0; g < rows; g += group, to += group_pitch) {
    PackTransposed(from + g * operand.row_stride, operand.row_stride,
                   rows - g < group ? rows - g : group, k, pitch, to);
  }
}

// P by rows: to[i * kRowPitch + k]. REQUIRES: k is contiguous in the operand.
void PackRows(const Operand& operand, int64_t first, int64_t rows, int64_t k0, int64_t k,
              float* to) {
  const float* from = operand.data + first * operand.row_stride + k0;
  for (int64_t i = 0; i < rows; ++i) {
    const float* row = from + i * operand.row_stride;
    if (i + kRowsAhead < rows) PrefetchRow(row + kRowsAhead * operand.row_stride, k);
    Copy(to + i * kRowPitch, row, k);
  }
}

// Rows of the next tile, with `left` to go. If few are left over after a full tile, both tiles are
// halves, since a tile of one or two rows takes as long as one of three.
ACAN_INLINE int TileRows(int64_t left) {
  if (left > kTileRows && left <= kTileRows + kTileRows / 2) return (int)(left + 1) / 2;
  return left < kTileRows ? (int)left : kTileRows;
}

// Interleaves one k of a group's rows, in panels of one tile's rows.
ACAN_INLINE void InterleaveRow(const float* row, int64_t rows, float* out) {
  int64_t r = 0;
  for (; rows - r > kTileRows + kTileRows / 2; r += kTileRows, out += kTileRows * kRowPitch) {
    __builtin_memcpy(out, row + r, kTileRows * sizeof(float));
  }
  for (int count = 0; r < rows; r += count, out += kTileRows * kRowPitch) {
    count = TileRows(rows - r);
    for (int x = 0; x < count; ++x) out[x] = row[r + x];
  }
}

// P interleaved, in panels of one tile's rows: to[panel * kTileRows * kRowPitch + k * kTileRows +
// i]. Each group of `group` rows (whole panels) is cut into panels as the code that multiplies the
// group cuts it. REQUIRES: rows are contiguous in the operand.
void PackInterleaved(const Operand& operand, int64_t first, int64_t rows, int64_t group, int64_t k0,
                     int64_t k, float* to) {
  const float* from = operand.data + first + k0 * operand.k_stride;
  for (int64_t i = 0; i < k; ++i) {
    const float* row = from + i * operand.k_stride;
    if (i + kRowsAhead < k) PrefetchRow(row + kRowsAhead * operand.k_stride, rows);
    for (int64_t g = 0; g < rows; g += group) {
      InterleaveRow(row + g, rows - g < group ? rows - g : group,
                    to + g * kRowPitch + i * kTileRows);
    }
  }
}
