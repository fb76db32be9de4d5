/* Sums over rows that come from samples of several positions. Rows are in groups of whole samples.
 * Inside a group there are leaves of `block` rows, each a chain that begins at 0, and the aligned
 * tree over them; above is the aligned tree over the groups. However samples are cut, the rows of a
 * task are a node.
 *
 *   rows    0 .. 63   64 .. 127   128 .. 199 | 200 .. 263   264 .. 327   328 .. 399 |  ...
 *              \        /            |              \         /             |
 *               +------+-------------+               +-------+--------------+
 *                      group 0  \________________________/   group 1
 *
 * Columns c .. c + lanes - 1 are summed side by side: each lane is its own sum. */
#ifndef ACAN_KERNELS_ROW_GROUPS_H
#define ACAN_KERNELS_ROW_GROUPS_H

/* As acan_tree_push and acan_tree_total, for each lane; `sums` is both input and output. */
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

/* What a chain adds: x, x * y, or (x - y)^2 where y belongs to the column. */
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

#if ACAN_COLUMN_IS_SHARED

/* The number of rows of a column that a thread loads before it adds them. Adding after each load
 * would wait for the memory each time. */
#define ACAN_ROWS_AT_ONCE 16
#define ACAN_NORM_ROWS_AT_ONCE 8

ACAN_FN float acan_chain_term(int what, float x, float y, float sum) {
  const float d = x - y;
  return what == ACAN_CHAIN_SUM
             ? sum + x
             : ACAN_FMA(what == ACAN_CHAIN_DOT ? x : d, what == ACAN_CHAIN_DOT ? y : d, sum);
}

/* acan_column_chain of one column. */
ACAN_FN float acan_shared_chain(const acan_matrix* x, const acan_matrix* y, int what,
                                acan_i64 begin, acan_i64 end, acan_i64 c) {
  const ACAN_GLOBAL float* from_x = x->data + begin * x->stride + c;
  const ACAN_GLOBAL float* from_y = y->data + (what == ACAN_CHAIN_DOT ? begin * y->stride : 0) + c;
  const acan_i64 y_stride = what == ACAN_CHAIN_DOT ? y->stride : 0;
  const int rows = (int)(end - begin);
  float sum = 0.0f;
  int r = 0;
  int t;
  ACAN_NO_UNROLL for (; r + ACAN_ROWS_AT_ONCE <= rows; r += ACAN_ROWS_AT_ONCE) {
    float xs[ACAN_ROWS_AT_ONCE];
    float ys[ACAN_ROWS_AT_ONCE];
    ACAN_UNROLL for (t = 0; t < ACAN_ROWS_AT_ONCE; ++t) {
      xs[t] = from_x[(r + t) * x->stride];
      ys[t] = what == ACAN_CHAIN_SUM ? 0.0f : from_y[(r + t) * y_stride];
    }
    ACAN_UNROLL for (t = 0; t < ACAN_ROWS_AT_ONCE; ++t) {
      sum = acan_chain_term(what, xs[t], ys[t], sum);
    }
  }
  ACAN_NO_UNROLL for (; r < rows; ++r) {
    sum = acan_chain_term(what, from_x[r * x->stride],
                          what == ACAN_CHAIN_SUM ? 0.0f : from_y[r * y_stride], sum);
  }
  return sum;
}

/* By the threads of a block; `there` says whether this thread has a column. */
ACAN_FN void acan_sum_places(const acan_args* a, int what, const acan_places* p, acan_i64 c,
                             int there) {
  ACAN_TREE_VARIABLE float nodes[ACAN_OPEN_WORDS];
  ACAN_TREE_VARIABLE acan_i32 numbers[ACAN_OPEN_WORDS];
  acan_open_nodes open = acan_no_nodes(nodes, numbers);
  acan_i64 first;
  for (first = 0; first < p->places; first = acan_next_turn(p, first)) {
    const acan_leaf_rows leaf = acan_rows_at(p, first + ACAN_COLUMN_PLACE);
    float sum;
    sum = acan_shared_chain(&a->m[1], &a->m[2], what, leaf.begin, there ? leaf.end : leaf.begin, c);
    acan_push_places(a, &open, p, first, sum);
  }
  if (ACAN_COLUMN_PLACE == 0 && there) acan_store(&a->m[0], 0, c, acan_open_total(&open));
}

ACAN_FN void acan_column_sums(const acan_args* a, acan_i64 c, int lanes) {
  const acan_places p = acan_places_of(a->m[1].rows, a->i[0], a->i[0]);
  acan_sum_places(a, ACAN_CHAIN_SUM, &p, c, lanes);
}

ACAN_FN void acan_group_sums(const acan_args* a, int what, acan_i64 c, int lanes) {
  const acan_places p = acan_places_of(a->m[1].rows, a->i[0], a->i[1]);
  acan_sum_places(a, what, &p, c, lanes);
}

#else

/* Columns c .. c + lanes - 1 side by side: each lane is its own sum. */
ACAN_FN void acan_column_sums(const acan_args* a, acan_i64 c, int lanes) {
  float levels[ACAN_TREE_LEVELS][ACAN_COLUMN_LANES];
  float sums[ACAN_COLUMN_LANES];
  const acan_i64 rows = a->m[1].rows;
  acan_i64 leaf = 0;
  acan_i64 begin;
  acan_i64 r;
  acan_i64 pending;
  int level;
  int l;
  for (begin = 0; begin < rows; begin += a->i[0], ++leaf) {
    const acan_i64 end = acan_leaf_end(begin, a->i[0], rows);
    for (l = 0; l < lanes; ++l) sums[l] = 0.0f;
    for (r = begin; r < end; ++r) {
      for (l = 0; l < lanes; ++l) sums[l] = sums[l] + acan_load(&a->m[1], r, c + l);
    }
    level = 0;
    for (pending = leaf; pending & 1; pending >>= 1, ++level) {
      for (l = 0; l < lanes; ++l) sums[l] = levels[level][l] + sums[l];
    }
    for (l = 0; l < lanes; ++l) levels[level][l] = sums[l];
  }
  level = 0;
  for (pending = leaf; !(pending & 1); pending >>= 1) ++level;
  for (l = 0; l < lanes; ++l) sums[l] = levels[level][l];
  for (pending >>= 1, ++level; pending; pending >>= 1, ++level) {
    if (!(pending & 1)) continue;
    for (l = 0; l < lanes; ++l) sums[l] = levels[level][l] + sums[l];
  }
  for (l = 0; l < lanes; ++l) acan_store(&a->m[0], 0, c + l, sums[l]);
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

#endif /* ACAN_COLUMN_IS_SHARED */

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

/* The owner of a norm's statistics (mean, inverse). A constant says which one. */
#define ACAN_BY_ROW 0
#define ACAN_BY_COLUMN 1
#define ACAN_BY_SAMPLE 2 /* of a sample's group of channels */

/* The chains of rows begin .. end - 1 of dy * h, and of dy; h = (x - mean) * inverse. */
ACAN_FN void acan_norm_chains(const acan_args* a, int by_column, acan_i64 begin, acan_i64 end,
                              acan_i64 c, float* dots, float* sums, int lanes) {
  const acan_matrix* statistics = &a->m[3];
  acan_i64 r;
  int l;
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

/* Loads the statistics of sample s: for each channel from c on, those of its group. */
ACAN_FN void acan_load_sample_statistics(const acan_args* a, acan_i64 s, acan_i64 c, float* means,
                                         float* inverses, int lanes) {
  const acan_i64 width = a->m[2].cols / a->i[3];
  acan_i64 group = c / width;
  acan_i64 channel = c % width;
  int l;
  for (l = 0; l < lanes; ++l) {
    means[l] = acan_load(&a->m[3], s, 2 * group);
    inverses[l] = acan_load(&a->m[3], s, 2 * group + 1);
    if (++channel == width) {
      channel = 0;
      ++group;
    }
  }
}

ACAN_FN void acan_sample_norm_chains(const acan_args* a, acan_i64 begin, acan_i64 end, acan_i64 c,
                                     float* dots, float* sums, int lanes) {
  float means[ACAN_COLUMN_LANES];
  float inverses[ACAN_COLUMN_LANES];
  const acan_i64 positions = a->i[2];
  acan_i64 r;
  int l;
  for (r = begin; r < end;) {
    const acan_i64 last = acan_leaf_end(r / positions * positions, positions, end);
    acan_load_sample_statistics(a, r / positions, c, means, inverses, lanes);
    /* Two rows at once halve the loads and stores of the sums. */
    for (; r + 2 <= last; r += 2) {
      for (l = 0; l < lanes; ++l) {
        const float dy = acan_load(&a->m[4], r, c + l);
        const float next_dy = acan_load(&a->m[4], r + 1, c + l);
        const float h = (acan_load(&a->m[2], r, c + l) - means[l]) * inverses[l];
        const float next_h = (acan_load(&a->m[2], r + 1, c + l) - means[l]) * inverses[l];
        dots[l] = ACAN_FMA(next_dy, next_h, ACAN_FMA(dy, h, dots[l]));
        sums[l] = (sums[l] + dy) + next_dy;
      }
    }
    for (; r < last; ++r) {
      for (l = 0; l < lanes; ++l) {
        const float dy = acan_load(&a->m[4], r, c + l);
        const float h = (acan_load(&a->m[2], r, c + l) - means[l]) * inverses[l];
        dots[l] = ACAN_FMA(dy, h, dots[l]);
        sums[l] = sums[l] + dy;
      }
    }
  }
}

/* The chains of a leaf. `by` is a constant. */
ACAN_FN void acan_norm_leaf_chains(const acan_args* a, int by, acan_i64 begin, acan_i64 end,
                                   acan_i64 c, float* dots, float* sums, int lanes) {
  int l;
  for (l = 0; l < lanes; ++l) dots[l] = 0.0f;
  for (l = 0; l < lanes; ++l) sums[l] = 0.0f;
  if (by == ACAN_BY_SAMPLE) {
    acan_sample_norm_chains(a, begin, end, c, dots, sums, lanes);
  } else {
    acan_norm_chains(a, by == ACAN_BY_COLUMN, begin, end, c, dots, sums, lanes);
  }
}

#if ACAN_COLUMN_IS_SHARED

/* acan_norm_chains of one column. */
ACAN_FN void acan_shared_norm_chains(const acan_args* a, int by_column, acan_i64 begin,
                                     acan_i64 end, acan_i64 c, float* dots, float* sums) {
  const ACAN_GLOBAL float* x = a->m[2].data + begin * a->m[2].stride + c;
  const ACAN_GLOBAL float* dy = a->m[4].data + begin * a->m[4].stride + c;
  /* Of row r, mean and inverse are (r * step)[0] and (r * step)[apart]. */
  const acan_i64 step = by_column ? 0 : a->m[3].stride;
  const acan_i64 apart = by_column ? a->m[3].stride : 1;
  const ACAN_GLOBAL float* statistics = a->m[3].data + begin * step + (by_column ? c : 0);
  const int rows = (int)(end - begin);
  float dot = 0.0f;
  float sum = 0.0f;
  int r;
  int t;
  ACAN_NO_UNROLL for (r = 0; r < rows; r += ACAN_NORM_ROWS_AT_ONCE) {
    float xs[ACAN_NORM_ROWS_AT_ONCE];
    float dys[ACAN_NORM_ROWS_AT_ONCE];
    float means[ACAN_NORM_ROWS_AT_ONCE];
    float inverses[ACAN_NORM_ROWS_AT_ONCE];
    /* After the last row, this reads the last row again, which is not added. */
    ACAN_UNROLL for (t = 0; t < ACAN_NORM_ROWS_AT_ONCE; ++t) {
      const int row = r + t < rows ? r + t : rows - 1;
      xs[t] = x[row * a->m[2].stride];
      dys[t] = dy[row * a->m[4].stride];
      means[t] = statistics[row * step];
      inverses[t] = statistics[row * step + apart];
    }
    ACAN_UNROLL for (t = 0; t < ACAN_NORM_ROWS_AT_ONCE; ++t) {
      if (r + t >= rows) continue;
      dot = ACAN_FMA(dys[t], (xs[t] - means[t]) * inverses[t], dot);
      sum = sum + dys[t];
    }
  }
  *dots = dot;
  *sums = sum;
}

ACAN_FN void acan_norm_group_sums(const acan_args* a, int by, acan_i64 c, int there) {
  ACAN_TREE_VARIABLE float dot_nodes[ACAN_OPEN_WORDS];
  ACAN_TREE_VARIABLE acan_i32 dot_numbers[ACAN_OPEN_WORDS];
  ACAN_TREE_VARIABLE float sum_nodes[ACAN_OPEN_WORDS];
  ACAN_TREE_VARIABLE acan_i32 sum_numbers[ACAN_OPEN_WORDS];
  const acan_places p = acan_places_of(a->m[2].rows, a->i[0], a->i[1]);
  acan_open_nodes dots = acan_no_nodes(dot_nodes, dot_numbers);
  acan_open_nodes sums = acan_no_nodes(sum_nodes, sum_numbers);
  acan_i64 first;
  for (first = 0; first < p.places; first = acan_next_turn(&p, first)) {
    const acan_leaf_rows leaf = acan_rows_at(&p, first + ACAN_COLUMN_PLACE);
    float dot;
    float sum;
    if (by == ACAN_BY_SAMPLE) {
      acan_norm_leaf_chains(a, by, leaf.begin, there ? leaf.end : leaf.begin, c, &dot, &sum, there);
    } else {
      acan_shared_norm_chains(a, by == ACAN_BY_COLUMN, leaf.begin, there ? leaf.end : leaf.begin, c,
                              &dot, &sum);
    }
    acan_push_places(a, &dots, &p, first, there ? dot : 0.0f);
    acan_push_places(a, &sums, &p, first, there ? sum : 0.0f);
  }
  if (ACAN_COLUMN_PLACE != 0 || !there) return;
  acan_store(&a->m[0], 0, c, acan_open_total(&dots));
  if (a->m[1].data) acan_store(&a->m[1], 0, c, acan_open_total(&sums));
}

#else

ACAN_FN void acan_norm_group_sums(const acan_args* a, int by, acan_i64 c, int lanes) {
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
      const acan_i64 end = acan_leaf_end(begin, a->i[0], last);
      acan_norm_leaf_chains(a, by, begin, end, c, dots, sums, lanes);
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

#endif /* ACAN_COLUMN_IS_SHARED */

ACAN_FN void acan_norm_scale_gradient(const acan_args* a, acan_i64 c, int lanes) {
  acan_norm_group_sums(a, ACAN_BY_ROW, c, lanes);
}

ACAN_FN void acan_column_norm_sums(const acan_args* a, acan_i64 c, int lanes) {
  acan_norm_group_sums(a, ACAN_BY_COLUMN, c, lanes);
}

ACAN_FN void acan_group_norm_scale_gradient(const acan_args* a, acan_i64 c, int lanes) {
  acan_norm_group_sums(a, ACAN_BY_SAMPLE, c, lanes);
}

#endif /* ACAN_KERNELS_ROW_GROUPS_H */
