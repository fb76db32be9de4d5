/* The gradient of exact attention on GPUs; attention_tile.h describes the method. Three kernels run
 * one after the other:
 *
 *   terms     what acan_attention_row holds for each head of a query, in the first words of the
 *             head's columns of dq
 *   keys      dk and dv; reads the terms
 *   queries   dq, which overwrites the terms: the launch for the first block of columns is the last
 */
#define ACAN_TERMS 3 /* words: shifted, inverse, term */
#define ACAN_SIGN 0x80000000u /* of -0 */

/* ---- the terms ---- */

/* Dimension 0: the queries of all sequences; dimension 1: the heads. */
__kernel void acan_attention_terms(const acan_launch l, ACAN_MEMORY) {
  const acan_args a = acan_args_of(&l, ACAN_MEMORY_GIVEN);
  const acan_attention_call call = acan_attention_call_of(&a, &a.m[3]);
  const acan_i64 row = get_global_id(0);
  const acan_i64 head = get_global_id(1);
  acan_attention_row of;
  if (row >= a.m[3].rows) return;
  of = acan_attention_row_of(&a, &call, row, head);
  a.m[0].data[row * a.m[0].stride + head * call.width] = of.shifted;
  a.m[0].data[row * a.m[0].stride + head * call.width + 1] = of.inverse;
  a.m[0].data[row * a.m[0].stride + head * call.width + 2] = of.term;
}

/* What all tiles of a sequence and a head of keys share. */
typedef struct {
  acan_attention_call call;
  acan_attention_place at; /* of the head of queries; without a query */
  acan_i64 number;         /* of the head of keys */
  acan_i64 keys;           /* that exist */
  acan_i64 first_row;      /* of the sequence in q */
  acan_i64 col0;           /* the launch's first column of the head */
} acan_attention_heads;

ACAN_FN acan_attention_heads acan_attention_find_heads(const acan_args* a, acan_i64 r,
                                                       acan_i64 col0) {
  acan_attention_heads of;
  acan_i64 key_heads;
  of.call = acan_attention_call_of(a, &a->m[3]);
  key_heads = of.call.heads / of.call.shared;
  of.number = r % key_heads;
  of.at.sequence = r / key_heads;
  of.at.key_row = of.at.sequence * of.call.keys;
  of.at.k_col = of.number * of.call.width;
  of.keys = acan_attention_keys(&of.call, &a->m[6], of.at.sequence);
  of.first_row = of.at.sequence * of.call.queries;
  of.col0 = col0;
  return of;
}

ACAN_FN void acan_attention_take_head(acan_attention_heads* of, acan_i64 h) {
  of->at.head = of->number * of->call.shared + h;
  of->at.q_col = of->at.head * of->call.width;
}

ACAN_FN acan_operand acan_attention_query_rows(const acan_args* a, int m,
                                               const acan_attention_heads* of) {
  return acan_attention_rows(&a->m[m], of->first_row, of->call.queries, of->at.q_col);
}

ACAN_FN acan_operand acan_attention_key_rows(const acan_args* a, int m,
                                             const acan_attention_heads* of) {
  return acan_attention_rows(&a->m[m], of->at.key_row, of->call.keys, of->at.k_col);
}

/* Copies the terms of 64 queries from `first` on to local memory; a barrier must follow. */
ACAN_FN void acan_attention_bring_terms(const acan_args* a, const acan_attention_item* item,
                                        const acan_attention_heads* of, acan_i64 first) {
  int e;
  for (e = item->thread; e < ACAN_TERMS * ACAN_ATTENTION_LEAF; e += ACAN_TILE_THREADS) {
    const int query = e % ACAN_ATTENTION_LEAF;
    const acan_i64 row = of->first_row + first + query;
    item->words[e] =
        first + query < of->call.queries
            ? a->m[0].data[row * a->m[0].stride + of->at.q_col + e / ACAN_ATTENTION_LEAF]
            : 0.0f;
  }
}

/* ---- weights and slopes ---- */

/* The query of pair (i, j), in the tile or in the leaf. */
ACAN_FN int acan_attention_query_of(const acan_attention_item* item, int i, int j,
                                    int rows_are_queries) {
  return rows_are_queries ? item->row + i : item->col + j * ACAN_TILE_COLS_OF_THREADS;
}

/* Turns products into weights before dropout, and pairs into weights after dropout: -0 where it
 * drops them. In a sum, which begins at 0 and is added to 0, -0 is as good as 0. first_row,
 * first_col: the queries or keys with which the tile and the leaf begin. */
ACAN_FN void acan_attention_find_weights(const acan_args* a, const acan_attention_item* item,
                                         const acan_attention_heads* of, acan_i64 first_row,
                                         acan_i64 first_col, int rows_are_queries,
                                         const float* products, float* weights) {
  int i;
  int j;
  ACAN_UNROLL for (i = 0; i < ACAN_THREAD_M; ++i) {
    ACAN_UNROLL for (j = 0; j < ACAN_THREAD_N; ++j) {
      const int query = acan_attention_query_of(item, i, j, rows_are_queries);
      const float score = acan_attention_score(products[i * ACAN_THREAD_N + j], a->f[0]);
      const float weight = acan_attention_weight(score, item->words[query]) *
                           item->words[ACAN_ATTENTION_LEAF + query];
      weights[i * ACAN_THREAD_N + j] = weight;
      *acan_attention_pair_at(item, i, j) = weight;
    }
  }
  acan_attention_drop_pairs(a, item, &of->call, &of->at, first_row, first_col, rows_are_queries,
                            -0.0f);
}

/* Turns pairs into slopes. pairs, weights: from acan_attention_find_weights; gradients: the products
 * of d_o and v. */
ACAN_FN void acan_attention_find_slopes(const acan_args* a, const acan_attention_item* item,
                                        int rows_are_queries, const float* weights,
                                        const float* gradients) {
  const int drops = a->f[1] > 0.0f;
  int i;
  int j;
  ACAN_UNROLL for (i = 0; i < ACAN_THREAD_M; ++i) {
    ACAN_UNROLL for (j = 0; j < ACAN_THREAD_N; ++j) {
      const int query = acan_attention_query_of(item, i, j, rows_are_queries);
      const float term = item->words[2 * ACAN_ATTENTION_LEAF + query];
      ACAN_LOCAL float* pair = acan_attention_pair_at(item, i, j);
      float gradient = gradients[i * ACAN_THREAD_N + j];
      if (drops) gradient = ACAN_AS_U32(*pair) == ACAN_SIGN ? 0.0f : gradient * a->f[2];
      *pair = acan_attention_slope(weights[i * ACAN_THREAD_N + j], gradient, term, a->f[0]);
    }
  }
}

/* ---- sums over leaves ---- */

/* An item's sums of some leaves. */
typedef struct {
  float v[ACAN_TILE_SUMS];
} acan_attention_tile_sums;

/* sums = left + sums. */
ACAN_FN void acan_attention_add_sums(const acan_attention_tile_sums* left, float* sums) {
  int i;
  ACAN_UNROLL for (i = 0; i < ACAN_TILE_SUMS; ++i) sums[i] = left->v[i] + sums[i];
}

ACAN_FN void acan_attention_keep_sums(const float* sums, acan_attention_tile_sums* kept) {
  int i;
  ACAN_UNROLL for (i = 0; i < ACAN_TILE_SUMS; ++i) kept->v[i] = sums[i];
}

/* ---- the gradient of queries ---- */

/* Pushes leaf number `leaf` for each query that sees it, and stores the queries whose last leaf it
 * is. seen: the keys that each query of the item sees in this leaf and later; -1 and less for
 * queries that do not exist. */
ACAN_FN void acan_attention_end_key_leaf(const acan_args* a, const acan_attention_item* item,
                                         const acan_attention_heads* of, acan_i64 first, int leaf,
                                         const int* seen, acan_attention_tile_sums* levels,
                                         float* sums) {
  const int ending = acan_attention_ending(leaf);
  const acan_attention_ends ends = acan_attention_ends_of(seen);
  int level = 0;
  int pending;
  int i;
  int j;
  ACAN_UNROLL for (i = 0; i < ACAN_TILE_SUMS; ++i) sums[i] = 0.0f + sums[i];
  for (pending = leaf; pending && (ends.any_is_last || level < ending); pending >>= 1, ++level) {
    if (!(pending & 1)) continue;
    ACAN_UNROLL for (i = 0; i < ACAN_THREAD_M; ++i) {
      if (seen[i] > ACAN_ATTENTION_LEAF && level >= ending) continue;
      ACAN_UNROLL for (j = i * ACAN_THREAD_N; j < (i + 1) * ACAN_THREAD_N; ++j) {
        sums[j] = levels[level].v[j] + sums[j];
      }
    }
  }
  ACAN_UNROLL for (i = 0; i < ACAN_THREAD_M; ++i) {
    if (seen[i] <= 0 || seen[i] > ACAN_ATTENTION_LEAF) continue;
    acan_attention_store(item, &a->m[0], of->first_row + first + item->row + i, of->at.q_col,
                         of->col0, of->call.width, sums, i, 1.0f);
  }
  if (ends.any_goes_on) acan_attention_keep_sums(sums, &levels[ending]);
}

/* By all items of a group: dq of the tile at query `first`. */
ACAN_FN void acan_attention_query_tile(const acan_args* a, const acan_attention_heads* of,
                                       acan_i64 first) {
  const acan_attention_item item = acan_attention_item_of(a);
  const acan_operand k = acan_attention_key_rows(a, 4, of);
  const acan_operand keys = acan_attention_summed(&k, of->call.width);
  const acan_i64 last = acan_attention_least(first + ACAN_ATTENTION_LEAF, of->call.queries) - 1;
  const int most = (int)acan_attention_visible(&of->call, of->keys, last);
  acan_attention_tile_sums levels[ACAN_ATTENTION_TILE_LEVELS];
  float sums[ACAN_TILE_SUMS];
  int visible[ACAN_THREAD_M];
  int begin;
  int is_slope;
  int i;
  ACAN_UNROLL for (i = 0; i < ACAN_TILE_SUMS; ++i) sums[i] = 0.0f;
  ACAN_UNROLL for (i = 0; i < ACAN_THREAD_M; ++i) {
    const acan_i64 query = first + item.row + i;
    visible[i] =
        query <= last ? (int)acan_attention_visible(&of->call, of->keys, query) : -1;
  }
  acan_attention_bring_terms(a, &item, of, first);
  ACAN_BARRIER(); /* before the gradients are stored, which overwrite the terms */
  ACAN_UNROLL for (i = 0; i < ACAN_THREAD_M; ++i) {
    if (visible[i] != 0) continue;
    acan_attention_store(&item, &a->m[0], of->first_row + first + item.row + i, of->at.q_col,
                         of->col0, of->call.width, sums, i, 1.0f);
  }
  for (begin = 0; begin < most; begin += ACAN_ATTENTION_LEAF) {
    float weights[ACAN_TILE_SUMS];
    acan_attention_sight sight;
    int seen[ACAN_THREAD_M];
    ACAN_UNROLL for (i = 0; i < ACAN_THREAD_M; ++i) {
      seen[i] = visible[i] - begin;
      sight.from[i] = 0;
      sight.to[i] = acan_attention_within_leaf(seen[i]);
    }
    for (is_slope = 0; is_slope < 2; ++is_slope) {
      const acan_operand tile = acan_attention_query_rows(a, is_slope ? 9 : 3, of);
      const acan_operand leaf = acan_attention_key_rows(a, is_slope ? 5 : 4, of);
      acan_attention_products(&item, &tile, first, &leaf, begin, of->call.width, sums);
      if (is_slope) {
        acan_attention_find_slopes(a, &item, 1, weights, sums);
      } else {
        acan_attention_find_weights(a, &item, of, first, begin, 1, sums, weights);
      }
    }
    acan_attention_add_leaf(&item, &keys, of->col0, begin,
                            acan_attention_within_leaf(of->keys - begin), &sight, sums);
    acan_attention_end_key_leaf(a, &item, of, first, begin / ACAN_ATTENTION_LEAF, seen, levels,
                                sums);
  }
}

/* Dimension 0: the tiles, the longest first; dimension 1: sequences and heads of queries.
 * region_cols: the first column of the launch's block. */
__kernel __attribute__((reqd_work_group_size(ACAN_TILE_THREADS, 1, 1))) void
acan_attention_backward_queries(const acan_launch l, ACAN_MEMORY) {
  const acan_args a = acan_args_of(&l, ACAN_MEMORY_GIVEN);
  const acan_i64 sharing = a.i[4]; /* heads of queries that share one of keys */
  const acan_i64 number = get_num_groups(0) - 1 - get_group_id(0);
  acan_attention_heads of =
      acan_attention_find_heads(&a, (acan_i64)get_group_id(1) / sharing, l.region_cols);
  acan_attention_take_head(&of, (acan_i64)get_group_id(1) % sharing);
  acan_attention_query_tile(&a, &of, number * ACAN_ATTENTION_LEAF);
}

/* ---- the gradients of keys and values ---- */

/* Sums of keys over leaves of queries. */
typedef struct {
  acan_attention_tile_sums levels[ACAN_ATTENTION_TILE_LEVELS];
  acan_attention_tile_sums heads; /* the leaf's sum over the heads so far */
} acan_attention_key_sums;

/* The way of a tile of keys through leaves of queries, each with all heads that share the keys. */
typedef struct {
  acan_i64 first; /* the tile's first key */
  int least;      /* the first leaf with a query that sees any of the keys */
  int leaves;
  int leaf;
  int h;
} acan_attention_walk;

/* The first leaf with a query that sees key `first`; `leaves` if there is none. */
ACAN_FN int acan_attention_least_leaf(const acan_attention_heads* of, acan_i64 first, int leaves) {
  const acan_attention_call* call = &of->call;
  const acan_i64 query = call->causal ? first + call->first_key - call->first_query : 0;
  if (of->keys <= first || query >= call->queries) return leaves;
  return query <= 0 ? 0 : (int)(query / ACAN_ATTENTION_LEAF);
}

/* As acan_attention_push, for a leaf of which head walk->h of those that share the keys has `sums`.
 * After the last leaf, `sums` is the whole sum. All leaves before walk->least are 0, which changes
 * nothing, because no sum is -0. */
ACAN_FN void acan_attention_push_leaf(acan_attention_key_sums* of, const acan_attention_walk* walk,
                                      acan_i64 shared, float* sums) {
  const int last = walk->leaf + 1 == walk->leaves;
  int level = 0;
  int pending;
  if (walk->h == 0) {
    ACAN_UNROLL for (level = 0; level < ACAN_TILE_SUMS; ++level) sums[level] = 0.0f + sums[level];
  } else {
    acan_attention_add_sums(&of->heads, sums);
  }
  if (walk->h + 1 < shared) {
    acan_attention_keep_sums(sums, &of->heads);
    return;
  }
  level = 0;
  for (pending = walk->leaf; pending && (last || (pending & 1)); pending >>= 1, ++level) {
    /* All leaves of the node are before walk->least, so it is 0. */
    if (!(pending & 1) || walk->leaf >> level << level <= walk->least) continue;
    acan_attention_add_sums(&of->levels[level], sums);
  }
  if (!last) acan_attention_keep_sums(sums, &of->levels[level]);
}

ACAN_FN void acan_attention_store_keys(const acan_args* a, const acan_attention_item* item, int m,
                                       const acan_attention_heads* of, acan_i64 first,
                                       const float* sums) {
  int i;
  ACAN_UNROLL for (i = 0; i < ACAN_THREAD_M; ++i) {
    const acan_i64 key = first + item->row + i;
    if (key >= of->call.keys) continue;
    acan_attention_store(item, &a->m[m], of->at.key_row + key, of->at.k_col, of->col0,
                         of->call.width, sums, i, 1.0f);
  }
}

/* Adds what one head's leaf of queries contributes to dv, then to dk. By all items of a group. */
ACAN_FN void acan_attention_add_queries(const acan_args* a, const acan_attention_item* item,
                                        const acan_attention_heads* of,
                                        const acan_attention_walk* walk,
                                        acan_attention_key_sums* all) {
  const acan_attention_call* call = &of->call;
  const acan_operand q = acan_attention_query_rows(a, 3, of);
  const acan_operand d_o = acan_attention_query_rows(a, 9, of);
  const acan_i64 begin = (acan_i64)walk->leaf * ACAN_ATTENTION_LEAF;
  const int count = acan_attention_within_leaf(call->queries - begin);
  const int ends = walk->leaf + 1 == walk->leaves && walk->h + 1 == call->shared;
  acan_attention_sight sight;
  float weights[ACAN_TILE_SUMS];
  float sums[ACAN_TILE_SUMS];
  int is_dk;
  int i;
  ACAN_UNROLL for (i = 0; i < ACAN_THREAD_M; ++i) {
    const acan_i64 key = walk->first + item->row + i;
    const acan_i64 least = key + call->first_key - call->first_query - begin;
    sight.from[i] = call->causal ? acan_attention_within_leaf(least) : 0;
    sight.to[i] = key < of->keys ? count : 0;
  }
  acan_attention_bring_terms(a, item, of, begin);
  for (is_dk = 0; is_dk < 2; ++is_dk) {
    const acan_operand tile = acan_attention_key_rows(a, is_dk ? 5 : 4, of);
    const acan_operand leaf = is_dk ? d_o : q;
    const acan_operand summed = acan_attention_summed(is_dk ? &q : &d_o, call->width);
    acan_attention_products(item, &tile, walk->first, &leaf, begin, call->width, sums);
    if (is_dk) {
      acan_attention_find_slopes(a, item, 0, weights, sums);
    } else {
      acan_attention_find_weights(a, item, of, walk->first, begin, 0, sums, weights);
    }
    acan_attention_add_leaf(item, &summed, of->col0, begin, count, &sight, sums);
    acan_attention_push_leaf(&all[is_dk], walk, call->shared, sums);
    if (ends) acan_attention_store_keys(a, item, is_dk ? 1 : 2, of, walk->first, sums);
  }
}

/* By all items of a group: dk and dv of the tile at key `first`. */
ACAN_FN void acan_attention_key_tile(const acan_args* a, acan_attention_heads* of, acan_i64 first) {
  const acan_attention_item item = acan_attention_item_of(a);
  acan_attention_key_sums all[2]; /* dv, dk */
  acan_attention_walk walk;
  walk.first = first;
  walk.leaves = (int)((of->call.queries + ACAN_ATTENTION_LEAF - 1) / ACAN_ATTENTION_LEAF);
  walk.least = acan_attention_least_leaf(of, first, walk.leaves);
  if (walk.least == walk.leaves) {
    float zeros[ACAN_TILE_SUMS];
    int i;
    ACAN_UNROLL for (i = 0; i < ACAN_TILE_SUMS; ++i) zeros[i] = 0.0f;
    acan_attention_store_keys(a, &item, 1, of, first, zeros);
    acan_attention_store_keys(a, &item, 2, of, first, zeros);
  }
  for (walk.leaf = walk.least; walk.leaf < walk.leaves; ++walk.leaf) {
    for (walk.h = 0; walk.h < of->call.shared; ++walk.h) {
      acan_attention_take_head(of, walk.h);
      acan_attention_add_queries(a, &item, of, &walk, all);
    }
  }
}

/* Dimension 0: the tiles, of which the first are the longest; dimension 1: sequences and heads of
 * keys. region_cols: the first column of the launch's block. */
__kernel __attribute__((reqd_work_group_size(ACAN_TILE_THREADS, 1, 1))) void
acan_attention_backward_keys(const acan_launch l, ACAN_MEMORY) {
  const acan_args a = acan_args_of(&l, ACAN_MEMORY_GIVEN);
  acan_attention_heads of = acan_attention_find_heads(&a, get_group_id(1), l.region_cols);
  acan_attention_key_tile(&a, &of, (acan_i64)get_group_id(0) * ACAN_ATTENTION_LEAF);
}
