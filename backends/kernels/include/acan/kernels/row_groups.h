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

/* What a chain adds: x, x * y, or (x - y)^2 with y of the column. */
#define ACAN_CHAIN_SUM 0
#define ACAN_CHAIN_DOT 1
#define ACAN_CHAIN_SQUARES 2

/* The chain of rows begin .. end - 1. `what` is a constant. */
ACAN_FN void acan_column_chain(const acan_matrix* x, const acan_matrix* y, int what, acan_i64 begin,
                               acan_i64 end, acan_i64 c, float* sums, int lanes) {
  acan_i64 r;
  int l;
  for (l = 0; l < lanes; ++l) sums[l] = 0.0f;
  for (r = begin; r < end; ++r) {
    if (what == ACAN_CHAIN_SUM) {
      for (l = 0; l < lanes; ++l) sums[l] = sums[l] + acan_load(x, r, c + l);
    } else if (what == ACAN_CHAIN_DOT) {
      for (l = 0; l < lanes; ++l) {
        sums[l] = ACAN_FMA(acan_load(x, r, c + l), acan_load(y, r, c + l), sums[l]);
      }
    } else {
      for (l = 0; l < lanes; ++l) {
        const float d = acan_load(x, r, c + l) - acan_load(y, 0, c + l);
        sums[l] = ACAN_FMA(d, d, sums[l]);
      }
    }
  }
}

ACAN_FN void acan_group_sums(const acan_args* a, int what, acan_i64 c, int lanes) {
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
      acan_column_chain(&a->m[1], &a->m[2], what, begin, acan_leaf_end(begin, a->i[0], last), c,
                        sums, lanes);
      acan_lane_tree_push(inner, leaf, sums, lanes);
    }
    acan_lane_tree_total(inner, leaf, sums, lanes);
    acan_lane_tree_push(outer, groups, sums, lanes);
  }
  acan_lane_tree_total(outer, groups, sums, lanes);
  acan_store_lanes(&a->m[0], 0, c, sums, lanes);
}

ACAN_FN void acan_column_dots(const acan_args* a, acan_i64 c, int lanes) {
  if (a->m[2].data) {
    acan_group_sums(a, ACAN_CHAIN_DOT, c, lanes);
  } else {
    acan_group_sums(a, ACAN_CHAIN_SUM, c, lanes);
  }
}

ACAN_FN void acan_column_squares(const acan_args* a, acan_i64 c, int lanes) {
  acan_group_sums(a, ACAN_CHAIN_SQUARES, c, lanes);
}

/* The chains of rows begin .. end - 1 of dy * h, and of dy; h = (x - mean) * inverse, with the
 * statistics of the row, or of the column (a constant says which). */
ACAN_FN void acan_norm_chains(const acan_args* a, int by_column, acan_i64 begin, acan_i64 end,
                              acan_i64 c, float* dots, float* sums, int lanes) {
  const acan_matrix* statistics = &a->m[3];
  acan_i64 r;
  int l;
  for (l = 0; l < lanes; ++l) dots[l] = 0.0f;
  for (l = 0; l < lanes; ++l) sums[l] = 0.0f;
  for (r = begin; r < end; ++r) {
    const float row_mean = by_column ? 0.0f : acan_load(statistics, r, 0);
    const float row_inverse = by_column ? 0.0f : acan_load(statistics, r, 1);
    for (l = 0; l < lanes; ++l) {
      const float mean = by_column ? acan_load(statistics, 0, c + l) : row_mean;
      const float inverse = by_column ? acan_load(statistics, 1, c + l) : row_inverse;
      const float dy = acan_load(&a->m[4], r, c + l);
      dots[l] = ACAN_FMA(dy, (acan_load(&a->m[2], r, c + l) - mean) * inverse, dots[l]);
      sums[l] = sums[l] + dy;
    }
  }
}

ACAN_FN void acan_norm_group_sums(const acan_args* a, int by_column, acan_i64 c, int lanes) {
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
      acan_norm_chains(a, by_column, begin, acan_leaf_end(begin, a->i[0], last), c, dots, sums,
                       lanes);
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

ACAN_FN void acan_norm_scale_gradient(const acan_args* a, acan_i64 c, int lanes) {
  acan_norm_group_sums(a, 0, c, lanes);
}

ACAN_FN void acan_column_norm_sums(const acan_args* a, acan_i64 c, int lanes) {
  acan_norm_group_sums(a, 1, c, lanes);
}

#endif /* ACAN_KERNELS_ROW_GROUPS_H */
