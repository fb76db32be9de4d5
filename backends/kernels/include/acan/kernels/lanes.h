/* Sums along a row in lane order. In a leaf of 64 elements, lane l of 16 adds x[l], x[16 + l],
 * x[32 + l] and x[48 + l] in this order, beginning at 0; then lanes l and l + 8 are added, l and
 * l + 4, l and l + 2, l and l + 1. Leaves are added by the aligned tree of args.h.
 *
 *   x[0..16)  x[16..32)  x[32..48)  x[48..64)
 *      |          |          |          |
 *   0 -+----------+----------+----------+-> 16 lanes -> 8 -> 4 -> 2 -> the leaf's sum
 *
 * A leaf that is not full is filled up with zeros, which changes no bit: a lane begins at +0, so it
 * is never -0, and adding +0 to anything else leaves it as it is.
 *
 * Loops over a leaf have a constant number of steps, so that compilers make vectors of them. */
#ifndef ACAN_KERNELS_LANES_H
#define ACAN_KERNELS_LANES_H

#define ACAN_LANES 16
#define ACAN_LANE_LEAF 64

/* How many elements of the leaf at `begin` there are. */
ACAN_FN int acan_leaf_size(acan_i64 begin, acan_i64 end) {
  return end - begin < ACAN_LANE_LEAF ? (int)(end - begin) : ACAN_LANE_LEAF;
}

/* x[t] = element - minus of the n elements of row r from column `begin` on, then zeros. */
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

/* Zeros behind the n elements of a leaf that is not full. */
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

/* The sum of a leaf where it lies. Called with a constant n for leaves that are full. */
ACAN_FN float acan_sum_in_place(const ACAN_GLOBAL float* x, int n) {
  float lanes[ACAN_LANES];
  int l;
  ACAN_LANE_LOOP
  for (l = 0; l < ACAN_LANES; ++l) {
    const float two = (0.0f + acan_leaf_element(x, l, n)) + acan_leaf_element(x, 16 + l, n);
    lanes[l] = (two + acan_leaf_element(x, 32 + l, n)) + acan_leaf_element(x, 48 + l, n);
  }
  return acan_add_lanes(lanes);
}

/* x[t] - mean, and 0 behind the leaf's n elements. */
ACAN_FN float acan_leaf_deviation(const ACAN_GLOBAL float* x, float mean, int t, int n) {
  return t < n ? x[t] - mean : 0.0f;
}

/* The sum of (x - mean)^2 over a leaf. */
ACAN_FN float acan_squares_in_place(const ACAN_GLOBAL float* x, float mean, int n) {
  float lanes[ACAN_LANES];
  int l;
  ACAN_LANE_LOOP
  for (l = 0; l < ACAN_LANES; ++l) {
    const float d0 = acan_leaf_deviation(x, mean, l, n);
    const float d1 = acan_leaf_deviation(x, mean, 16 + l, n);
    const float d2 = acan_leaf_deviation(x, mean, 32 + l, n);
    const float d3 = acan_leaf_deviation(x, mean, 48 + l, n);
    const float two = ACAN_FMA(d1, d1, ACAN_FMA(d0, d0, 0.0f));
    lanes[l] = ACAN_FMA(d3, d3, ACAN_FMA(d2, d2, two));
  }
  return acan_add_lanes(lanes);
}

/* Sums over row r of a matrix. */
ACAN_FN float acan_row_sum(const acan_matrix* m, acan_i64 r) {
  float levels[ACAN_TREE_LEVELS];
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

ACAN_FN float acan_row_square_sum(const acan_matrix* m, acan_i64 r, float mean) {
  float levels[ACAN_TREE_LEVELS];
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

/* The largest element of row r that is not NaN, -infinity where there is none. */
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

/* The first column whose element equals `value`; 0 where there is none. */
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
  return 0;
}

#endif /* ACAN_KERNELS_LANES_H */
