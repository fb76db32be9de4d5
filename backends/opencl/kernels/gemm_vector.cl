/* Exact products on CPUs. One work-item computes several tiles of c with explicit vectors along its
 * columns: ACAN_ROWS x (ACAN_VECTORS x ACAN_WIDTH) sums, which fit into the registers. There is no
 * local memory. b is first packed into panels [k][ACAN_PANEL], which are then read sequentially; or
 * it is read in place (ACAN_DIRECT) if there is no room for one panel. Order of the sums: as in
 * gemm_tile.h. */
#define ACAN_JOIN_(x, y) x##y
#define ACAN_JOIN(x, y) ACAN_JOIN_(x, y)
#define ACAN_VEC ACAN_JOIN(float, ACAN_WIDTH)
#define ACAN_VEC_LOAD ACAN_JOIN(vload, ACAN_WIDTH)
#define ACAN_VEC_STORE ACAN_JOIN(vstore, ACAN_WIDTH)
#define ACAN_PANEL (ACAN_VECTORS * ACAN_WIDTH)
#define ACAN_PACK_K 64
#define ACAN_VECTOR_LEVELS 32
#define ACAN_ONE_ITEM __attribute__((reqd_work_group_size(1, 1, 1)))
#define ACAN_EACH_SUM                                 \
  ACAN_UNROLL for (int i = 0; i < ACAN_ROWS; ++i)     \
    ACAN_UNROLL for (int j = 0; j < ACAN_VECTORS; ++j)

/* Packs a panel whose k is contiguous, 4 x 4 elements at a time. */
ACAN_FN void acan_pack_transposed(const __global float* b, acan_i64 row_stride, acan_i64 begin,
                                  acan_i64 end, __global float* out) {
  for (int c = 0; c < ACAN_PANEL; c += 4) {
    const __global float* from = b + c * row_stride;
    for (acan_i64 x = begin; x < end; x += 4) {
      const float4 r0 = vload4(0, from + x);
      const float4 r1 = vload4(0, from + row_stride + x);
      const float4 r2 = vload4(0, from + 2 * row_stride + x);
      const float4 r3 = vload4(0, from + 3 * row_stride + x);
      __global float* to = out + x * ACAN_PANEL + c;
      vstore4((float4)(r0.s0, r1.s0, r2.s0, r3.s0), 0, to);
      vstore4((float4)(r0.s1, r1.s1, r2.s1, r3.s1), 0, to + ACAN_PANEL);
      vstore4((float4)(r0.s2, r1.s2, r2.s2, r3.s2), 0, to + 2 * ACAN_PANEL);
      vstore4((float4)(r0.s3, r1.s3, r2.s3, r3.s3), 0, to + 3 * ACAN_PANEL);
    }
  }
}

/* Packs panel get_global_id(0), part get_global_id(1) of k. Lanes beyond n are 0. */
ACAN_ONE_ITEM __kernel void acan_pack(const __global float* b, acan_i64 offset, acan_i64 row_stride,
                                      acan_i64 k_stride, acan_i64 n, acan_i64 k,
                                      __global float* out) {
  const acan_i64 col0 = (acan_i64)get_global_id(0) * ACAN_PANEL;
  const int cols = (int)min((acan_i64)ACAN_PANEL, n - col0);
  acan_i64 x = (acan_i64)get_global_id(1) * ACAN_PACK_K;
  const acan_i64 end = min(x + ACAN_PACK_K, k);
  b += offset + col0 * row_stride;
  out += col0 * k;
  if ((k_stride == 1) & (cols == ACAN_PANEL)) {
    const acan_i64 even_end = end - (end - x) % 4;
    acan_pack_transposed(b, row_stride, x, even_end, out);
    x = even_end;
  }
  for (; x < end; ++x) {
    for (int c = 0; c < ACAN_PANEL; ++c) {
      out[x * ACAN_PANEL + c] = c < cols ? b[x * k_stride + c * row_stride] : 0.0f;
    }
  }
}

/* Vector `j` of a panel's row x. */
#ifdef ACAN_DIRECT
#define ACAN_RIGHT(x, j) acan_right(b, b_row, b_k, cols, (x), (j) * ACAN_WIDTH)
ACAN_FN ACAN_VEC acan_right(const __global float* b, acan_i64 row_stride, acan_i64 k_stride,
                            int cols, acan_i64 x, int first) {
  float lanes[ACAN_WIDTH];
  for (int c = 0; c < ACAN_WIDTH; ++c) {
    lanes[c] = first + c < cols ? b[(first + c) * row_stride + x * k_stride] : 0.0f;
  }
  return ACAN_VEC_LOAD(0, lanes);
}
#else
#define ACAN_RIGHT(x, j) ACAN_VEC_LOAD(0, b + (x) * ACAN_PANEL + (j) * ACAN_WIDTH)
#endif

ACAN_FN void acan_store_row(ACAN_VEC sums, __global float* to, int cols) {
  float lanes[ACAN_WIDTH];
  if (cols >= ACAN_WIDTH) {
    ACAN_VEC_STORE(sums, 0, to);
    return;
  }
  ACAN_VEC_STORE(sums, 0, lanes);
  for (int c = 0; c < cols; ++c) to[c] = lanes[c];
}

/* Computes tile row get_global_id(1) * group and the `group` - 1 rows after it, for panel
 * get_global_id(0). `b` is packed, or the operand itself. */
ACAN_ONE_ITEM __kernel void acan_gemm(const __global float* a, acan_i64 a_offset, acan_i64 a_row,
                                      acan_i64 a_k, const __global float* b, acan_i64 b_offset,
                                      acan_i64 b_row, acan_i64 b_k, __global float* c,
                                      acan_i64 c_offset, acan_i64 c_stride, acan_i64 m, acan_i64 n,
                                      acan_i64 k, acan_i64 block, acan_i64 group) {
  const acan_i64 col0 = (acan_i64)get_global_id(0) * ACAN_PANEL;
  const int cols = (int)min((acan_i64)ACAN_PANEL, n - col0);
  const acan_i64 first = (acan_i64)get_global_id(1) * group * ACAN_ROWS;
  const acan_i64 row_end = min(first + group * ACAN_ROWS, m);
  float levels[ACAN_VECTOR_LEVELS][ACAN_ROWS * ACAN_PANEL];
#ifdef ACAN_DIRECT
  b += b_offset + col0 * b_row;
#else
  b += col0 * k;
#endif
  for (acan_i64 row0 = first; row0 < row_end; row0 += ACAN_ROWS) {
    const __global float* left[ACAN_ROWS];
    ACAN_VEC sums[ACAN_ROWS][ACAN_VECTORS];
    for (int i = 0; i < ACAN_ROWS; ++i) left[i] = a + a_offset + min(row0 + i, m - 1) * a_row;
    for (acan_i64 leaf = 0;; ++leaf) {
      const acan_i64 begin = leaf * block;
      const int last = k - begin <= block;
      const acan_i64 end = last ? k : begin + block;
      ACAN_EACH_SUM sums[i][j] = (ACAN_VEC)(0.0f);
      for (acan_i64 x = begin; x < end; ++x) {
        ACAN_VEC right[ACAN_VECTORS];
        ACAN_UNROLL for (int j = 0; j < ACAN_VECTORS; ++j) right[j] = ACAN_RIGHT(x, j);
        ACAN_UNROLL for (int i = 0; i < ACAN_ROWS; ++i) {
          const ACAN_VEC each = (ACAN_VEC)(left[i][x * a_k]);
          ACAN_UNROLL for (int j = 0; j < ACAN_VECTORS; ++j) {
            sums[i][j] = ACAN_FMA(each, right[j], sums[i][j]);
          }
        }
      }
      int level = 0;
      for (acan_i64 y = leaf; last ? y != 0 : (y & 1) != 0; y >>= 1, ++level) {
        if (!(y & 1)) continue;
        ACAN_EACH_SUM {
          sums[i][j] =
              ACAN_VEC_LOAD(0, levels[level] + i * ACAN_PANEL + j * ACAN_WIDTH) + sums[i][j];
        }
      }
      if (last) break;
      ACAN_EACH_SUM ACAN_VEC_STORE(sums[i][j], 0, levels[level] + i * ACAN_PANEL + j * ACAN_WIDTH);
    }
    ACAN_EACH_SUM {
      const ACAN_VEC sum = select((ACAN_VEC)(ACAN_NAN), sums[i][j], sums[i][j] == sums[i][j]);
      if (row0 + i < m) {
        acan_store_row(sum, c + c_offset + (row0 + i) * c_stride + col0 + j * ACAN_WIDTH,
                       cols - j * ACAN_WIDTH);
      }
    }
  }
}
