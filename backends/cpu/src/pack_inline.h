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
  // Rows r and r + 4 side by side, so that the exchange of 128-bit halves is done by the loads.
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

ACAN_INLINE void Copy(float* to, const float* from, int64_t count) {
  int64_t i = 0;
  for (; i + Vec::kWidth <= count; i += Vec::kWidth) Vec::Store(to + i, Vec::Load(from + i));
  for (; i < count; ++i) to[i] = from[i];
}

// Q: `cols` <= width columns from `operand` row `first`, k from `k0`: to[k * width + j], padded
// with zeros, whose sums nobody stores.
void PackQ(const Operand& operand, int64_t first, int64_t cols, int64_t k0, int64_t k, int width,
           float* to) {
  const float* from = operand.data + first * operand.row_stride + k0 * operand.k_stride;
  if (cols < width) {
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t j = cols; j < width; ++j) to[i * width + j] = 0.0f;
    }
  }
  if (operand.row_stride == 1) {
    for (int64_t i = 0; i < k; ++i) Copy(to + i * width, from + i * operand.k_stride, cols);
  } else {
    Transpose(from, operand.row_stride, to, width, cols, k);
  }
}

// P by rows: to[i * kRowPitch + k]. REQUIRES: k is contiguous in the operand.
void PackRows(const Operand& operand, int64_t first, int64_t rows, int64_t k0, int64_t k,
              float* to) {
  const float* from = operand.data + first * operand.row_stride + k0;
  for (int64_t i = 0; i < rows; ++i) Copy(to + i * kRowPitch, from + i * operand.row_stride, k);
}

// P interleaved: to[k * kTileRows + i]. REQUIRES: rows are contiguous in the operand.
void PackInterleaved(const Operand& operand, int64_t first, int64_t rows, int64_t k0, int64_t k,
                     float* to) {
  const float* from = operand.data + first + k0 * operand.k_stride;
  if (rows == kTileRows) {
    for (int64_t i = 0; i < k; ++i) {
      for (int r = 0; r < kTileRows; ++r) to[i * kTileRows + r] = from[i * operand.k_stride + r];
    }
  } else {
    for (int64_t i = 0; i < k; ++i) {
      for (int64_t r = 0; r < rows; ++r) to[i * kTileRows + r] = from[i * operand.k_stride + r];
    }
  }
}
