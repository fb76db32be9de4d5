/* Exact attention, forward and backward. docs/numerics.md draws the order; in short:
 *
 *   score     s = scale * (q . k), the product in the canonical order, within +-2^20
 *   weight    e^s = p * 2^n; n and p as in acan_exp, kept apart
 *   leaf      64 aligned keys: K = the largest n, w = p * 2^(n - K), or 0 where the power is below
 *             2^-100; the sum of w and o = the sum of w * v are chains from 0, keys ascending
 *   tree      two triples (K, sum, o) join to the larger K; the values of the other triple are
 *             scaled by a power of two, or become 0 where that is below 2^-100. Hidden keys do not
 *             exist: where a node has no keys, the other node passes through.
 *
 * So an online softmax has one result, whatever tile of queries and whichever nodes of keys a call
 * covers. The backward pass computes w again from s and the whole row's (K, sum). Its sums have
 * leaves of 64. Each leaf is a chain from 0 that is added to 0, so no leaf is -0. Leaves whose
 * terms are all hidden may therefore be left out of the tree or added as 0.
 *
 * A call computes one tile, whose lanes are queries (or keys, for the gradient of keys). A lane
 * computes a few columns at a time and computes its weights again for each group of columns, since
 * it has only registers and small arrays of its own. Backends may use other schedules with the same
 * bits (backends/cpu/src/attention/). */
#ifndef ACAN_KERNELS_ATTENTION_H
#define ACAN_KERNELS_ATTENTION_H

#define ACAN_ATTENTION_LEAF 64
#define ACAN_ATTENTION_LEVELS 26 /* enough for 2^31 keys */
#define ACAN_ATTENTION_COLUMNS 16
#define ACAN_ATTENTION_BOUND 1048576.0f    /* of scores: n is then exact in a float */
#define ACAN_ATTENTION_NO_KEYS -8388608.0f /* K of a node without keys: below all others */
#define ACAN_ATTENTION_SHIFT 12582912.0f   /* 1.5 * 2^23: adding it rounds to an integer */

/* A GPU divides the columns of a lane among several threads, which share nothing. Its prelude
 * defines ACAN_TILE_PLACES, the number of these threads, and ACAN_TILE_PLACE, the index of this
 * thread. */
#ifndef ACAN_TILE_PLACES
#define ACAN_TILE_PLACES 1
#define ACAN_TILE_PLACE 0
#endif

/* Loops over this thread's blocks of a head's columns. */
#define ACAN_FOR_ATTENTION_COLUMNS(col, width)                          \
  for (col = ACAN_ATTENTION_COLUMNS * ACAN_TILE_PLACE; (col) < (width); \
       col += ACAN_ATTENTION_COLUMNS * ACAN_TILE_PLACES)

/* The sizes and offsets of one call. */
typedef struct {
  acan_i64 queries; /* of a sequence, in this call */
  acan_i64 keys;
  acan_i64 heads;
  acan_i64 shared; /* query heads that share one head of keys */
  acan_i64 first_query;
  acan_i64 first_key;
  acan_i64 width;
  int causal;
} acan_attention_call;

ACAN_FN acan_attention_call acan_attention_call_of(const acan_args* a, const acan_matrix* q) {
  acan_attention_call call;
  call.causal = a->i[0] != 0;
  call.queries = a->i[1];
  call.keys = a->i[2];
  call.heads = a->i[3] * a->i[4];
  call.shared = a->i[4];
  call.first_query = a->i[5];
  call.first_key = a->i[6];
  call.width = q->cols / call.heads;
  return call;
}

ACAN_FN acan_i64 acan_attention_least(acan_i64 a, acan_i64 b) {
  return a < b ? a : b;
}

/* The number of the call's keys that exist in a sequence; `lengths` may be absent. */
ACAN_FN acan_i64 acan_attention_keys(const acan_attention_call* call, const acan_matrix* lengths,
                                     acan_i64 sequence) {
  acan_i64 keys = call->keys;
  if (lengths->data) {
    const acan_i64 length = (acan_i32)ACAN_AS_U32(acan_load(lengths, sequence, 0));
    keys = acan_attention_least(keys, length - call->first_key);
  }
  return keys < 0 ? 0 : keys;
}

/* The number of these keys that query `query` of the call sees: always the first ones. */
ACAN_FN acan_i64 acan_attention_visible(const acan_attention_call* call, acan_i64 keys,
                                        acan_i64 query) {
  const acan_i64 seen = call->first_query + query + 1 - call->first_key;
  const acan_i64 visible = call->causal ? acan_attention_least(keys, seen) : keys;
  return visible < 0 ? 0 : visible;
}

/* ---- weights ---- */

ACAN_FN float acan_attention_score(float product, float scale) {
  const float s = product * scale;
  const float below = s > ACAN_ATTENTION_BOUND ? ACAN_ATTENTION_BOUND : s;
  return below < -ACAN_ATTENTION_BOUND ? -ACAN_ATTENTION_BOUND : below;
}

/* n of a score, plus 1.5 * 2^23; the low bits of the result hold n, too. */
ACAN_FN float acan_attention_shifted(float s) {
  return ACAN_FMA(s, 1.44269502f, ACAN_ATTENTION_SHIFT);
}

/* p * 2^(n - K) of a score, given K + 1.5 * 2^23; 0 where n - K < -100. NaN stays NaN. */
ACAN_FN float acan_attention_weight(float s, float shifted_largest) {
  const float shifted = acan_attention_shifted(s);
  const float n = shifted - ACAN_ATTENTION_SHIFT;
  const float r0 = ACAN_FMA(n, -0.693145752f, s);
  const float r = ACAN_FMA(n, -1.42860677e-06f, r0);
  const acan_u32 exponent = ACAN_AS_U32(shifted) - ACAN_AS_U32(shifted_largest);
  float p = 0.00138131471f; /* as in acan_exp */
  p = ACAN_FMA(p, r, 0.00836941879f);
  p = ACAN_FMA(p, r, 0.041668456f);
  p = ACAN_FMA(p, r, 0.166665152f);
  p = ACAN_FMA(p, r, 0.49999994f);
  p = ACAN_FMA(p * r, r, r) + 1.0f;
  p = p * ACAN_AS_F32((exponent << 23) + 0x3f800000u);
  return shifted - shifted_largest < -100.0f ? 0.0f : p;
}

/* 2^(k - largest), or 0 where k - largest < -100. k <= largest. */
ACAN_FN float acan_attention_factor(float k, float largest) {
  const float difference = k - largest;
  return difference < -100.0f
             ? 0.0f
             : ACAN_AS_F32((ACAN_AS_U32(difference + ACAN_ATTENTION_SHIFT) << 23) + 0x3f800000u);
}

/* The factors with which the values of two nodes join. */
typedef struct {
  float largest;
  float left;
  float right;
  int pass; /* 1: the left node passes through; 2: the right one */
} acan_attention_factors;

ACAN_FN acan_attention_factors acan_attention_factors_of(float left_k, float right_k) {
  acan_attention_factors f;
  f.largest = left_k > right_k ? left_k : right_k;
  f.left = acan_attention_factor(left_k, f.largest);
  f.right = acan_attention_factor(right_k, f.largest);
  f.pass = right_k == ACAN_ATTENTION_NO_KEYS ? 1 : left_k == ACAN_ATTENTION_NO_KEYS ? 2 : 0;
  return f;
}

ACAN_FN float acan_attention_join(const acan_attention_factors* f, float left, float right) {
  const float joined = ACAN_FMA(left, f->left, right * f->right);
  return f->pass == 1 ? left : f->pass == 2 ? right : joined;
}

/* ---- sums over columns ---- */

/* The product of `width` columns of a row of x and a row of y, summed in the canonical order. */
ACAN_FN float acan_attention_product(const acan_matrix* x, acan_i64 x_row, acan_i64 x_col,
                                     const acan_matrix* y, acan_i64 y_row, acan_i64 y_col,
                                     acan_i64 width) {
  float levels[ACAN_TREE_LEVELS];
  acan_i64 leaf = 0;
  acan_i64 begin;
  acan_i64 c;
  for (begin = 0; begin < width; begin += ACAN_ATTENTION_LEAF, ++leaf) {
    const acan_i64 end = acan_attention_least(width, begin + ACAN_ATTENTION_LEAF);
    float sum = 0.0f;
    for (c = begin; c < end; ++c) {
      sum = ACAN_FMA(acan_load(x, x_row, x_col + c), acan_load(y, y_row, y_col + c), sum);
    }
    acan_tree_push(levels, leaf, sum);
  }
  return acan_tree_total(levels, leaf);
}

/* The same for one row of both, in lane order: in a leaf of 64, lane l of 16 adds columns l, 16 +
 * l, 32 + l and 48 + l; then lanes l and l + 8 are added, then l and l + 4, l + 2, l + 1. */
ACAN_FN float acan_attention_row_term(const acan_matrix* x, const acan_matrix* y, acan_i64 row,
                                      acan_i64 col, acan_i64 width) {
  float levels[ACAN_TREE_LEVELS];
  float lanes[16];
  acan_i64 leaf = 0;
  acan_i64 begin;
  acan_i64 c;
  int l;
  int step;
  for (begin = 0; begin < width; begin += ACAN_ATTENTION_LEAF, ++leaf) {
    const acan_i64 end = acan_attention_least(width, begin + ACAN_ATTENTION_LEAF);
    for (l = 0; l < 16; ++l) lanes[l] = 0.0f;
    for (c = begin; c < end; ++c) {
      l = (int)(c - begin) % 16;
      lanes[l] = ACAN_FMA(acan_load(x, row, col + c), acan_load(y, row, col + c), lanes[l]);
    }
    for (step = 8; step; step /= 2) {
      for (l = 0; l < step; ++l) lanes[l] = lanes[l] + lanes[l + step];
    }
    acan_tree_push(levels, leaf, lanes[0]);
  }
  return acan_tree_total(levels, leaf);
}

/* ---- dropout ---- */

/* x after dropout: x / (1 - rate) where the draw keeps it, else 0. The place of a weight is its
 * index in the whole batch's scores: ((sample x positions + query) x heads + head) x positions +
 * key. */
ACAN_FN float acan_attention_drop(const acan_args* a, const acan_attention_call* call,
                                  acan_i64 sequence, acan_i64 query, acan_i64 head, acan_i64 key,
                                  float x) {
  const acan_i64 row = (a->i[9] + sequence) * a->i[10] + call->first_query + query;
  const acan_u64 place =
      (acan_u64)((row * a->i[12] + a->i[11] + head) * a->i[10] + call->first_key + key);
  acan_philox4 words;
  if (!(a->f[1] > 0.0f)) return x;
  words = acan_philox((acan_u64)a->i[7], place / 4, (acan_u64)a->i[8]);
  return acan_unit_float(words.v[place % 4]) < a->f[1] ? 0.0f : x * a->f[2];
}

/* ---- forward ---- */

/* A few columns of a node: its triple without the other columns of o. */
typedef struct {
  float k;
  float sum;
  float o[ACAN_ATTENTION_COLUMNS];
} acan_attention_node;

ACAN_FN void acan_attention_join_nodes(const acan_attention_node* left, acan_attention_node* node) {
  const acan_attention_factors f = acan_attention_factors_of(left->k, node->k);
  int c;
  node->k = f.largest;
  node->sum = acan_attention_join(&f, left->sum, node->sum);
  for (c = 0; c < ACAN_ATTENTION_COLUMNS; ++c) {
    node->o[c] = acan_attention_join(&f, left->o[c], node->o[c]);
  }
}

/* The position of a lane of the forward pass. */
typedef struct {
  acan_i64 sequence;
  acan_i64 head;
  acan_i64 query;
  acan_i64 row;     /* of q */
  acan_i64 key_row; /* the first row of the sequence in k and v */
  acan_i64 q_col;   /* the first columns of the head */
  acan_i64 k_col;
} acan_attention_place;

/* The leaf of keys [begin, end), columns [col, col + count) of v. REQUIRES: begin < end. */
ACAN_FN void acan_attention_leaf(const acan_args* a, const acan_attention_call* call,
                                 const acan_attention_place* at, acan_i64 begin, acan_i64 end,
                                 acan_i64 col, int count, acan_attention_node* node) {
  float scores[ACAN_ATTENTION_LEAF];
  float largest = -ACAN_ATTENTION_BOUND;
  float shifted;
  acan_i64 j;
  int c;
  for (j = begin; j < end; ++j) {
    const float product = acan_attention_product(&a->m[2], at->row, at->q_col, &a->m[3],
                                                 at->key_row + j, at->k_col, call->width);
    const float s = acan_attention_score(product, a->f[0]);
    largest = s > largest ? s : largest;
    scores[j - begin] = s;
  }
  shifted = acan_attention_shifted(largest);
  node->k = shifted - ACAN_ATTENTION_SHIFT;
  node->sum = 0.0f;
  for (c = 0; c < ACAN_ATTENTION_COLUMNS; ++c) node->o[c] = 0.0f;
  for (j = begin; j < end; ++j) {
    const float w = acan_attention_weight(scores[j - begin], shifted);
    const float kept = acan_attention_drop(a, call, at->sequence, at->query, at->head, j, w);
    node->sum = node->sum + w;
    for (c = 0; c < count; ++c) {
      node->o[c] =
          ACAN_FMA(kept, acan_load(&a->m[4], at->key_row + j, at->k_col + col + c), node->o[c]);
    }
  }
}

/* The node of all keys that the lane sees. */
ACAN_FN acan_attention_node acan_attention_columns(const acan_args* a,
                                                   const acan_attention_call* call,
                                                   const acan_attention_place* at, acan_i64 visible,
                                                   acan_i64 col, int count) {
  acan_attention_node levels[ACAN_ATTENTION_LEVELS];
  acan_attention_node node;
  acan_i64 leaf = 0;
  acan_i64 begin;
  acan_i64 pending;
  int level;
  node.k = ACAN_ATTENTION_NO_KEYS;
  node.sum = 0.0f;
  for (level = 0; level < ACAN_ATTENTION_COLUMNS; ++level) node.o[level] = 0.0f;
  for (begin = 0; begin < visible; begin += ACAN_ATTENTION_LEAF, ++leaf) {
    const acan_i64 end = acan_attention_least(visible, begin + ACAN_ATTENTION_LEAF);
    acan_attention_leaf(a, call, at, begin, end, col, count, &node);
    /* After the last leaf, all open nodes are joined; after another leaf, those that end with
     * it. */
    level = 0;
    for (pending = leaf; pending && (end == visible || (pending & 1)); pending >>= 1, ++level) {
      if (pending & 1) acan_attention_join_nodes(&levels[level], &node);
    }
    levels[level < ACAN_ATTENTION_LEVELS ? level : 0] = node;
  }
  return node;
}

ACAN_FN void acan_attention(const acan_args* a, acan_i64 r, acan_i64 tile, int lane) {
  const acan_attention_call call = acan_attention_call_of(a, &a->m[2]);
  acan_attention_place at;
  acan_i64 visible;
  acan_i64 col;
  int c;
  at.sequence = r / call.heads;
  at.head = r % call.heads;
  at.query = tile * ACAN_TILE_LANES + lane;
  if (at.query >= call.queries) return;
  at.row = at.sequence * call.queries + at.query;
  at.key_row = at.sequence * call.keys;
  at.q_col = at.head * call.width;
  at.k_col = at.head / call.shared * call.width;
  visible =
      acan_attention_visible(&call, acan_attention_keys(&call, &a->m[5], at.sequence), at.query);
  ACAN_FOR_ATTENTION_COLUMNS(col, call.width) {
    const int count = (int)acan_attention_least(call.width - col, ACAN_ATTENTION_COLUMNS);
    const acan_attention_node node = acan_attention_columns(a, &call, &at, visible, col, count);
    const float inverse = a->i[13] ? ACAN_DIV(1.0f, node.sum) : 1.0f;
    for (c = 0; c < count; ++c) {
      acan_store(&a->m[0], at.row, at.q_col + col + c, node.o[c] * inverse);
    }
    if (col != 0) continue;
    acan_store(&a->m[1], at.row, 2 * at.head, node.k);
    acan_store(&a->m[1], at.row, 2 * at.head + 1, node.sum);
  }
}

/* Joins the triples of two nodes, by a row's threads. The statistics may be written to the left or
 * the right node's own matrix, so all threads read them before any thread writes. */
ACAN_FN void acan_attention_join_row(const acan_args* a, acan_i64 r) {
  const acan_i64 heads = a->i[0];
  const acan_i64 width = a->m[0].cols / heads;
  acan_i64 h;
  acan_i64 c;
  for (h = 0; h < heads; ++h) {
    const acan_attention_factors f =
        acan_attention_factors_of(acan_load(&a->m[3], r, 2 * h), acan_load(&a->m[5], r, 2 * h));
    for (c = h * width + ACAN_ROW_THREAD; c < (h + 1) * width; c += ACAN_ROW_THREADS) {
      acan_store(&a->m[0], r, c,
                 acan_attention_join(&f, acan_load(&a->m[2], r, c), acan_load(&a->m[4], r, c)));
    }
  }
  ACAN_ROW_BARRIER();
  for (h = ACAN_ROW_THREAD; h < heads; h += ACAN_ROW_THREADS) {
    const acan_attention_factors f =
        acan_attention_factors_of(acan_load(&a->m[3], r, 2 * h), acan_load(&a->m[5], r, 2 * h));
    const float left = acan_load(&a->m[3], r, 2 * h + 1);
    const float right = acan_load(&a->m[5], r, 2 * h + 1);
    acan_store(&a->m[1], r, 2 * h, f.largest);
    acan_store(&a->m[1], r, 2 * h + 1, acan_attention_join(&f, left, right));
  }
}

ACAN_FN void acan_attention_finish(const acan_args* a, acan_i64 r) {
  const acan_i64 heads = a->i[0];
  const acan_i64 width = a->m[0].cols / heads;
  acan_i64 h;
  acan_i64 c;
  for (h = 0; h < heads; ++h) {
    const float inverse = ACAN_DIV(1.0f, acan_load(&a->m[2], r, 2 * h + 1));
    for (c = h * width + ACAN_ROW_THREAD; c < (h + 1) * width; c += ACAN_ROW_THREADS) {
      acan_store(&a->m[0], r, c, acan_load(&a->m[1], r, c) * inverse);
    }
  }
}

#endif /* ACAN_KERNELS_ATTENTION_H */
