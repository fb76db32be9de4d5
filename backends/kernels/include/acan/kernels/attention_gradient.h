/* The gradient of exact attention, in the order that attention.h defines. */
#ifndef ACAN_KERNELS_ATTENTION_GRADIENT_H
#define ACAN_KERNELS_ATTENTION_GRADIENT_H

/* What all keys of one query share: the statistics of its row, and the row term. */
typedef struct {
  float shifted; /* K + 1.5 * 2^23 */
  float inverse; /* 1 / sum */
  float term;    /* sum of o * do */
} acan_attention_row;

ACAN_FN acan_attention_row acan_attention_row_of(const acan_args* a,
                                                 const acan_attention_call* call, acan_i64 row,
                                                 acan_i64 head) {
  acan_attention_row out;
  out.shifted = acan_load(&a->m[7], row, 2 * head) + ACAN_ATTENTION_SHIFT;
  out.inverse = ACAN_DIV(1.0f, acan_load(&a->m[7], row, 2 * head + 1));
  out.term = acan_attention_row_term(&a->m[8], &a->m[9], row, head * call->width, call->width);
  return out;
}

/* For one query and one key: the weight after dropout, and the gradient of their product q . k. */
typedef struct {
  float weight;
  float slope;
} acan_attention_pair;

ACAN_FN float acan_attention_slope(float weight, float gradient, float term, float scale) {
  return weight * (gradient - term) * scale;
}

ACAN_FN acan_attention_pair acan_attention_pair_of(const acan_args* a,
                                                   const acan_attention_call* call,
                                                   const acan_attention_place* at,
                                                   const acan_attention_row* row, acan_i64 key) {
  const acan_i64 key_row = at->key_row + key;
  const float product = acan_attention_product(&a->m[3], at->row, at->q_col, &a->m[4], key_row,
                                               at->k_col, call->width);
  const float gradient = acan_attention_product(&a->m[9], at->row, at->q_col, &a->m[5], key_row,
                                                at->k_col, call->width);
  const float weight =
      acan_attention_weight(acan_attention_score(product, a->f[0]), row->shifted) * row->inverse;
  acan_attention_pair pair;
  pair.weight = acan_attention_drop(a, call, at->sequence, at->query, at->head, key, weight);
  pair.slope = acan_attention_slope(
      weight, acan_attention_drop(a, call, at->sequence, at->query, at->head, key, gradient),
      row->term, a->f[0]);
  return pair;
}

/* A few columns of sums over leaves, in the canonical tree. */
typedef struct {
  float v[ACAN_ATTENTION_COLUMNS];
} acan_attention_sums;

ACAN_FN acan_attention_sums acan_attention_zeros(void) {
  acan_attention_sums out;
  int c;
  for (c = 0; c < ACAN_ATTENTION_COLUMNS; ++c) out.v[c] = 0.0f;
  return out;
}

ACAN_FN acan_attention_sums acan_attention_added(const acan_attention_sums* x,
                                                 const acan_attention_sums* y) {
  acan_attention_sums out;
  int c;
  for (c = 0; c < ACAN_ATTENTION_COLUMNS; ++c) out.v[c] = x->v[c] + y->v[c];
  return out;
}

/* Pushes a leaf. After the last leaf, the result is the whole sum. */
ACAN_FN acan_attention_sums acan_attention_push(acan_attention_sums* levels, acan_i64 leaf,
                                                int last, acan_attention_sums sums) {
  int level = 0;
  for (; leaf && (last || (leaf & 1)); leaf >>= 1, ++level) {
    if (leaf & 1) sums = acan_attention_added(&levels[level], &sums);
  }
  levels[level < ACAN_ATTENTION_LEVELS ? level : 0] = sums;
  return sums;
}

/* Computes a row of dq. */
ACAN_FN void acan_attention_query_gradient(const acan_args* a, const acan_attention_call* call,
                                           const acan_attention_place* at, acan_i64 visible) {
  const acan_attention_row row = acan_attention_row_of(a, call, at->row, at->head);
  acan_attention_sums levels[ACAN_ATTENTION_LEVELS];
  acan_i64 col;
  acan_i64 begin;
  acan_i64 j;
  int c;
  ACAN_FOR_ATTENTION_COLUMNS(col, call->width) {
    const int count = (int)acan_attention_least(call->width - col, ACAN_ATTENTION_COLUMNS);
    acan_attention_sums total = acan_attention_zeros();
    for (begin = 0; begin < visible; begin += ACAN_ATTENTION_LEAF) {
      const acan_i64 end = acan_attention_least(visible, begin + ACAN_ATTENTION_LEAF);
      const acan_attention_sums zeros = acan_attention_zeros();
      acan_attention_sums chain = zeros;
      for (j = begin; j < end; ++j) {
        const acan_attention_pair pair = acan_attention_pair_of(a, call, at, &row, j);
        for (c = 0; c < count; ++c) {
          const float k = acan_load(&a->m[4], at->key_row + j, at->k_col + col + c);
          chain.v[c] = ACAN_FMA(pair.slope, k, chain.v[c]);
        }
      }
      total = acan_attention_push(levels, begin / ACAN_ATTENTION_LEAF, end == visible,
                                  acan_attention_added(&zeros, &chain));
    }
    for (c = 0; c < count; ++c) acan_store(&a->m[0], at->row, at->q_col + col + c, total.v[c]);
  }
}

/* Adds to a few columns of dk and dv the terms of one head's queries in the leaf from `begin`
 * on. */
ACAN_FN void acan_attention_key_leaf(const acan_args* a, const acan_attention_call* call,
                                     acan_attention_place* at, acan_i64 keys, acan_i64 key,
                                     acan_i64 begin, acan_i64 col, acan_attention_sums* dk,
                                     acan_attention_sums* dv) {
  const int count = (int)acan_attention_least(call->width - col, ACAN_ATTENTION_COLUMNS);
  const acan_i64 end = acan_attention_least(call->queries, begin + ACAN_ATTENTION_LEAF);
  acan_attention_sums k_chain = acan_attention_zeros();
  acan_attention_sums v_chain = acan_attention_zeros();
  acan_i64 i;
  int c;
  for (i = begin; i < end; ++i) {
    acan_attention_row row;
    acan_attention_pair pair;
    if (key >= acan_attention_visible(call, keys, i)) continue;
    at->query = i;
    at->row = at->sequence * call->queries + i;
    row = acan_attention_row_of(a, call, at->row, at->head);
    pair = acan_attention_pair_of(a, call, at, &row, key);
    for (c = 0; c < count; ++c) {
      const float q = acan_load(&a->m[3], at->row, at->q_col + col + c);
      const float g = acan_load(&a->m[9], at->row, at->q_col + col + c);
      k_chain.v[c] = ACAN_FMA(pair.slope, q, k_chain.v[c]);
      v_chain.v[c] = ACAN_FMA(pair.weight, g, v_chain.v[c]);
    }
  }
  *dk = acan_attention_added(dk, &k_chain);
  *dv = acan_attention_added(dv, &v_chain);
}

/* Computes a row of dk and of dv. Within a leaf of queries, the heads that share the key are
 * added. */
ACAN_FN void acan_attention_key_gradient(const acan_args* a, const acan_attention_call* call,
                                         acan_attention_place* at, acan_i64 keys, acan_i64 key,
                                         acan_i64 group) {
  acan_attention_sums k_levels[ACAN_ATTENTION_LEVELS];
  acan_attention_sums v_levels[ACAN_ATTENTION_LEVELS];
  acan_i64 col;
  acan_i64 begin;
  acan_i64 h;
  int c;
  ACAN_FOR_ATTENTION_COLUMNS(col, call->width) {
    const int count = (int)acan_attention_least(call->width - col, ACAN_ATTENTION_COLUMNS);
    acan_attention_sums dk = acan_attention_zeros();
    acan_attention_sums dv = acan_attention_zeros();
    for (begin = 0; begin < call->queries; begin += ACAN_ATTENTION_LEAF) {
      const acan_i64 leaf = begin / ACAN_ATTENTION_LEAF;
      const int last = begin + ACAN_ATTENTION_LEAF >= call->queries;
      dk = acan_attention_zeros();
      dv = acan_attention_zeros();
      for (h = 0; h < call->shared; ++h) {
        at->head = group * call->shared + h;
        at->q_col = at->head * call->width;
        acan_attention_key_leaf(a, call, at, keys, key, begin, col, &dk, &dv);
      }
      dk = acan_attention_push(k_levels, leaf, last, dk);
      dv = acan_attention_push(v_levels, leaf, last, dv);
    }
    for (c = 0; c < count; ++c) {
      acan_store(&a->m[1], at->key_row + key, at->k_col + col + c, dk.v[c]);
      acan_store(&a->m[2], at->key_row + key, at->k_col + col + c, dv.v[c]);
    }
  }
}

/* A row's first tiles compute the gradient of queries, for all heads of the group; the others that
 * of keys and values. */
ACAN_FN void acan_attention_gradient(const acan_args* a, acan_i64 r, acan_i64 tile, int lane) {
  const acan_attention_call call = acan_attention_call_of(a, &a->m[3]);
  const acan_i64 key_heads = call.heads / call.shared;
  const acan_i64 group = r % key_heads;
  const acan_i64 query_tiles = (call.queries + ACAN_TILE_LANES - 1) / ACAN_TILE_LANES;
  const acan_i64 key = (tile - query_tiles) * ACAN_TILE_LANES + lane;
  acan_attention_place at;
  acan_i64 keys;
  acan_i64 h;
  at.sequence = r / key_heads;
  at.key_row = at.sequence * call.keys;
  at.k_col = group * call.width;
  keys = acan_attention_keys(&call, &a->m[6], at.sequence);
  if (tile >= query_tiles) {
    if (key < call.keys) acan_attention_key_gradient(a, &call, &at, keys, key, group);
    return;
  }
  at.query = tile * ACAN_TILE_LANES + lane;
  if (at.query >= call.queries) return;
  at.row = at.sequence * call.queries + at.query;
  for (h = 0; h < call.shared; ++h) {
    at.head = group * call.shared + h;
    at.q_col = at.head * call.width;
    acan_attention_query_gradient(a, &call, &at, acan_attention_visible(&call, keys, at.query));
  }
}

#endif /* ACAN_KERNELS_ATTENTION_GRADIENT_H */
