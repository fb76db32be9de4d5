/* One tile of an exact product, computed by one work-group of a GPU, in the subset of C that OpenCL
 * C and CUDA share. Operands go through local memory. Every thread keeps ACAN_THREAD_M x
 * ACAN_THREAD_N sums of c in registers, in the canonical order: a leaf of `block` is a chain of fma
 * from 0, k ascending; the binary counter of args.h adds the leaf sums. The sizes decide speed,
 * never bits.
 *
 * Includers define, besides what kernels.h needs:
 *   ACAN_LOCAL, ACAN_BARRIER()         address space and barrier of a work-group
 *   ACAN_UNROLL                        before loops of fixed length that must be unrolled
 *   ACAN_TILE_M, ACAN_TILE_N           c's tile of one work-group
 *   ACAN_TILE_K                        k that is in local memory at once; divides 16
 *   ACAN_THREAD_M, ACAN_THREAD_N       c's part of one thread; divide the tile
 *   ACAN_TILE_LEVELS                   levels of the tree: less than 2^ACAN_TILE_LEVELS leaves
 *   ACAN_SHORT_STEPS                   if a kernel has several products, whose unrolled steps would
 *                                      not fit into an instruction cache */
#ifndef ACAN_KERNELS_GEMM_TILE_H
#define ACAN_KERNELS_GEMM_TILE_H

#ifdef ACAN_SHORT_STEPS
#define ACAN_UNROLL_STEPS _Pragma("unroll 4")
#else
#define ACAN_UNROLL_STEPS ACAN_UNROLL
#endif
#define ACAN_TILE_COLS_OF_THREADS (ACAN_TILE_N / ACAN_THREAD_N)
#define ACAN_TILE_THREADS (ACAN_TILE_M / ACAN_THREAD_M * ACAN_TILE_COLS_OF_THREADS)
#define ACAN_TILE_SUMS (ACAN_THREAD_M * ACAN_THREAD_N)
/* One more word a row, so that threads that store down a column use different banks. */
#define ACAN_TILE_A_PITCH (ACAN_TILE_M + 1)
#define ACAN_TILE_B_PITCH (ACAN_TILE_N + 1)
#define ACAN_TILE_A_WORDS (ACAN_TILE_K * ACAN_TILE_A_PITCH)
#define ACAN_TILE_B_WORDS (ACAN_TILE_K * ACAN_TILE_B_PITCH)

/* An operand: element (row, k) is data[row * row_stride + k * k_stride]. One of the strides is
 * 1. */
typedef struct {
  const ACAN_GLOBAL float* data;
  acan_i64 row_stride;
  acan_i64 k_stride;
  acan_i64 rows;
} acan_operand;

/* to[kk * pitch + row] = element (row0 + row, k0 + kk), 0 beyond the rows or k_end. Neighbouring
 * threads read adjacent words. */
ACAN_FN void acan_tile_load(const acan_operand* from, acan_i64 row0, acan_i64 k0, acan_i64 k_end,
                            int height, int pitch, int thread, ACAN_LOCAL float* to) {
  int e;
  for (e = thread; e < height * ACAN_TILE_K; e += ACAN_TILE_THREADS) {
    const int row = from->k_stride == 1 ? e / ACAN_TILE_K : e % height;
    const int kk = from->k_stride == 1 ? e % ACAN_TILE_K : e / height;
    const int there = (row0 + row < from->rows) & (k0 + kk < k_end);
    to[kk * pitch + row] =
        there ? from->data[(row0 + row) * from->row_stride + (k0 + kk) * from->k_stride] : 0.0f;
  }
}

/* sums += a[., kk] * b[kk, .] of the local tiles. */
ACAN_FN void acan_tile_step(const ACAN_LOCAL float* a, const ACAN_LOCAL float* b, float* sums) {
  float left[ACAN_THREAD_M];
  float right[ACAN_THREAD_N];
  int i;
  int j;
  ACAN_UNROLL for (i = 0; i < ACAN_THREAD_M; ++i) left[i] = a[i];
  ACAN_UNROLL for (j = 0; j < ACAN_THREAD_N; ++j) right[j] = b[j * ACAN_TILE_COLS_OF_THREADS];
  ACAN_UNROLL for (i = 0; i < ACAN_THREAD_M; ++i) {
    ACAN_UNROLL for (j = 0; j < ACAN_THREAD_N; ++j) {
      sums[i * ACAN_THREAD_N + j] = ACAN_FMA(left[i], right[j], sums[i * ACAN_THREAD_N + j]);
    }
  }
}

/* Computes the leaf [begin, end) of all sums. A short last step is not padded: adding the product
 * of two zeros would turn -0 into 0. */
ACAN_FN void acan_tile_leaf(const acan_operand* a, const acan_operand* b, acan_i64 row0,
                            acan_i64 col0, acan_i64 begin, acan_i64 end, int thread,
                            ACAN_LOCAL float* tile_a, ACAN_LOCAL float* tile_b, float* sums) {
  const ACAN_LOCAL float* mine_a = tile_a + thread / ACAN_TILE_COLS_OF_THREADS * ACAN_THREAD_M;
  const ACAN_LOCAL float* mine_b = tile_b + thread % ACAN_TILE_COLS_OF_THREADS;
  acan_i64 k0;
  int kk;
  ACAN_UNROLL for (kk = 0; kk < ACAN_TILE_SUMS; ++kk) sums[kk] = 0.0f;
  for (k0 = begin; k0 < end; k0 += ACAN_TILE_K) {
    ACAN_BARRIER();
    acan_tile_load(a, row0, k0, end, ACAN_TILE_M, ACAN_TILE_A_PITCH, thread, tile_a);
    acan_tile_load(b, col0, k0, end, ACAN_TILE_N, ACAN_TILE_B_PITCH, thread, tile_b);
    ACAN_BARRIER();
    if (end - k0 >= ACAN_TILE_K) {
      ACAN_UNROLL_STEPS for (kk = 0; kk < ACAN_TILE_K; ++kk) {
        acan_tile_step(mine_a + kk * ACAN_TILE_A_PITCH, mine_b + kk * ACAN_TILE_B_PITCH, sums);
      }
    } else {
      for (kk = 0; kk < (int)(end - k0); ++kk) {
        acan_tile_step(mine_a + kk * ACAN_TILE_A_PITCH, mine_b + kk * ACAN_TILE_B_PITCH, sums);
      }
    }
  }
}

/* Computes the sums over [0, k) of the tile at row0 and col0. All ACAN_TILE_THREADS threads of the
 * work-group call it. tile_a, tile_b: local memory of ACAN_TILE_A_WORDS and ACAN_TILE_B_WORDS.
 * REQUIRES: k > 0; block a multiple of 16. */
ACAN_FN void acan_tile_product(const acan_operand* a, const acan_operand* b, acan_i64 row0,
                               acan_i64 col0, acan_i64 k, acan_i64 block, int thread,
                               ACAN_LOCAL float* tile_a, ACAN_LOCAL float* tile_b, float* sums) {
  float levels[ACAN_TILE_LEVELS][ACAN_TILE_SUMS];
  acan_i64 leaf;
  int i;
  for (leaf = 0;; ++leaf) {
    const acan_i64 begin = leaf * block;
    const int last = k - begin <= block;
    acan_i64 pending;
    int level = 0;
    acan_tile_leaf(a, b, row0, col0, begin, last ? k : begin + block, thread, tile_a, tile_b, sums);
    for (pending = leaf; last ? pending != 0 : (pending & 1) != 0; pending >>= 1, ++level) {
      if (!(pending & 1)) continue;
      ACAN_UNROLL for (i = 0; i < ACAN_TILE_SUMS; ++i) sums[i] = levels[level][i] + sums[i];
    }
    if (last) break;
    ACAN_UNROLL for (i = 0; i < ACAN_TILE_SUMS; ++i) levels[level][i] = sums[i];
  }
}

/* Computes tile (tile_row, tile_col) of c = a * b^T, as acan_tile_product. */
ACAN_FN void acan_gemm_tile(const acan_operand* a, const acan_operand* b, ACAN_GLOBAL float* c,
                            acan_i64 c_stride, acan_i64 k, acan_i64 block, acan_i64 tile_row,
                            acan_i64 tile_col, int thread, ACAN_LOCAL float* tile_a,
                            ACAN_LOCAL float* tile_b) {
  float sums[ACAN_TILE_SUMS];
  const acan_i64 row0 = tile_row * ACAN_TILE_M;
  const acan_i64 col0 = tile_col * ACAN_TILE_N;
  const acan_i64 row = row0 + thread / ACAN_TILE_COLS_OF_THREADS * ACAN_THREAD_M;
  const acan_i64 col = col0 + thread % ACAN_TILE_COLS_OF_THREADS;
  int i;
  int j;
  acan_tile_product(a, b, row0, col0, k, block, thread, tile_a, tile_b, sums);
  ACAN_UNROLL for (i = 0; i < ACAN_THREAD_M; ++i) {
    ACAN_UNROLL for (j = 0; j < ACAN_THREAD_N; ++j) {
      const acan_i64 at = col + j * ACAN_TILE_COLS_OF_THREADS;
      const float sum = sums[i * ACAN_THREAD_N + j];
      if ((row + i < a->rows) & (at < b->rows)) {
        c[(row + i) * c_stride + at] = sum == sum ? sum : ACAN_NAN;
      }
    }
  }
}

#endif /* ACAN_KERNELS_GEMM_TILE_H */
