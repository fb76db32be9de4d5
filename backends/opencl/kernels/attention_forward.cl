/* Exact attention on GPUs, forward; attention_tile.h describes the method. */

/* The triples of an item's queries, for its columns. */
typedef struct {
  float k[ACAN_THREAD_M];
  float sum[ACAN_THREAD_M];
  float o[ACAN_TILE_SUMS];
} acan_attention_triples;

/* Joins the triples of the `wanted` queries; the others stay as they are. */
ACAN_FN void acan_attention_join_triples(const acan_attention_triples* left, const int* wanted,
                                         acan_attention_triples* node) {
  int i;
  int j;
  ACAN_UNROLL for (i = 0; i < ACAN_THREAD_M; ++i) {
    acan_attention_factors f = acan_attention_factors_of(left->k[i], node->k[i]);
    if (!wanted[i]) {
      f.largest = node->k[i];
      f.pass = 2;
    }
    node->k[i] = f.largest;
    node->sum[i] = acan_attention_join(&f, left->sum[i], node->sum[i]);
    ACAN_UNROLL for (j = i * ACAN_THREAD_N; j < (i + 1) * ACAN_THREAD_N; ++j) {
      node->o[j] = acan_attention_join(&f, left->o[j], node->o[j]);
    }
  }
}

/* What all leaves of a group's tile share. */
typedef struct {
  acan_attention_call call;
  acan_attention_place at; /* of the tile's first query */
  acan_i64 col0;           /* the launch's first column of the head */
  int queries;             /* of the tile; only those that exist */
  int most_visible;        /* the most keys that any query of the tile sees */
  acan_i64 keys;           /* that exist */
} acan_attention_queries;

/* `first`: the tile's first query. */
ACAN_FN acan_attention_queries acan_attention_find_tile(const acan_args* a, acan_i64 r,
                                                        acan_i64 first, acan_i64 col0) {
  acan_attention_queries tile;
  tile.call = acan_attention_call_of(a, &a->m[2]);
  tile.at.sequence = r / tile.call.heads;
  tile.at.head = r % tile.call.heads;
  tile.at.query = first;
  tile.at.row = tile.at.sequence * tile.call.queries + first;
  tile.at.key_row = tile.at.sequence * tile.call.keys;
  tile.at.q_col = tile.at.head * tile.call.width;
  tile.at.k_col = tile.at.head / tile.call.shared * tile.call.width;
  tile.col0 = col0;
  tile.queries = acan_attention_within_leaf(tile.call.queries - first);
  tile.keys = acan_attention_keys(&tile.call, &a->m[5], tile.at.sequence);
  tile.most_visible =
      (int)acan_attention_visible(&tile.call, tile.keys, first + tile.queries - 1);
  return tile;
}

/* The number of keys that query `row` of the tile sees; -1 if there is no such query. */
ACAN_FN int acan_attention_seen(const acan_attention_queries* tile, int row) {
  return row < tile->queries
             ? (int)acan_attention_visible(&tile->call, tile->keys, tile->at.query + row)
             : -1;
}

/* Turns the item's products with the keys of a leaf, from `begin` on, into pairs: weights after
 * dropout. words[0] of each query of the tile becomes K + 1.5 * 2^23, and words[1] the sum of its
 * weights before dropout; both by the item that has the number of the query. */
ACAN_FN void acan_attention_weigh(const acan_args* a, const acan_attention_item* item,
                                  const acan_attention_queries* tile, int begin, float* s) {
  ACAN_LOCAL float* largest_of = item->words;
  ACAN_LOCAL float* sum_of = item->words + ACAN_ATTENTION_LEAF;
  const int seen = item->thread < ACAN_ATTENTION_LEAF
                       ? acan_attention_within_leaf(acan_attention_seen(tile, item->thread) - begin)
                       : 0;
  const ACAN_LOCAL float* own = item->pairs + item->thread;
  float largest = -ACAN_ATTENTION_BOUND;
  float sum = 0.0f;
  int i;
  int j;
  ACAN_UNROLL for (i = 0; i < ACAN_THREAD_M; ++i) {
    ACAN_UNROLL for (j = 0; j < ACAN_THREAD_N; ++j) {
      s[i * ACAN_THREAD_N + j] = acan_attention_score(s[i * ACAN_THREAD_N + j], a->f[0]);
      *acan_attention_pair_at(item, i, j) = s[i * ACAN_THREAD_N + j];
    }
  }
  ACAN_BARRIER();
  for (j = 0; j < seen; ++j) {
    const float score = own[j * ACAN_TILE_A_PITCH];
    largest = score > largest ? score : largest;
  }
  if (item->thread < ACAN_ATTENTION_LEAF) {
    largest_of[item->thread] = acan_attention_shifted(largest);
  }
  ACAN_BARRIER();
  ACAN_UNROLL for (i = 0; i < ACAN_THREAD_M; ++i) {
    ACAN_UNROLL for (j = 0; j < ACAN_THREAD_N; ++j) {
      *acan_attention_pair_at(item, i, j) =
          acan_attention_weight(s[i * ACAN_THREAD_N + j], largest_of[item->row + i]);
    }
  }
  ACAN_BARRIER();
  for (j = 0; j < seen; ++j) sum = sum + own[j * ACAN_TILE_A_PITCH];
  if (item->thread < ACAN_ATTENTION_LEAF) sum_of[item->thread] = sum;
  ACAN_BARRIER();
  acan_attention_drop_pairs(a, item, &tile->call, &tile->at, tile->at.query, begin, 1, 0.0f);
}

ACAN_FN void acan_attention_store_query(const acan_args* a, const acan_attention_item* item,
                                        const acan_attention_queries* tile,
                                        const acan_attention_triples* node, int i) {
  const acan_i64 row = tile->at.row + item->row + i;
  const float inverse = a->i[13] ? ACAN_DIV(1.0f, node->sum[i]) : 1.0f;
  acan_attention_store(item, &a->m[0], row, tile->at.q_col, tile->col0, tile->call.width, node->o, i,
                       inverse);
  if (item->col != 0 || tile->col0 != 0) return;
  acan_store(&a->m[1], row, 2 * tile->at.head, node->k[i]);
  acan_store(&a->m[1], row, 2 * tile->at.head + 1, node->sum[i]);
}

/* Joins leaf number `leaf` with the open nodes of each query that sees it, and stores the queries
 * whose last leaf it is. seen: the keys that each query of the item sees in this leaf and later. */
ACAN_FN void acan_attention_end_leaf(const acan_args* a, const acan_attention_item* item,
                                     const acan_attention_queries* tile, int leaf, const int* seen,
                                     acan_attention_triples* levels, acan_attention_triples* node) {
  const int ending = acan_attention_ending(leaf);
  const acan_attention_ends ends = acan_attention_ends_of(seen);
  int level = 0;
  int pending;
  int i;
  for (pending = leaf; pending && (ends.any_is_last || level < ending); pending >>= 1, ++level) {
    int wanted[ACAN_THREAD_M];
    if (!(pending & 1)) continue;
    ACAN_UNROLL for (i = 0; i < ACAN_THREAD_M; ++i) {
      wanted[i] = (seen[i] > 0) & ((seen[i] <= ACAN_ATTENTION_LEAF) | (level < ending));
    }
    acan_attention_join_triples(&levels[level], wanted, node);
  }
  ACAN_UNROLL for (i = 0; i < ACAN_THREAD_M; ++i) {
    if (seen[i] > 0 && seen[i] <= ACAN_ATTENTION_LEAF) {
      acan_attention_store_query(a, item, tile, node, i);
    }
  }
  if (ends.any_goes_on) levels[ending] = *node;
}

/* By all items of a group. */
ACAN_FN void acan_attention_of_tile(const acan_args* a, const acan_attention_queries* tile) {
  const acan_attention_call* call = &tile->call;
  const acan_attention_item item = acan_attention_item_of(a);
  const acan_operand q =
      acan_attention_rows(&a->m[2], tile->at.row, tile->queries, tile->at.q_col);
  const acan_operand k =
      acan_attention_rows(&a->m[3], tile->at.key_row, call->keys, tile->at.k_col);
  const acan_operand v =
      acan_attention_rows(&a->m[4], tile->at.key_row, call->keys, tile->at.k_col);
  const acan_operand values = acan_attention_summed(&v, call->width);
  acan_attention_triples levels[ACAN_ATTENTION_TILE_LEVELS];
  acan_attention_triples node;
  int visible[ACAN_THREAD_M];
  int begin;
  int i;
  ACAN_UNROLL for (i = 0; i < ACAN_TILE_SUMS; ++i) node.o[i] = 0.0f;
  ACAN_UNROLL for (i = 0; i < ACAN_THREAD_M; ++i) {
    node.k[i] = ACAN_ATTENTION_NO_KEYS;
    node.sum[i] = 0.0f;
    visible[i] = acan_attention_seen(tile, item.row + i);
  }
  ACAN_UNROLL for (i = 0; i < ACAN_THREAD_M; ++i) {
    if (visible[i] == 0) acan_attention_store_query(a, &item, tile, &node, i);
  }
  for (begin = 0; begin < tile->most_visible; begin += ACAN_ATTENTION_LEAF) {
    float scores[ACAN_TILE_SUMS];
    acan_attention_sight sight;
    int seen[ACAN_THREAD_M];
    acan_attention_products(&item, &q, 0, &k, begin, call->width, scores);
    acan_attention_weigh(a, &item, tile, begin, scores);
    ACAN_UNROLL for (i = 0; i < ACAN_THREAD_M; ++i) {
      seen[i] = visible[i] - begin;
      sight.from[i] = 0;
      sight.to[i] = acan_attention_within_leaf(seen[i]);
      node.k[i] = item.words[item.row + i] - ACAN_ATTENTION_SHIFT;
      node.sum[i] = item.words[ACAN_ATTENTION_LEAF + item.row + i];
    }
    acan_attention_add_leaf(&item, &values, tile->col0, begin,
                            acan_attention_within_leaf(tile->keys - begin), &sight, node.o);
    acan_attention_end_leaf(a, &item, tile, begin / ACAN_ATTENTION_LEAF, seen, levels, &node);
  }
}

/* Dimension 0: the tiles, the longest first; dimension 1: sequences and heads. region_cols: the
 * first column of the launch's block. */
__kernel __attribute__((reqd_work_group_size(ACAN_TILE_THREADS, 1, 1))) void acan_attention_forward(
    const acan_launch l, ACAN_MEMORY) {
  const acan_args a = acan_args_of(&l, ACAN_MEMORY_GIVEN);
  const acan_i64 number = get_num_groups(0) - 1 - get_group_id(0);
  const acan_attention_queries tile = acan_attention_find_tile(
      &a, get_group_id(1), number * ACAN_ATTENTION_LEAF, l.region_cols);
  acan_attention_of_tile(&a, &tile);
}
