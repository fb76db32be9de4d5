/* One tile of an exact product, computed by one block of a GPU with registers for many sums, in the
 * subset of C and with the macros of the kernels that all devices share. It differs from OpenCL's
 * gemm_tile.h: operands are loaded four floats at a time and one step ahead of their use; shared
 * memory holds two steps, so that one barrier a step is enough; and a thread's part of c consists
 * of quads (four adjacent rows or columns), so that it reads four floats of shared memory at once.
 *
 * Order of the sums: a leaf of `block` is a chain of fma from 0, k ascending; the binary counter of
 * args.h adds the leaf sums. The sizes decide speed, never bits.
 *
 * Threads come in warps of 32, four down by eight across, each with ACAN_QUADS_M quads of rows by
 * ACAN_QUADS_N quads of columns. So the 32 threads of one read of shared memory ask for few
 * different words, all in different banks.
 *
 * Includers define, besides what kernels.h needs:
 *   ACAN_LOCAL, ACAN_BARRIER()         address space and barrier of a block
 *   ACAN_UNROLL                        before loops of fixed length that must be unrolled
 *   ACAN_FLOAT4                        four floats x, y, z, w, aligned to 16 bytes
 *   ACAN_WARPS_M, ACAN_WARPS_N         warps of a block, down and across
 *   ACAN_QUADS_M, ACAN_QUADS_N         quads of one thread
 *   ACAN_QUAD_LEVELS                   levels of the tree: at most 2^ACAN_QUAD_LEVELS leaves */
#pragma once

#define ACAN_QUAD_STEP 8 /* of k; divides 16 */
#define ACAN_QUAD_TILE_M (ACAN_WARPS_M * ACAN_QUADS_M * 16)
#define ACAN_QUAD_TILE_N (ACAN_WARPS_N * ACAN_QUADS_N * 32)
#define ACAN_QUAD_THREADS (ACAN_WARPS_M * ACAN_WARPS_N * 32)
#define ACAN_QUAD_ROWS (ACAN_QUADS_M * 4)
#define ACAN_QUAD_COLS (ACAN_QUADS_N * 4)
#define ACAN_QUAD_SUMS (ACAN_QUAD_ROWS * ACAN_QUAD_COLS)
/* Every thread loads one quad of each operand per step. */
#if 2 * ACAN_QUAD_TILE_M != ACAN_QUAD_THREADS || 2 * ACAN_QUAD_TILE_N != ACAN_QUAD_THREADS
#error "tiles must be squares with an edge of half as many elements as there are threads"
#endif
#define ACAN_QUAD_EDGE ACAN_QUAD_TILE_M
/* Four more words a row: quads stay aligned, and transposed quads are in different banks. */
#define ACAN_QUAD_PITCH (ACAN_QUAD_EDGE + 4)
#define ACAN_QUAD_OPERAND_WORDS (ACAN_QUAD_STEP * ACAN_QUAD_PITCH)
/* Words of shared memory, aligned to 16 bytes. */
#define ACAN_QUAD_WORDS (2 * 2 * ACAN_QUAD_OPERAND_WORDS)

/* An operand: element (row, k) is data[row * row_stride + k * k_stride]. One of the strides is
 * 1. */
typedef struct {
  const ACAN_GLOBAL float* data;
  acan_i64 row_stride;
  acan_i64 k_stride;
  acan_i64 rows;
} acan_quad_operand;

/* Where one thread reads its quad of every step, and where it writes it. */
typedef struct {
  const ACAN_GLOBAL float* from; /* of the next step */
  acan_i64 step;                 /* words from one step's quad to the next one's */
  int k;                         /* of the quad's first element within a step */
  int last;                      /* k first: rows beyond the operand's last repeat that one */
  int to;                        /* word of the operand's shared tile */
} acan_quad_source;

/* k_first: a quad has four rows (row_stride is 1); otherwise it has four k (k_stride is 1). */
ACAN_FN acan_quad_source acan_quad_find(const acan_quad_operand* operand, int k_first, int vector,
                                        acan_i64 row0, int thread) {
  acan_quad_source s;
  acan_i64 row;
  if (k_first) {
    const int quad = thread % (ACAN_QUAD_EDGE / 4) * 4;
    const acan_i64 most = operand->rows - (vector ? 4 : 1);
    s.k = thread / (ACAN_QUAD_EDGE / 4);
    row = row0 + quad;
    row = row < most ? row : most;
    s.last = operand->rows - 1 - row < 3 ? (int)(operand->rows - 1 - row) : 3;
    s.to = s.k * ACAN_QUAD_PITCH + quad;
    s.from = operand->data + row + s.k * operand->k_stride;
    s.step = ACAN_QUAD_STEP * operand->k_stride;
  } else {
    const int within = thread / (ACAN_QUAD_STEP / 4);
    s.k = thread % (ACAN_QUAD_STEP / 4) * 4;
    row = row0 + within;
    row = row < operand->rows ? row : operand->rows - 1;
    s.last = 3;
    s.to = s.k * ACAN_QUAD_PITCH + within;
    s.from = operand->data + row * operand->row_stride + s.k;
    s.step = ACAN_QUAD_STEP;
  }
  return s;
}

/* Reads the quad of the next step, of which `left` k exist; elements beyond them are 0 and not
 * used. */
ACAN_FN ACAN_FLOAT4 acan_quad_fetch(acan_quad_source* s, int k_first, int vector, int left) {
  const ACAN_GLOBAL float* from = s->from;
  ACAN_FLOAT4 quad;
  s->from = from + s->step;
  if (vector && (k_first ? s->k < left : left >= ACAN_QUAD_STEP)) {
    return *(const ACAN_GLOBAL ACAN_FLOAT4*)from;
  }
  quad.x = quad.y = quad.z = quad.w = 0.0f;
  if (vector && k_first) return quad;
  if (k_first) {
    if (s->k < left) {
      quad.x = from[0];
      quad.y = from[s->last < 1 ? s->last : 1];
      quad.z = from[s->last < 2 ? s->last : 2];
      quad.w = from[s->last];
    }
  } else {
    if (s->k < left) quad.x = from[0];
    if (s->k + 1 < left) quad.y = from[1];
    if (s->k + 2 < left) quad.z = from[2];
    if (s->k + 3 < left) quad.w = from[3];
  }
  return quad;
}

ACAN_FN void acan_quad_put(const acan_quad_source* s, int k_first, ACAN_FLOAT4 quad,
                           ACAN_LOCAL float* tile) {
  ACAN_LOCAL float* to = tile + s->to;
  if (k_first) {
    *(ACAN_LOCAL ACAN_FLOAT4*)to = quad;
  } else {
    to[0] = quad.x;
    to[ACAN_QUAD_PITCH] = quad.y;
    to[2 * ACAN_QUAD_PITCH] = quad.z;
    to[3 * ACAN_QUAD_PITCH] = quad.w;
  }
}

/* sums += a[., kk] * b[kk, .] of the shared tiles, for one kk. */
ACAN_FN void acan_quad_step(const ACAN_LOCAL float* a, const ACAN_LOCAL float* b, float* sums) {
  float left[ACAN_QUAD_ROWS];
  float right[ACAN_QUAD_COLS];
  int i;
  int j;
  ACAN_UNROLL for (i = 0; i < ACAN_QUADS_M; ++i) {
    const ACAN_FLOAT4 quad = *(const ACAN_LOCAL ACAN_FLOAT4*)(a + i * 16);
    left[i * 4] = quad.x;
    left[i * 4 + 1] = quad.y;
    left[i * 4 + 2] = quad.z;
    left[i * 4 + 3] = quad.w;
  }
  ACAN_UNROLL for (j = 0; j < ACAN_QUADS_N; ++j) {
    const ACAN_FLOAT4 quad = *(const ACAN_LOCAL ACAN_FLOAT4*)(b + j * 32);
    right[j * 4] = quad.x;
    right[j * 4 + 1] = quad.y;
    right[j * 4 + 2] = quad.z;
    right[j * 4 + 3] = quad.w;
  }
  ACAN_UNROLL for (i = 0; i < ACAN_QUAD_ROWS; ++i) {
    ACAN_UNROLL for (j = 0; j < ACAN_QUAD_COLS; ++j) {
      sums[i * ACAN_QUAD_COLS + j] = ACAN_FMA(left[i], right[j], sums[i * ACAN_QUAD_COLS + j]);
    }
  }
}

ACAN_FN float acan_quad_result(float sum) {
  return sum == sum ? sum : ACAN_NAN;
}

/* Stores one row of one quad of columns; `at` is its first column. */
ACAN_FN void acan_quad_store(ACAN_GLOBAL float* row, acan_i64 at, acan_i64 cols, int vector,
                             const float* sums) {
  int i;
  if (vector && at + 3 < cols) {
    ACAN_FLOAT4 quad;
    quad.x = acan_quad_result(sums[0]);
    quad.y = acan_quad_result(sums[1]);
    quad.z = acan_quad_result(sums[2]);
    quad.w = acan_quad_result(sums[3]);
    *(ACAN_GLOBAL ACAN_FLOAT4*)(row + at) = quad;
    return;
  }
  ACAN_UNROLL for (i = 0; i < 4; ++i) {
    if (at + i < cols) row[at + i] = acan_quad_result(sums[i]);
  }
}

/* Computes tile (tile_row, tile_col) of c[m, n] = a[m, k] * b[n, k]^T. All ACAN_QUAD_THREADS
 * threads of the block call it. `tiles`: shared memory of ACAN_QUAD_WORDS.
 * a_k_first, b_k_first: row_stride is 1; otherwise k_stride is 1. They and `vector` should be
 * constants.
 * REQUIRES: k > 0; block a multiple of 16. With `vector` every quad is aligned: data, c and all
 * strides but the 1 are multiples of 4 words, and so are the rows of an operand with k first. */
ACAN_FN void acan_gemm_quads(const acan_quad_operand* a, const acan_quad_operand* b, int a_k_first,
                             int b_k_first, int vector, ACAN_GLOBAL float* c, acan_i64 c_stride,
                             acan_i64 k, int block, acan_i64 tile_row, acan_i64 tile_col,
                             int thread, ACAN_LOCAL float* tiles) {
  float sums[ACAN_QUAD_SUMS];
  /* Used once a leaf, so it is in the device's memory, behind its cache, and not in registers. */
  __attribute__((aligned(16))) float levels[ACAN_QUAD_LEVELS][ACAN_QUAD_SUMS];
  const int warp = thread / 32;
  const int my_row = warp / ACAN_WARPS_N * (16 * ACAN_QUADS_M) + thread % 32 / 8 * 4;
  const int my_col = warp % ACAN_WARPS_N * (32 * ACAN_QUADS_N) + thread % 8 * 4;
  acan_quad_source from_a = acan_quad_find(a, a_k_first, vector, tile_row * ACAN_QUAD_EDGE, thread);
  acan_quad_source from_b = acan_quad_find(b, b_k_first, vector, tile_col * ACAN_QUAD_EDGE, thread);
  const int steps_of_leaf = block / ACAN_QUAD_STEP;
  int steps_left = steps_of_leaf;
  acan_i64 left = k;
  acan_u32 leaf = 0;
  int filled = 0; /* first word of the tiles of this step */
  int i;
  int j;
  ACAN_FLOAT4 next_a = acan_quad_fetch(&from_a, a_k_first, vector, left < 8 ? (int)left : 8);
  ACAN_FLOAT4 next_b = acan_quad_fetch(&from_b, b_k_first, vector, left < 8 ? (int)left : 8);
  acan_quad_put(&from_a, a_k_first, next_a, tiles);
  acan_quad_put(&from_b, b_k_first, next_b, tiles + ACAN_QUAD_OPERAND_WORDS);
  ACAN_BARRIER();
  ACAN_UNROLL for (i = 0; i < ACAN_QUAD_SUMS; ++i) sums[i] = 0.0f;
  for (;; left -= ACAN_QUAD_STEP) {
    const ACAN_LOCAL float* mine_a = tiles + filled + my_row;
    const ACAN_LOCAL float* mine_b = tiles + filled + ACAN_QUAD_OPERAND_WORDS + my_col;
    const int more = left > ACAN_QUAD_STEP;
    if (more) {
      const int next = left < 2 * ACAN_QUAD_STEP ? (int)left - ACAN_QUAD_STEP : ACAN_QUAD_STEP;
      next_a = acan_quad_fetch(&from_a, a_k_first, vector, next);
      next_b = acan_quad_fetch(&from_b, b_k_first, vector, next);
    }
    /* A short last step is not padded: adding the product of two zeros would turn -0 into 0. */
    if (left >= ACAN_QUAD_STEP) {
      ACAN_UNROLL for (i = 0; i < ACAN_QUAD_STEP; ++i) {
        acan_quad_step(mine_a + i * ACAN_QUAD_PITCH, mine_b + i * ACAN_QUAD_PITCH, sums);
      }
    } else {
      ACAN_NO_UNROLL for (i = 0; i < (int)left; ++i) {
        acan_quad_step(mine_a + i * ACAN_QUAD_PITCH, mine_b + i * ACAN_QUAD_PITCH, sums);
      }
    }
    if (--steps_left == 0 || !more) {
      acan_u32 pending;
      int level = 0;
      ACAN_NO_UNROLL for (pending = leaf; more ? (pending & 1) != 0 : pending != 0;
                          pending >>= 1, ++level) {
        if (!(pending & 1)) continue;
        ACAN_UNROLL for (i = 0; i < ACAN_QUAD_SUMS; ++i) sums[i] = levels[level][i] + sums[i];
      }
      if (!more) break;
      ACAN_UNROLL for (i = 0; i < ACAN_QUAD_SUMS; ++i) levels[level][i] = sums[i];
      ACAN_UNROLL for (i = 0; i < ACAN_QUAD_SUMS; ++i) sums[i] = 0.0f;
      ++leaf;
      steps_left = steps_of_leaf;
    }
    filled ^= 2 * ACAN_QUAD_OPERAND_WORDS;
    acan_quad_put(&from_a, a_k_first, next_a, tiles + filled);
    acan_quad_put(&from_b, b_k_first, next_b, tiles + filled + ACAN_QUAD_OPERAND_WORDS);
    ACAN_BARRIER();
  }
  ACAN_UNROLL for (i = 0; i < ACAN_QUAD_ROWS; ++i) {
    const acan_i64 row = tile_row * ACAN_QUAD_EDGE + my_row + i / 4 * 16 + i % 4;
    if (row < a->rows) {
      ACAN_UNROLL for (j = 0; j < ACAN_QUADS_N; ++j) {
        acan_quad_store(c + row * c_stride, tile_col * ACAN_QUAD_EDGE + my_col + j * 32, b->rows,
                        vector, sums + i * ACAN_QUAD_COLS + j * 4);
      }
    }
  }
}
