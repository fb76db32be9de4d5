/* Group norm: the layer norm of the elements of a sample's group of channels, taken as one row. The
 * statistics of a group are (mean, 1 / sqrt(variance + epsilon)). */
#ifndef ACAN_KERNELS_GROUP_NORM_H
#define ACAN_KERNELS_GROUP_NORM_H

/* On a CPU, one call computes its own group and those after it, leaf by leaf, because groups are
 * narrow and the next row of a group is in another page. The calls of those other groups then do
 * nothing. */
#define ACAN_GROUPS_AT_ONCE (ACAN_COLUMN_LANES < 32 ? 1 : 32)

/*   columns     begin .. begin + width - 1       element e is (row e / width, column e % width)
 *               +------------------------+
 *   first_row   |  0    1    2  ...      |
 *               |  width  ...            |
 *               +------------------------+       count = positions * width */
typedef struct {
  acan_i64 sample;
  acan_i64 first_row;
  acan_i64 positions;
  acan_i64 group; /* the call's first group */
  int groups;     /* of the call; 0: another call computes them */
  acan_i64 width;
  acan_i64 count;
} acan_channels;

/* The channels of the call's row r. */
ACAN_FN acan_channels acan_channels_of(const acan_matrix* x, acan_i64 positions, acan_i64 groups,
                                       acan_i64 r) {
  acan_channels g;
  acan_i64 left;
  g.sample = r / groups;
  g.first_row = g.sample * positions;
  g.positions = positions;
  g.group = r % groups;
  left = groups - g.group;
  g.groups = left < ACAN_GROUPS_AT_ONCE ? (int)left : ACAN_GROUPS_AT_ONCE;
  if (g.group % ACAN_GROUPS_AT_ONCE != 0) g.groups = 0;
  g.width = x->cols / groups;
  g.count = positions * g.width;
  return g;
}

/* The first column of the call's group `at`. */
ACAN_FN acan_i64 acan_first_channel(const acan_channels* g, int at) {
  return (g->group + at) * g->width;
}

/* to[k] = from[k], or times scale[k]; `scaled` is a constant. Groups of channels are often narrow,
 * so the loop copies eight elements at a time with a constant number of steps. */
ACAN_FN void acan_copy_run(const ACAN_GLOBAL float* from, const ACAN_GLOBAL float* scale,
                           int scaled, int run, float* to) {
  int k;
  int j;
  for (k = 0; k + 8 <= run; k += 8) {
    ACAN_LANE_LOOP
    for (j = 0; j < 8; ++j) to[k + j] = scaled ? from[k + j] * scale[k + j] : from[k + j];
  }
  for (; k < run; ++k) to[k] = scaled ? from[k] * scale[k] : from[k];
}

/* x[t] = element `first` + t of the call's group `at`, or that times its channel's scale; zeros
 * after the last element. */
ACAN_FN void acan_load_channels(const acan_matrix* m, const ACAN_GLOBAL float* scale, int scaled,
                                const acan_channels* g, int at, acan_i64 first, float* x) {
  const int n = acan_leaf_size(first, g->count);
  const acan_i64 begin = acan_first_channel(g, at);
  acan_i64 row = g->first_row + first / g->width;
  acan_i64 column = first % g->width;
  int t = 0;
  while (t < n) {
    const ACAN_GLOBAL float* from = m->data + row * m->stride + begin + column;
    const int run = g->width - column < n - t ? (int)(g->width - column) : n - t;
    acan_copy_run(from, scaled ? scale + begin + column : from, scaled, run, x + t);
    t += run;
    column = 0;
    ++row;
  }
  acan_end_leaf(n, x);
}

/* ---- leaves in place: of groups whose width is a multiple of 8 ----
 *
 * Such a leaf has eight chunks of eight elements, each in one row. They are not copied together: a
 * core would have to wait where it loads a whole that it has just stored in halves. */
#define ACAN_CHUNK 8

ACAN_FN int acan_has_chunks(const acan_channels* g, acan_i64 first) {
  return (g->width % ACAN_CHUNK == 0) & (first + ACAN_LANE_LEAF <= g->count);
}

/* Finds where the chunks of the leaf at element `first` of the sample's group 0 lie. */
ACAN_FN void acan_find_chunks(const acan_matrix* m, const acan_channels* g, acan_i64 first,
                              acan_i64* chunks) {
  acan_i64 row = g->first_row + first / g->width;
  acan_i64 column = first % g->width;
  int j;
  for (j = 0; j < ACAN_LANE_LEAF / ACAN_CHUNK; ++j) {
    chunks[j] = row * m->stride + column;
    column += ACAN_CHUNK;
    if (column < g->width) continue;
    column = 0;
    ++row;
  }
}

ACAN_FN float acan_chunks_sum(const ACAN_GLOBAL float* x, const acan_i64* chunks) {
  float lanes[ACAN_LANES];
  int h;
  int l;
  for (h = 0; h < 2; ++h) {
    ACAN_LANE_LOOP
    for (l = 0; l < ACAN_CHUNK; ++l) {
      const float two = (0.0f + x[chunks[h] + l]) + x[chunks[h + 2] + l];
      lanes[ACAN_CHUNK * h + l] = (two + x[chunks[h + 4] + l]) + x[chunks[h + 6] + l];
    }
  }
  return acan_add_lanes(lanes);
}

ACAN_FN float acan_chunks_squares(const ACAN_GLOBAL float* x, const acan_i64* chunks, float mean) {
  float lanes[ACAN_LANES];
  int h;
  int l;
  for (h = 0; h < 2; ++h) {
    ACAN_LANE_LOOP
    for (l = 0; l < ACAN_CHUNK; ++l) {
      const float d0 = x[chunks[h] + l] - mean;
      const float d1 = x[chunks[h + 2] + l] - mean;
      const float d2 = x[chunks[h + 4] + l] - mean;
      const float d3 = x[chunks[h + 6] + l] - mean;
      const float two = ACAN_FMA(d1, d1, ACAN_FMA(d0, d0, 0.0f));
      lanes[ACAN_CHUNK * h + l] = ACAN_FMA(d3, d3, ACAN_FMA(d2, d2, two));
    }
  }
  return acan_add_lanes(lanes);
}

#if ACAN_ROW_IS_SHARED

/* The group of a row's threads, which have only one. */
ACAN_FN acan_group acan_group_of(const acan_channels* g) {
  acan_group group;
  group.first_row = g->first_row;
  group.first_column = acan_first_channel(g, 0);
  group.width = g->width;
  group.count = g->count;
  return group;
}

ACAN_FN void acan_channels_mean(const acan_args* a, const acan_channels* g, float* means) {
  const acan_group group = acan_group_of(g);
  means[0] = ACAN_DIV(acan_group_sum(a, &group, 0.0f, 0), (float)g->count);
}

ACAN_FN void acan_channels_variance(const acan_args* a, const acan_channels* g, const float* means,
                                    float* variances) {
  const acan_group group = acan_group_of(g);
  variances[0] = ACAN_DIV(acan_group_sum(a, &group, means[0], 1), (float)g->count);
}

#else

/* Computes the means of the call's groups. */
ACAN_FN void acan_channels_mean(const acan_args* a, const acan_channels* g, float* means) {
  const acan_matrix* x = &a->m[2];
  float levels[ACAN_GROUPS_AT_ONCE][ACAN_TREE_LEVELS];
  float leaf[ACAN_LANE_LEAF];
  acan_i64 chunks[ACAN_LANE_LEAF / ACAN_CHUNK];
  acan_i64 leaves = 0;
  acan_i64 first;
  int at;
  for (first = 0; first < g->count; first += ACAN_LANE_LEAF, ++leaves) {
    if (acan_has_chunks(g, first)) {
      acan_find_chunks(x, g, first, chunks);
      for (at = 0; at < g->groups; ++at) {
        acan_tree_push(levels[at], leaves,
                       acan_chunks_sum(x->data + acan_first_channel(g, at), chunks));
      }
    } else {
      for (at = 0; at < g->groups; ++at) {
        acan_load_channels(x, x->data, 0, g, at, first, leaf);
        acan_tree_push(levels[at], leaves, acan_leaf_sum(leaf));
      }
    }
  }
  for (at = 0; at < g->groups; ++at) {
    means[at] = ACAN_DIV(acan_tree_total(levels[at], leaves), (float)g->count);
  }
}

ACAN_FN void acan_channels_variance(const acan_args* a, const acan_channels* g, const float* means,
                                    float* variances) {
  const acan_matrix* x = &a->m[2];
  float levels[ACAN_GROUPS_AT_ONCE][ACAN_TREE_LEVELS];
  float leaf[ACAN_LANE_LEAF];
  acan_i64 chunks[ACAN_LANE_LEAF / ACAN_CHUNK];
  acan_i64 leaves = 0;
  acan_i64 first;
  int at;
  for (first = 0; first < g->count; first += ACAN_LANE_LEAF, ++leaves) {
    if (acan_has_chunks(g, first)) {
      acan_find_chunks(x, g, first, chunks);
      for (at = 0; at < g->groups; ++at) {
        const ACAN_GLOBAL float* begin = x->data + acan_first_channel(g, at);
        acan_tree_push(levels[at], leaves, acan_chunks_squares(begin, chunks, means[at]));
      }
    } else {
      const int n = acan_leaf_size(first, g->count);
      for (at = 0; at < g->groups; ++at) {
        acan_load_channels(x, x->data, 0, g, at, first, leaf);
        acan_tree_push(levels[at], leaves, acan_leaf_squares(leaf, means[at], n));
      }
    }
  }
  for (at = 0; at < g->groups; ++at) {
    variances[at] = ACAN_DIV(acan_tree_total(levels[at], leaves), (float)g->count);
  }
}

#endif /* ACAN_ROW_IS_SHARED */

/* out = (x - mean) * inverse * scale + bias. The flags are constants. */
ACAN_FN void acan_group_norm_element(const acan_args* a, acan_i64 r, acan_i64 c, float mean,
                                     float inverse, int scaled, int biased) {
  const float h = (acan_load(&a->m[2], r, c) - mean) * inverse;
  const float scale = scaled ? acan_load(&a->m[3], 0, c) : 1.0f;
  const float bias = biased ? acan_load(&a->m[4], 0, c) : 0.0f;
  const float y = scaled && biased ? ACAN_FMA(h, scale, bias) : scaled ? h * scale : h;
  acan_store(&a->m[0], r, c, biased && !scaled ? y + bias : y);
}

#if ACAN_ROW_IS_SHARED

ACAN_FN void acan_group_norm_rows(const acan_args* a, const acan_channels* g, const float* means,
                                  const float* inverses, int scaled, int biased) {
  const acan_group group = acan_group_of(g);
  const acan_group_place by = acan_group_place_of(&group, ACAN_ROW_THREADS);
  acan_group_place at = acan_group_place_of(&group, ACAN_ROW_THREAD);
  for (; at.row < g->positions; at = acan_group_behind(&group, at, by)) {
    acan_group_norm_element(a, group.first_row + at.row, group.first_column + at.column, means[0],
                            inverses[0], scaled, biased);
  }
}

#else

/* The number of channels at once: long runs of a row, which a core prefetches. */
#define ACAN_SPREAD_LANES (4 * ACAN_COLUMN_LANES)

/* Writes, for each of the `lanes` channels from column c on, the value of its group. of_group[0] is
 * the value of the call's first group. */
ACAN_FN void acan_spread(const acan_channels* g, const float* of_group, acan_i64 c, int lanes,
                         float* to) {
  const acan_i64 begin = c - acan_first_channel(g, 0);
  acan_i64 at = begin / g->width;
  acan_i64 left = g->width - begin % g->width;
  int l;
  for (l = 0; l < lanes; ++l) {
    to[l] = of_group[at];
    if (--left > 0) continue;
    left = g->width;
    ++at;
  }
}

/* Channels c .. c + lanes - 1 of the sample's rows. */
ACAN_FN void acan_group_norm_lanes(const acan_args* a, const acan_channels* g, const float* means,
                                   const float* inverses, acan_i64 c, int lanes, int scaled,
                                   int biased) {
  float mean[ACAN_SPREAD_LANES];
  float inverse[ACAN_SPREAD_LANES];
  acan_i64 r;
  int l;
  acan_spread(g, means, c, lanes, mean);
  acan_spread(g, inverses, c, lanes, inverse);
  for (r = g->first_row; r < g->first_row + g->positions; ++r) {
    ACAN_INDEPENDENT
    for (l = 0; l < lanes; ++l) {
      acan_group_norm_element(a, r, c + l, mean[l], inverse[l], scaled, biased);
    }
  }
}

ACAN_FN void acan_group_norm_rows(const acan_args* a, const acan_channels* g, const float* means,
                                  const float* inverses, int scaled, int biased) {
  const acan_i64 end = acan_first_channel(g, g->groups);
  acan_i64 c = acan_first_channel(g, 0);
  for (; c + ACAN_SPREAD_LANES <= end; c += ACAN_SPREAD_LANES) {
    acan_group_norm_lanes(a, g, means, inverses, c, ACAN_SPREAD_LANES, scaled, biased);
  }
  if (c < end) {
    acan_group_norm_lanes(a, g, means, inverses, c, (int)(end - c), scaled, biased);
  }
}

#endif /* ACAN_ROW_IS_SHARED */

ACAN_FN void acan_group_norm(const acan_args* a, acan_i64 row) {
  const acan_channels g = acan_channels_of(&a->m[2], a->i[0], a->i[1], row);
  float means[ACAN_GROUPS_AT_ONCE];
  float inverses[ACAN_GROUPS_AT_ONCE];
  int at;
  /* A row's threads always have a group. PoCL would run stores behind barriers twice for the first
   * thread if a condition that it does not know were before them. */
  if (!ACAN_ROW_IS_SHARED && g.groups == 0) return;
  acan_channels_mean(a, &g, means);
  acan_channels_variance(a, &g, means, inverses);
  for (at = 0; at < g.groups; ++at) {
    inverses[at] = ACAN_DIV(1.0f, ACAN_SQRT(inverses[at] + a->f[0]));
    if (ACAN_ROW_IS_SHARED && ACAN_ROW_THREAD != 0) continue;
    acan_store(&a->m[1], g.sample, 2 * (g.group + at), means[at]);
    acan_store(&a->m[1], g.sample, 2 * (g.group + at) + 1, inverses[at]);
  }
  if (!a->m[0].data) return;
  if (a->m[3].data && a->m[4].data) {
    acan_group_norm_rows(a, &g, means, inverses, 1, 1);
  } else if (a->m[3].data) {
    acan_group_norm_rows(a, &g, means, inverses, 1, 0);
  } else if (a->m[4].data) {
    acan_group_norm_rows(a, &g, means, inverses, 0, 1);
  } else {
    acan_group_norm_rows(a, &g, means, inverses, 0, 0);
  }
}

#endif /* ACAN_KERNELS_GROUP_NORM_H */
