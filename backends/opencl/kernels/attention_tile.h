/* What the kernels of exact attention on GPUs share. The bits are those of
 * acan/kernels/attention.h; only the distribution of the work differs. A work-group has a tile of
 * 64 queries (or keys) and goes through leaves of 64 keys (or queries). It computes each product q
 * . k once, turns it into what the sums need (a weight or a slope), and then adds the leaf's rows.
 * Both steps multiply in local memory, as gemm_tile.h does:
 *
 *                           a[row, k]                        b[k, col]
 *   products q . k          the tile's columns               the leaf's columns
 *   sums over the leaf      pairs of tile and leaf           64 columns of the leaf's rows
 *
 * A launch computes one block of 64 columns of its results. Heads with more columns have a launch
 * for each block, which computes the products again.
 *
 * Includers define what gemm_tile.h needs, and ACAN_LOCAL_WORDS: the words of 4 bytes that the host
 * gives to each group. */
#ifndef ACAN_KERNELS_ATTENTION_TILE_H
#define ACAN_KERNELS_ATTENTION_TILE_H

#if ACAN_TILE_M != ACAN_ATTENTION_LEAF || ACAN_TILE_N != ACAN_ATTENTION_LEAF
#error "a tile has as many rows as a leaf"
#endif

/* Local memory: tile_a | tile_b | pairs [row of the leaf][row of the tile] | three words for each
 * row of the tile or of the leaf, [3][row]. */
#define ACAN_AT_PAIRS (ACAN_TILE_A_WORDS + ACAN_TILE_B_WORDS)
#define ACAN_AT_ROW_WORDS (ACAN_AT_PAIRS + ACAN_ATTENTION_LEAF * ACAN_TILE_A_PITCH)
#if ACAN_LOCAL_WORDS != ACAN_AT_ROW_WORDS + 3 * ACAN_ATTENTION_LEAF
#error "the host gives a group more or less local memory than a tile needs"
#endif

#define ACAN_ATTENTION_TILE_LEVELS 10 /* up to 2^10 leaves */

/* A work-item, its group's local memory, and its first row and column of the tile. It has rows
 * row + i and columns col + j * ACAN_TILE_COLS_OF_THREADS. */
typedef struct {
  int thread;
  int row;
  int col;
  ACAN_LOCAL float* tile_a;
  ACAN_LOCAL float* tile_b;
  ACAN_LOCAL float* pairs;
  ACAN_LOCAL float* words;
} acan_attention_item;

ACAN_FN acan_attention_item acan_attention_item_of(const acan_args* a) {
  acan_attention_item item;
  item.thread = (int)get_local_id(0);
  item.row = item.thread / ACAN_TILE_COLS_OF_THREADS * ACAN_THREAD_M;
  item.col = item.thread % ACAN_TILE_COLS_OF_THREADS;
  item.tile_a = (ACAN_LOCAL float*)a->shared;
  item.tile_b = item.tile_a + ACAN_TILE_A_WORDS;
  item.pairs = item.tile_a + ACAN_AT_PAIRS;
  item.words = item.tile_a + ACAN_AT_ROW_WORDS;
  return item;
}

/* A head's columns in the rows of a matrix from `first` on, as the factors of products q . k. */
ACAN_FN acan_operand acan_attention_rows(const acan_matrix* m, acan_i64 first, acan_i64 count,
                                         acan_i64 col) {
  acan_operand out;
  out.data = m->data + first * m->stride + col;
  out.row_stride = m->stride;
  out.k_stride = 1;
  out.rows = count;
  return out;
}

/* The same rows as factors of sums over a leaf: k counts the rows. */
ACAN_FN acan_operand acan_attention_summed(const acan_operand* rows, acan_i64 width) {
  acan_operand out;
  out.data = rows->data;
  out.row_stride = 1;
  out.k_stride = rows->row_stride;
  out.rows = width;
  return out;
}

/* The product of each pair of the item's rows (of the tile, from row0 on) and columns (rows of the
 * leaf, from `first` on). */
ACAN_FN void acan_attention_products(const acan_attention_item* item, const acan_operand* tile,
                                     acan_i64 row0, const acan_operand* leaf, acan_i64 first,
                                     acan_i64 width, float* sums) {
  acan_tile_product(tile, leaf, row0, first, width, ACAN_ATTENTION_LEAF, item->thread, item->tile_a,
                    item->tile_b, sums);
}

/* Where pair (i, j) of the item is in local memory. */
ACAN_FN ACAN_LOCAL float* acan_attention_pair_at(const acan_attention_item* item, int i, int j) {
  return item->pairs + (item->col + j * ACAN_TILE_COLS_OF_THREADS) * ACAN_TILE_A_PITCH + item->row +
         i;
}

/* Applies dropout to the item's pairs, which are weights; those that it drops become `dropped`.
 * first_row, first_col: the queries or keys with which the tile and the leaf begin. It draws in a
 * loop, because the compiler would otherwise copy the generator for each pair. */
ACAN_FN void acan_attention_drop_pairs(const acan_args* a, const acan_attention_item* item,
                                       const acan_attention_call* call,
                                       const acan_attention_place* at, acan_i64 first_row,
                                       acan_i64 first_col, int rows_are_queries, float dropped) {
  int of;
  if (!(a->f[1] > 0.0f)) return;
  ACAN_NO_UNROLL for (of = 0; of < ACAN_TILE_SUMS; ++of) {
    const int i = of / ACAN_THREAD_N;
    const int j = of % ACAN_THREAD_N;
    const acan_i64 row = first_row + item->row + i;
    const acan_i64 col = first_col + item->col + j * ACAN_TILE_COLS_OF_THREADS;
    ACAN_LOCAL float* pair = acan_attention_pair_at(item, i, j);
    const float draw = acan_attention_drop(a, call, at->sequence, rows_are_queries ? row : col,
                                           at->head, rows_are_queries ? col : row, 1.0f);
    *pair = draw == 0.0f ? dropped : *pair * draw;
  }
}

/* ---- which pairs exist ---- */

/* Each row of the item sees rows [from, to) of the leaf. */
typedef struct {
  int from[ACAN_THREAD_M];
  int to[ACAN_THREAD_M];
} acan_attention_sight;

ACAN_FN int acan_attention_within_leaf(acan_i64 row) {
  return row < 0 ? 0 : row > ACAN_ATTENTION_LEAF ? ACAN_ATTENTION_LEAF : (int)row;
}

ACAN_FN int acan_attention_sees_all(const acan_attention_sight* sight) {
  int all = 1;
  int i;
  ACAN_UNROLL for (i = 0; i < ACAN_THREAD_M; ++i) {
    all = all & (sight->from[i] == 0) & (sight->to[i] == ACAN_ATTENTION_LEAF);
  }
  return all;
}

/* ---- sums over the rows of a leaf ---- */

/* As acan_tile_step, only for the rows that see row k of the leaf. */
ACAN_FN void acan_attention_step(const ACAN_LOCAL float* a, const ACAN_LOCAL float* b,
                                 const acan_attention_sight* sight, int k, float* sums) {
  int i;
  int j;
  ACAN_UNROLL for (i = 0; i < ACAN_THREAD_M; ++i) {
    if (k < sight->from[i] || k >= sight->to[i]) continue;
    ACAN_UNROLL for (j = 0; j < ACAN_THREAD_N; ++j) {
      sums[i * ACAN_THREAD_N + j] =
          ACAN_FMA(a[i], b[j * ACAN_TILE_COLS_OF_THREADS], sums[i * ACAN_THREAD_N + j]);
    }
  }
}

/* Chains from 0 of pair * leaf's row over the `count` rows of the leaf at `first`, ascending, for
 * 64 columns from col0 on. By all items of a group, whose pairs may have been written just before.
 */
ACAN_FN void acan_attention_add_leaf(const acan_attention_item* item, const acan_operand* summed,
                                     acan_i64 col0, acan_i64 first, int count,
                                     const acan_attention_sight* sight, float* sums) {
  const ACAN_LOCAL float* mine_a = item->pairs + item->row;
  const ACAN_LOCAL float* mine_b = item->tile_b + item->col;
  const int all = acan_attention_sees_all(sight);
  int k0;
  int kk;
  ACAN_UNROLL for (kk = 0; kk < ACAN_TILE_SUMS; ++kk) sums[kk] = 0.0f;
  for (k0 = 0; k0 < count; k0 += ACAN_TILE_K) {
    const ACAN_LOCAL float* part = mine_a + k0 * ACAN_TILE_A_PITCH;
    ACAN_BARRIER();
    acan_tile_load(summed, col0, first + k0, first + count, ACAN_TILE_N, ACAN_TILE_B_PITCH,
                   item->thread, item->tile_b);
    ACAN_BARRIER();
    if (all) {
      ACAN_UNROLL_STEPS for (kk = 0; kk < ACAN_TILE_K; ++kk) {
        acan_tile_step(part + kk * ACAN_TILE_A_PITCH, mine_b + kk * ACAN_TILE_B_PITCH, sums);
      }
    } else {
      for (kk = 0; kk < ACAN_TILE_K && k0 + kk < count; ++kk) {
        acan_attention_step(part + kk * ACAN_TILE_A_PITCH, mine_b + kk * ACAN_TILE_B_PITCH, sight,
                            k0 + kk, sums);
      }
    }
  }
}

/* Stores row i of the item, times a factor. */
ACAN_FN void acan_attention_store(const acan_attention_item* item, const acan_matrix* to,
                                  acan_i64 row, acan_i64 head_col, acan_i64 col0, acan_i64 width,
                                  const float* sums, int i, float factor) {
  int j;
  ACAN_UNROLL for (j = 0; j < ACAN_THREAD_N; ++j) {
    const acan_i64 c = col0 + item->col + j * ACAN_TILE_COLS_OF_THREADS;
    if (c < width) acan_store(to, row, head_col + c, sums[i * ACAN_THREAD_N + j] * factor);
  }
}

/* Which queries of an item end with a leaf, if query i sees seen[i] keys in this leaf and later. */
typedef struct {
  int any_is_last;
  int any_goes_on;
} acan_attention_ends;

ACAN_FN acan_attention_ends acan_attention_ends_of(const int* seen) {
  acan_attention_ends ends;
  int i;
  ends.any_is_last = 0;
  ends.any_goes_on = 0;
  ACAN_UNROLL for (i = 0; i < ACAN_THREAD_M; ++i) {
    ends.any_is_last = ends.any_is_last | ((seen[i] > 0) & (seen[i] <= ACAN_ATTENTION_LEAF));
    ends.any_goes_on = ends.any_goes_on | (seen[i] > ACAN_ATTENTION_LEAF);
  }
  return ends;
}

/* The number of levels of the tree that end with a leaf: its trailing ones. */
ACAN_FN int acan_attention_ending(int leaf) {
  int levels = 0;
  for (; leaf & 1; leaf >>= 1) ++levels;
  return levels;
}

#endif /* ACAN_KERNELS_ATTENTION_TILE_H */
