/* Sums along a row in lane order. In a leaf of 64 elements, lane l of 16 adds x[l], x[16 + l],
 * x[32 + l] and x[48 + l] in this order, beginning at 0. Then lanes l and l + 8 are added, then
 * l and l + 4, l and l + 2, l and l + 1. The aligned tree of args.h adds the leaves.
 *
 *   x[0..16)  x[16..32)  x[32..48)  x[48..64)
 *      |          |          |          |
 *   0 -+----------+----------+----------+-> 16 lanes -> 8 -> 4 -> 2 -> the leaf's sum
 *
 * A leaf that is not full is padded with zeros, which changes no bit: a lane begins at +0, so it is
 * never -0, and adding +0 to anything else leaves it as it is.
 *
 * Loops over a leaf have a constant number of steps, so that compilers can vectorise them. */
#ifndef ACAN_KERNELS_LANES_H
#define ACAN_KERNELS_LANES_H

#define ACAN_LANES 16
#define ACAN_LANE_LEAF 64

/* A GPU gives some rows to a whole block. Its prelude defines ACAN_ROW_THREADS, a power of two of
 * at least ACAN_NODE_LEAVES * ACAN_LANES and at most ACAN_MOST_ROW_THREADS, and ACAN_ROW_THREAD,
 * the index of this thread. All these threads together call the functions marked "by a row's
 * threads". Rows of chains have ACAN_CHAIN_THREADS. Kernels that call no such function may have any
 * number of threads for a row. Other devices compute a row with one thread.
 *
 * The prelude also says where variables of a block are:
 *   ACAN_SHARED_ARRAY(a, type, name, count, at)
 *     declares an array for all threads. Where functions cannot declare it, it begins at word `at`
 *     of a->shared (shared_words.h).
 *   ACAN_TREE_VARIABLE
 *     qualifies the nodes of a tree, which only one thread uses. They are in shared memory where an
 *     array of a thread's own would be slow.
 *
 * ACAN_BARRIER orders what threads do with shared memory. ACAN_ROW_BARRIER also orders what they do
 * with operands: after it, a thread may read what another has written, or write what another has
 * read. The prelude defines it apart where these are two barriers. */
#ifdef ACAN_ROW_THREADS
#define ACAN_ROW_IS_SHARED 1
#ifndef ACAN_ROW_BARRIER
#define ACAN_ROW_BARRIER() ACAN_BARRIER()
#endif
#else
#define ACAN_ROW_IS_SHARED 0
#define ACAN_ROW_BARRIER() ((void)0)
#endif
#ifndef ACAN_ROW_THREADS
#define ACAN_ROW_THREADS 1
#define ACAN_ROW_THREAD 0
#endif

/* Likewise, several threads may share a column: places.h. */
#ifdef ACAN_COLUMN_PLACES
#define ACAN_COLUMN_IS_SHARED 1
#else
#define ACAN_COLUMN_IS_SHARED 0
#endif

/* The number of elements of the leaf at `begin`. */
ACAN_FN int acan_leaf_size(acan_i64 begin, acan_i64 end) {
  return end - begin < ACAN_LANE_LEAF ? (int)(end - begin) : ACAN_LANE_LEAF;
}

/* x[t] = element - minus for the n elements of row r from column `begin` on, then zeros. */
ACAN_FN void acan_load_leaf(const acan_matrix* m, acan_i64 r, acan_i64 begin, int n, float minus,
                            float* x) {
  const ACAN_GLOBAL float* from = m->data + r * m->stride + begin;
  int t;
  if (n == ACAN_LANE_LEAF) {
    for (t = 0; t < ACAN_LANE_LEAF; ++t) x[t] = from[t] - minus;
    return;
  }
  for (t = 0; t < n; ++t) x[t] = from[t] - minus;
  for (t = n; t < ACAN_LANE_LEAF; ++t) x[t] = 0.0f;
}

/* Stores x[0..n) to row r from column `begin` on. */
ACAN_FN void acan_store_leaf(const acan_matrix* m, acan_i64 r, acan_i64 begin, int n,
                             const float* x) {
  ACAN_GLOBAL float* to = m->data + r * m->stride + begin;
  int t;
  if (n == ACAN_LANE_LEAF) {
    for (t = 0; t < ACAN_LANE_LEAF; ++t) to[t] = x[t] == x[t] ? x[t] : ACAN_NAN;
    return;
  }
  for (t = 0; t < n; ++t) to[t] = x[t] == x[t] ? x[t] : ACAN_NAN;
}

/* Fills a leaf that has only n elements with zeros. */
ACAN_FN void acan_end_leaf(int n, float* x) {
  int t;
  for (t = n; t < ACAN_LANE_LEAF; ++t) x[t] = 0.0f;
}

ACAN_FN float acan_add_lanes(const float* lanes) {
  float eight[8];
  float four[4];
  int l;
  ACAN_LANE_LOOP
  for (l = 0; l < 8; ++l) eight[l] = lanes[l] + lanes[l + 8];
  ACAN_LANE_LOOP
  for (l = 0; l < 4; ++l) four[l] = eight[l] + eight[l + 4];
  return (four[0] + four[2]) + (four[1] + four[3]);
}

/* The sum of a leaf in private memory. */
ACAN_FN float acan_leaf_sum(const float* x) {
  float lanes[ACAN_LANES];
  int l;
  ACAN_LANE_LOOP
  for (l = 0; l < ACAN_LANES; ++l) {
    lanes[l] = (((0.0f + x[l]) + x[16 + l]) + x[32 + l]) + x[48 + l];
  }
  return acan_add_lanes(lanes);
}

/* The sum of (x - mean)^2 over the n elements of a leaf in private memory. */
ACAN_FN float acan_leaf_squares(const float* x, float mean, int n) {
  float lanes[ACAN_LANES];
  int l;
  ACAN_LANE_LOOP
  for (l = 0; l < ACAN_LANES; ++l) {
    const float d0 = l < n ? x[l] - mean : 0.0f;
    const float d1 = 16 + l < n ? x[16 + l] - mean : 0.0f;
    const float d2 = 32 + l < n ? x[32 + l] - mean : 0.0f;
    const float d3 = 48 + l < n ? x[48 + l] - mean : 0.0f;
    const float two = ACAN_FMA(d1, d1, ACAN_FMA(d0, d0, 0.0f));
    lanes[l] = ACAN_FMA(d3, d3, ACAN_FMA(d2, d2, two));
  }
  return acan_add_lanes(lanes);
}

/* Element t of a leaf of n that lies at `x`. */
ACAN_FN float acan_leaf_element(const ACAN_GLOBAL float* x, int t, int n) {
  return t < n ? x[t] : 0.0f;
}

/* Lane l of a leaf's sum. */
ACAN_FN float acan_sum_of_lane(const ACAN_GLOBAL float* x, int l, int n) {
  const float two = (0.0f + acan_leaf_element(x, l, n)) + acan_leaf_element(x, 16 + l, n);
  return (two + acan_leaf_element(x, 32 + l, n)) + acan_leaf_element(x, 48 + l, n);
}

/* The sum of a leaf, read in place. Full leaves pass a constant n. */
ACAN_FN float acan_sum_in_place(const ACAN_GLOBAL float* x, int n) {
  float lanes[ACAN_LANES];
  int l;
  ACAN_LANE_LOOP
  for (l = 0; l < ACAN_LANES; ++l) lanes[l] = acan_sum_of_lane(x, l, n);
  return acan_add_lanes(lanes);
}

/* x[t] - mean, and 0 beyond the leaf's n elements. */
ACAN_FN float acan_leaf_deviation(const ACAN_GLOBAL float* x, float mean, int t, int n) {
  return t < n ? x[t] - mean : 0.0f;
}

/* Lane l of the sum of (x - mean)^2 over a leaf. */
ACAN_FN float acan_squares_of_lane(const ACAN_GLOBAL float* x, float mean, int l, int n) {
  const float d0 = acan_leaf_deviation(x, mean, l, n);
  const float d1 = acan_leaf_deviation(x, mean, 16 + l, n);
  const float d2 = acan_leaf_deviation(x, mean, 32 + l, n);
  const float d3 = acan_leaf_deviation(x, mean, 48 + l, n);
  const float two = ACAN_FMA(d1, d1, ACAN_FMA(d0, d0, 0.0f));
  return ACAN_FMA(d3, d3, ACAN_FMA(d2, d2, two));
}

ACAN_FN float acan_squares_in_place(const ACAN_GLOBAL float* x, float mean, int n) {
  float lanes[ACAN_LANES];
  int l;
  ACAN_LANE_LOOP
  for (l = 0; l < ACAN_LANES; ++l) lanes[l] = acan_squares_of_lane(x, mean, l, n);
  return acan_add_lanes(lanes);
}

#if ACAN_ROW_IS_SHARED

/* The number of leaves that the threads of a row sum at once: each thread has one lane of one
 * leaf. */
#define ACAN_ROW_LEAVES (ACAN_ROW_THREADS / ACAN_LANES)

/* The leaf of this thread, one of those from leaf `first` on, in a row of `cols` columns. */
typedef struct {
  acan_i64 begin; /* its first column */
  int n;          /* its elements; 0 beyond the end of the row */
  int lane;
} acan_lane_place;

ACAN_FN acan_lane_place acan_place_of_thread(acan_i64 first, acan_i64 cols) {
  acan_lane_place place;
  place.begin = (first + ACAN_ROW_THREAD / ACAN_LANES) * ACAN_LANE_LEAF;
  place.n = place.begin < cols ? acan_leaf_size(place.begin, cols) : 0;
  place.lane = ACAN_ROW_THREAD % ACAN_LANES;
  return place;
}

/* The node of `count` leaves: ACAN_NODE_LEAVES, or fewer at the end of a row. So many leaves are
 * added in registers before the tree's open nodes are touched. */
ACAN_FN float acan_node_of_leaves(const ACAN_LOCAL float* leaves, acan_i64 count) {
  float nodes[ACAN_NODE_LEAVES];
  int width;
  int k;
  ACAN_UNROLL for (k = 0; k < ACAN_NODE_LEAVES; ++k) nodes[k] = k < count ? leaves[k] : 0.0f;
  ACAN_UNROLL for (width = 1; width < ACAN_NODE_LEAVES; width *= 2) {
    ACAN_UNROLL for (k = 0; k < ACAN_NODE_LEAVES; k += 2 * width) {
      if (k + width < count) nodes[k] = nodes[k] + nodes[k + width];
    }
  }
  return nodes[0];
}

/* As acan_add_lanes. */
ACAN_FN float acan_add_shared_lanes(const ACAN_LOCAL float* lanes) {
  float own[ACAN_LANES];
  int l;
  ACAN_UNROLL for (l = 0; l < ACAN_LANES; ++l) own[l] = lanes[l];
  return acan_add_lanes(own);
}

/* By a row's threads: sums their lanes to leaves first, first + 1, ... (below `leaves`). The first
 * thread pushes these, in nodes; only it uses the levels. */
ACAN_FN void acan_push_lanes(const acan_args* a, float lane, acan_i64 first, acan_i64 leaves,
                             float* levels) {
  ACAN_SHARED_ARRAY(a, float, lanes, ACAN_MOST_ROW_THREADS, ACAN_AT_LANES(ACAN_ROW_THREADS));
  ACAN_SHARED_ARRAY(a, float, sums, ACAN_MOST_ROW_THREADS / ACAN_LANES,
                    ACAN_AT_LEAVES(ACAN_ROW_THREADS));
  int k;
  lanes[ACAN_ROW_THREAD] = lane;
  ACAN_BARRIER();
  if (ACAN_ROW_THREAD < ACAN_ROW_LEAVES) {
    sums[ACAN_ROW_THREAD] = acan_add_shared_lanes(lanes + ACAN_ROW_THREAD * ACAN_LANES);
  }
  ACAN_BARRIER();
  if (ACAN_ROW_THREAD != 0) return;
  for (k = 0; k < ACAN_ROW_LEAVES && first + k < leaves; k += ACAN_NODE_LEAVES) {
    const float node = acan_node_of_leaves(sums + k, leaves - first - k);
    acan_tree_push(levels, (first + k) / ACAN_NODE_LEAVES, node);
  }
}

/* By a row's threads: all of them get the total of the `nodes` that the first thread has pushed. */
ACAN_FN float acan_share_total(const acan_args* a, const float* levels, acan_i64 nodes) {
  ACAN_SHARED_ARRAY(a, float, shared, 1, ACAN_AT_TOTAL(ACAN_ROW_THREADS));
  float total;
  if (ACAN_ROW_THREAD == 0) shared[0] = acan_tree_total(levels, nodes);
  ACAN_ROW_BARRIER(); /* the row may be the result's own, and terms may have been stored */
  total = shared[0];
  ACAN_BARRIER(); /* before the next total is written */
  return total;
}

/* The same for pushed lanes. */
ACAN_FN float acan_share_lanes(const acan_args* a, const float* levels, acan_i64 leaves) {
  return acan_share_total(a, levels, (leaves + ACAN_NODE_LEAVES - 1) / ACAN_NODE_LEAVES);
}

ACAN_FN acan_i64 acan_leaves_of(acan_i64 cols) {
  return (cols + ACAN_LANE_LEAF - 1) / ACAN_LANE_LEAF;
}

/* Sums over row r of operand `operand`, by a row's threads. */
ACAN_FN float acan_row_sum(const acan_args* a, int operand, acan_i64 r) {
  ACAN_TREE_VARIABLE float levels[ACAN_TREE_LEVELS];
  const acan_matrix* m = &a->m[operand];
  const acan_i64 leaves = acan_leaves_of(m->cols);
  acan_i64 first;
  for (first = 0; first < leaves; first += ACAN_ROW_LEAVES) {
    const acan_lane_place at = acan_place_of_thread(first, m->cols);
    const ACAN_GLOBAL float* x = m->data + r * m->stride + at.begin;
    acan_push_lanes(a, acan_sum_of_lane(x, at.lane, at.n), first, leaves, levels);
  }
  return acan_share_lanes(a, levels, leaves);
}

ACAN_FN float acan_row_square_sum(const acan_args* a, int operand, acan_i64 r, float mean) {
  ACAN_TREE_VARIABLE float levels[ACAN_TREE_LEVELS];
  const acan_matrix* m = &a->m[operand];
  const acan_i64 leaves = acan_leaves_of(m->cols);
  acan_i64 first;
  for (first = 0; first < leaves; first += ACAN_ROW_LEAVES) {
    const acan_lane_place at = acan_place_of_thread(first, m->cols);
    const ACAN_GLOBAL float* x = m->data + r * m->stride + at.begin;
    acan_push_lanes(a, acan_squares_of_lane(x, mean, at.lane, at.n), first, leaves, levels);
  }
  return acan_share_lanes(a, levels, leaves);
}

#else

ACAN_FN float acan_row_sum(const acan_args* a, int operand, acan_i64 r) {
  float levels[ACAN_TREE_LEVELS];
  const acan_matrix* m = &a->m[operand];
  acan_i64 leaf = 0;
  acan_i64 begin;
  for (begin = 0; begin < m->cols; begin += ACAN_LANE_LEAF, ++leaf) {
    const ACAN_GLOBAL float* x = m->data + r * m->stride + begin;
    const int n = acan_leaf_size(begin, m->cols);
    acan_tree_push(
        levels, leaf,
        n == ACAN_LANE_LEAF ? acan_sum_in_place(x, ACAN_LANE_LEAF) : acan_sum_in_place(x, n));
  }
  return acan_tree_total(levels, leaf);
}

ACAN_FN float acan_row_square_sum(const acan_args* a, int operand, acan_i64 r, float mean) {
  float levels[ACAN_TREE_LEVELS];
  const acan_matrix* m = &a->m[operand];
  acan_i64 leaf = 0;
  acan_i64 begin;
  for (begin = 0; begin < m->cols; begin += ACAN_LANE_LEAF, ++leaf) {
    const ACAN_GLOBAL float* x = m->data + r * m->stride + begin;
    const int n = acan_leaf_size(begin, m->cols);
    acan_tree_push(levels, leaf,
                   n == ACAN_LANE_LEAF ? acan_squares_in_place(x, mean, ACAN_LANE_LEAF)
                                       : acan_squares_in_place(x, mean, n));
  }
  return acan_tree_total(levels, leaf);
}

#endif /* ACAN_ROW_IS_SHARED */

/* The largest element of an operand's row that is not NaN, or -infinity if there is none, and the
 * first column that equals it, or -1 if there is none. If it is a zero, it has the sign of the
 * first zero in the order (column mod 64, column), with columns after the last full leaf last,
 * since vector code finds that one. */
typedef struct {
  float value;
  acan_i64 column;
} acan_largest;

#if ACAN_ROW_IS_SHARED

/* A candidate: its value, its rank in the order above, and the first column of an equal element; -1
 * if there is no candidate. */
typedef struct {
  float value;
  acan_i64 rank;
  acan_i64 column;
} acan_candidate;

ACAN_FN acan_candidate acan_larger(acan_candidate a, acan_candidate b) {
  acan_candidate both = a;
  if ((b.column < 0) | (a.value > b.value)) return a;
  if ((a.column < 0) | (b.value > a.value)) return b;
  if (b.rank < a.rank) both.value = b.value;
  if (b.rank < a.rank) both.rank = b.rank;
  if (b.column < a.column) both.column = b.column;
  return both;
}

/* By a row's threads; all of them get the result. */
ACAN_FN acan_largest acan_find_largest(const acan_args* a, int operand, acan_i64 r) {
  ACAN_SHARED_ARRAY(a, float, values, ACAN_MOST_ROW_THREADS, ACAN_AT_VALUES(ACAN_ROW_THREADS));
  ACAN_SHARED_ARRAY(a, acan_i64, ranks, ACAN_MOST_ROW_THREADS, ACAN_AT_RANKS(ACAN_ROW_THREADS));
  ACAN_SHARED_ARRAY(a, acan_i64, columns, ACAN_MOST_ROW_THREADS, ACAN_AT_COLUMNS(ACAN_ROW_THREADS));
  const acan_matrix* m = &a->m[operand];
  const int at = ACAN_ROW_THREAD;
  const acan_i64 full = m->cols / ACAN_LANE_LEAF * ACAN_LANE_LEAF;
  acan_candidate best;
  acan_largest found;
  acan_i64 c;
  int width;
  best.value = -ACAN_AS_F32(0x7f800000u);
  best.rank = 0;
  best.column = -1;
  for (c = at; c < m->cols; c += ACAN_ROW_THREADS) {
    acan_candidate next;
    next.value = acan_load(m, r, c);
    next.rank =
        c < full ? c % ACAN_LANE_LEAF * full + c / ACAN_LANE_LEAF : ACAN_LANE_LEAF * full + c;
    next.column = c;
    if (next.value == next.value) best = acan_larger(best, next);
  }
  values[at] = best.value;
  ranks[at] = best.rank;
  columns[at] = best.column;
  ACAN_BARRIER();
  for (width = ACAN_ROW_THREADS / 2; width > 0; width /= 2) {
    if (at < width) {
      acan_candidate other;
      other.value = values[at + width];
      other.rank = ranks[at + width];
      other.column = columns[at + width];
      best = acan_larger(best, other);
      values[at] = best.value;
      ranks[at] = best.rank;
      columns[at] = best.column;
    }
    ACAN_BARRIER();
  }
  found.value = values[0];
  found.column = columns[0];
  ACAN_BARRIER(); /* before the next candidates are written */
  return found;
}

#else

ACAN_FN float acan_row_largest(const acan_matrix* m, acan_i64 r) {
  float lanes[ACAN_LANE_LEAF];
  float largest = -ACAN_AS_F32(0x7f800000u);
  acan_i64 begin;
  int t;
  for (t = 0; t < ACAN_LANE_LEAF; ++t) lanes[t] = largest;
  for (begin = 0; begin + ACAN_LANE_LEAF <= m->cols; begin += ACAN_LANE_LEAF) {
    const ACAN_GLOBAL float* from = m->data + r * m->stride + begin;
    for (t = 0; t < ACAN_LANE_LEAF; ++t) lanes[t] = from[t] > lanes[t] ? from[t] : lanes[t];
  }
  for (t = 0; t < ACAN_LANE_LEAF; ++t) largest = lanes[t] > largest ? lanes[t] : largest;
  for (; begin < m->cols; ++begin) {
    const float x = acan_load(m, r, begin);
    largest = x > largest ? x : largest;
  }
  return largest;
}

ACAN_FN acan_i64 acan_first_column(const acan_matrix* m, acan_i64 r, float value) {
  acan_i64 begin;
  acan_i64 c;
  int t;
  for (begin = 0; begin + ACAN_LANE_LEAF <= m->cols; begin += ACAN_LANE_LEAF) {
    const ACAN_GLOBAL float* from = m->data + r * m->stride + begin;
    acan_u32 found = 0;
    for (t = 0; t < ACAN_LANE_LEAF; ++t) found |= from[t] == value ? 1u : 0u;
    if (found) break;
  }
  for (c = begin; c < m->cols; ++c) {
    if (acan_load(m, r, c) == value) return c;
  }
  return -1;
}

ACAN_FN acan_largest acan_find_largest(const acan_args* a, int operand, acan_i64 r) {
  const acan_matrix* m = &a->m[operand];
  acan_largest found;
  found.value = acan_row_largest(m, r);
  found.column = acan_first_column(m, r, found.value);
  return found;
}

#endif /* ACAN_ROW_IS_SHARED */

#endif /* ACAN_KERNELS_LANES_H */
