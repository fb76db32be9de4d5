/* Sums over rows that come from samples of several positions. Rows are in groups of whole samples:
 * inside a group leaves of `block` rows, each a chain that begins at 0, and the aligned tree over
 * them; then the aligned tree over the groups. However samples are cut, a task's rows are a node.
 *
 *   rows    0 .. 63   64 .. 127   128 .. 199 | 200 .. 263   264 .. 327   328 .. 399 |  ...
 *              \        /            |              \         /             |
 *               +------+-------------+               +-------+--------------+
 *                      group 0  \________________________/   group 1
 *
 * Columns c .. c + lanes - 1 are summed side by side: each lane is its own sum. */
#ifndef ACAN_KERNELS_ROW_GROUPS_H
#define ACAN_KERNELS_ROW_GROUPS_H

/* As acan_tree_push and acan_tree_total, for each lane; the sums come and go in `sums`. */
ACAN_FN void acan_lane_tree_push(float levels[][ACAN_COLUMN_LANES], acan_i64 leaf, float* sums,
                                 int lanes) {
  int level = 0;
  int l;
  for (; leaf & 1; leaf >>= 1, ++level) {
    for (l = 0; l < lanes; ++l) sums[l] = levels[level][l] + sums[l];
  }
  for (l = 0; l < lanes; ++l) levels[level][l] = sums[l];
}

ACAN_FN void acan_lane_tree_total(float levels[][ACAN_COLUMN_LANES], acan_i64 leaves, float* sums,
                                  int lanes) {
  int level = 0;
  int l;
  for (; !(leaves & 1); leaves >>= 1) ++level;
  for (l = 0; l < lanes; ++l) sums[l] = levels[level][l];
  for (leaves >>= 1, ++level; leaves; leaves >>= 1, ++level) {
    if (!(leaves & 1)) continue;
    for (l = 0; l < lanes; ++l) sums[l] = levels[level][l] + sums[l];
  }
}

ACAN_FN void acan_store_lanes(const acan_matrix* m, acan_i64 r, acan_i64 c, const float* x,
                              int lanes) {
  int l;
  for (l = 0; l < lanes; ++l) acan_store(m, r, c + l, x[l]);
}

/* The chain of rows begin .. end - 1: of x, or of the products x * y where y is there. */
ACAN_FN void acan_column_chain(const acan_matrix* x, const acan_matrix* y, acan_i64 begin,
                               acan_i64 end, acan_i64 c, float* sums, int lanes) {
  acan_i64 r;
  int l;
  for (l = 0; l < lanes; ++l) sums[l] = 0.0f;
  for (r = begin; r < end; ++r) {
    if (y->data) {
      for (l = 0; l < lanes; ++l) {
        sums[l] = ACAN_FMA(acan_load(x, r, c + l), acan_load(y, r, c + l), sums[l]);
      }
    } else {
      for (l = 0; l < lanes; ++l) sums[l] = sums[l] + acan_load(x, r, c + l);
    }
  }
}

ACAN_FN void acan_column_dots(const acan_args* a, acan_i64 c, int lanes) {
  float inner[ACAN_TREE_LEVELS][ACAN_COLUMN_LANES];
  float outer[ACAN_TREE_LEVELS][ACAN_COLUMN_LANES];
  float sums[ACAN_COLUMN_LANES];
  const acan_i64 rows = a->m[1].rows;
  acan_i64 groups = 0;
  acan_i64 first;
  for (first = 0; first < rows; first += a->i[1], ++groups) {
    const acan_i64 last = acan_leaf_end(first, a->i[1], rows);
    acan_i64 leaf = 0;
    acan_i64 begin;
    for (begin = first; begin < last; begin += a->i[0], ++leaf) {
      acan_column_chain(&a->m[1], &a->m[2], begin, acan_leaf_end(begin, a->i[0], last), c, sums,
                        lanes);
      acan_lane_tree_push(inner, leaf, sums, lanes);
    }
    acan_lane_tree_total(inner, leaf, sums, lanes);
    acan_lane_tree_push(outer, groups, sums, lanes);
  }
  acan_lane_tree_total(outer, groups, sums, lanes);
  acan_store_lanes(&a->m[0], 0, c, sums, lanes);
}

/* The chains of rows begin .. end - 1 of dy * h, and of dy. */
ACAN_FN void acan_norm_chains(const acan_args* a, acan_i64 begin, acan_i64 end, acan_i64 c,
                              float* dots, float* sums, int lanes) {
  acan_i64 r;
  int l;
  for (l = 0; l < lanes; ++l) dots[l] = 0.0f;
  for (l = 0; l < lanes; ++l) sums[l] = 0.0f;
  for (r = begin; r < end; ++r) {
    const float mean = acan_load(&a->m[3], r, 0);
    const float inverse = acan_load(&a->m[3], r, 1);
    for (l = 0; l < lanes; ++l) {
      const float dy = acan_load(&a->m[4], r, c + l);
      dots[l] = ACAN_FMA(dy, (acan_load(&a->m[2], r, c + l) - mean) * inverse, dots[l]);
      sums[l] = sums[l] + dy;
    }
  }
}

ACAN_FN void acan_norm_scale_gradient(const acan_args* a, acan_i64 c, int lanes) {
  float inner_dots[ACAN_TREE_LEVELS][ACAN_COLUMN_LANES];
  float outer_dots[ACAN_TREE_LEVELS][ACAN_COLUMN_LANES];
  float inner_sums[ACAN_TREE_LEVELS][ACAN_COLUMN_LANES];
  float outer_sums[ACAN_TREE_LEVELS][ACAN_COLUMN_LANES];
  float dots[ACAN_COLUMN_LANES];
  float sums[ACAN_COLUMN_LANES];
  const acan_i64 rows = a->m[2].rows;
  acan_i64 groups = 0;
  acan_i64 first;
  for (first = 0; first < rows; first += a->i[1], ++groups) {
    const acan_i64 last = acan_leaf_end(first, a->i[1], rows);
    acan_i64 leaf = 0;
    acan_i64 begin;
    for (begin = first; begin < last; begin += a->i[0], ++leaf) {
      acan_norm_chains(a, begin, acan_leaf_end(begin, a->i[0], last), c, dots, sums, lanes);
      acan_lane_tree_push(inner_dots, leaf, dots, lanes);
      acan_lane_tree_push(inner_sums, leaf, sums, lanes);
    }
    acan_lane_tree_total(inner_dots, leaf, dots, lanes);
    acan_lane_tree_total(inner_sums, leaf, sums, lanes);
    acan_lane_tree_push(outer_dots, groups, dots, lanes);
    acan_lane_tree_push(outer_sums, groups, sums, lanes);
  }
  acan_lane_tree_total(outer_dots, groups, dots, lanes);
  acan_lane_tree_total(outer_sums, groups, sums, lanes);
  acan_store_lanes(&a->m[0], 0, c, dots, lanes);
  if (a->m[1].data) acan_store_lanes(&a->m[1], 0, c, sums, lanes);
}

#endif /* ACAN_KERNELS_ROW_GROUPS_H */
