/* Layer norm, RMS norm and group norm. Statistics of a row, or of a sample's group, are (mean,
 * 1 / sqrt(variance + epsilon)); those of an RMS norm have the mean 0, so that one kernel makes the
 * gradients of both scales. */
#ifndef ACAN_KERNELS_NORMS_H
#define ACAN_KERNELS_NORMS_H

/* Values of the variant. */
#define ACAN_LAYER_NORM 0
#define ACAN_RMS_NORM 1

/* out = (x - mean) * inverse * scale + bias. The flags are constants, so the loop has no branch. */
ACAN_FN void acan_norm_row(const acan_args* a, acan_i64 r, float mean, float inverse, int scaled,
                           int biased) {
  const acan_i64 cols = a->m[2].cols;
  acan_i64 c;
  ACAN_INDEPENDENT
  for (c = 0; c < cols; ++c) {
    const float h = (acan_load(&a->m[2], r, c) - mean) * inverse;
    const float scale = scaled ? acan_load(&a->m[3], 0, c) : 1.0f;
    const float bias = biased ? acan_load(&a->m[4], 0, c) : 0.0f;
    const float y = scaled && biased ? ACAN_FMA(h, scale, bias) : scaled ? h * scale : h;
    acan_store(&a->m[0], r, c, biased && !scaled ? y + bias : y);
  }
}

ACAN_FN void acan_norm(const acan_args* a, acan_i64 r) {
  const acan_matrix* x = &a->m[2];
  const float count = (float)x->cols;
  const float mean = a->i[0] == ACAN_LAYER_NORM ? ACAN_DIV(acan_row_sum(x, r), count) : 0.0f;
  const float variance = ACAN_DIV(acan_row_square_sum(x, r, mean), count);
  const float inverse = ACAN_DIV(1.0f, ACAN_SQRT(variance + a->f[0]));
  if (a->m[3].data && a->m[4].data) {
    acan_norm_row(a, r, mean, inverse, 1, 1);
  } else if (a->m[3].data) {
    acan_norm_row(a, r, mean, inverse, 1, 0);
  } else if (a->m[4].data) {
    acan_norm_row(a, r, mean, inverse, 0, 1);
  } else {
    acan_norm_row(a, r, mean, inverse, 0, 0);
  }
  acan_store(&a->m[1], r, 0, mean);
  acan_store(&a->m[1], r, 1, inverse);
}

/* Where the row of a call of kNormGradient lies, and its statistics. */
typedef struct {
  const ACAN_GLOBAL float* x;
  const ACAN_GLOBAL float* dy;
  const ACAN_GLOBAL float* scale; /* null: none */
  float mean;
  float inverse;
} acan_norm_operands;

ACAN_FN float acan_norm_h(const acan_norm_operands* o, acan_i64 c) {
  return (o->x[c] - o->mean) * o->inverse;
}

ACAN_FN float acan_norm_g(const acan_norm_operands* o, acan_i64 c, int scaled) {
  return scaled ? o->dy[c] * o->scale[c] : o->dy[c];
}

/* The sums of g and of g * h over the leaf of n elements at `begin`. */
ACAN_FN void acan_norm_leaf(const acan_norm_operands* o, acan_i64 begin, int n, int scaled,
                            float* sum, float* dot) {
  float sums[ACAN_LANES];
  float dots[ACAN_LANES];
  int l;
  ACAN_LANE_LOOP
  for (l = 0; l < ACAN_LANES; ++l) {
    const float g0 = l < n ? acan_norm_g(o, begin + l, scaled) : 0.0f;
    const float g1 = 16 + l < n ? acan_norm_g(o, begin + 16 + l, scaled) : 0.0f;
    const float g2 = 32 + l < n ? acan_norm_g(o, begin + 32 + l, scaled) : 0.0f;
    const float g3 = 48 + l < n ? acan_norm_g(o, begin + 48 + l, scaled) : 0.0f;
    const float h0 = l < n ? acan_norm_h(o, begin + l) : 0.0f;
    const float h1 = 16 + l < n ? acan_norm_h(o, begin + 16 + l) : 0.0f;
    const float h2 = 32 + l < n ? acan_norm_h(o, begin + 32 + l) : 0.0f;
    const float h3 = 48 + l < n ? acan_norm_h(o, begin + 48 + l) : 0.0f;
    sums[l] = (((0.0f + g0) + g1) + g2) + g3;
    dots[l] = ACAN_FMA(g3, h3, ACAN_FMA(g2, h2, ACAN_FMA(g1, h1, ACAN_FMA(g0, h0, 0.0f))));
  }
  *sum = acan_add_lanes(sums);
  *dot = acan_add_lanes(dots);
}

ACAN_FN void acan_norm_gradient_row(const acan_args* a, acan_i64 r, const acan_norm_operands* o,
                                    int scaled) {
  float sums[ACAN_TREE_LEVELS];
  float dots[ACAN_TREE_LEVELS];
  const acan_i64 cols = a->m[1].cols;
  const float count = (float)cols;
  float mean_g;
  float mean_gh;
  acan_i64 leaf = 0;
  acan_i64 begin;
  acan_i64 c;
  for (begin = 0; begin < cols; begin += ACAN_LANE_LEAF, ++leaf) {
    const int n = acan_leaf_size(begin, cols);
    float sum;
    float dot;
    if (n == ACAN_LANE_LEAF) {
      acan_norm_leaf(o, begin, ACAN_LANE_LEAF, scaled, &sum, &dot);
    } else {
      acan_norm_leaf(o, begin, n, scaled, &sum, &dot);
    }
    acan_tree_push(sums, leaf, sum);
    acan_tree_push(dots, leaf, dot);
  }
  mean_g = ACAN_DIV(acan_tree_total(sums, leaf), count);
  mean_gh = ACAN_DIV(acan_tree_total(dots, leaf), count);
  if (a->i[0] != ACAN_LAYER_NORM) mean_g = 0.0f;
  ACAN_INDEPENDENT
  for (c = 0; c < cols; ++c) {
    const float g = acan_norm_g(o, c, scaled) - mean_g;
    acan_store(&a->m[0], r, c, ACAN_FMA(-acan_norm_h(o, c), mean_gh, g) * o->inverse);
  }
}

ACAN_FN void acan_norm_gradient(const acan_args* a, acan_i64 r) {
  acan_norm_operands o;
  o.x = a->m[1].data + r * a->m[1].stride;
  o.dy = a->m[3].data + r * a->m[3].stride;
  o.scale = a->m[4].data;
  o.mean = acan_load(&a->m[2], r, 0);
  o.inverse = acan_load(&a->m[2], r, 1);
  if (o.scale) {
    acan_norm_gradient_row(a, r, &o, 1);
  } else {
    acan_norm_gradient_row(a, r, &o, 0);
  }
}

/* ---- group norm: the elements of a sample's group of channels as one row ---- */

/* On a CPU one call does its own group and those behind it, leaf by leaf, as groups are narrow and
 * the next row of a group is in another page; the calls of the groups that were done do nothing. */
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
  acan_i64 group; /* the first of the call's */
  int groups;     /* of the call; 0: another call does them */
  acan_i64 width;
  acan_i64 count;
} acan_channels;

/* Of the call's row r. */
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

/* to[k] = from[k], or times scale[k]: `scaled` is a constant. Groups of channels are often narrow,
 * so eight at once, not a loop of as many steps as there are. */
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

/* x[t] = element `first` + t of the call's group `at`, or times its channel's scale; zeros behind
 * the last element. */
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

/* The means of the call's groups. */
ACAN_FN void acan_channels_mean(const acan_matrix* x, const acan_channels* g, float* means) {
  float levels[ACAN_GROUPS_AT_ONCE][ACAN_TREE_LEVELS];
  float leaf[ACAN_LANE_LEAF];
  acan_i64 leaves = 0;
  acan_i64 first;
  int at;
  for (first = 0; first < g->count; first += ACAN_LANE_LEAF, ++leaves) {
    for (at = 0; at < g->groups; ++at) {
      acan_load_channels(x, x->data, 0, g, at, first, leaf);
      acan_tree_push(levels[at], leaves, acan_leaf_sum(leaf));
    }
  }
  for (at = 0; at < g->groups; ++at) {
    means[at] = ACAN_DIV(acan_tree_total(levels[at], leaves), (float)g->count);
  }
}

ACAN_FN void acan_channels_variance(const acan_matrix* x, const acan_channels* g,
                                    const float* means, float* variances) {
  float levels[ACAN_GROUPS_AT_ONCE][ACAN_TREE_LEVELS];
  float leaf[ACAN_LANE_LEAF];
  acan_i64 leaves = 0;
  acan_i64 first;
  int at;
  for (first = 0; first < g->count; first += ACAN_LANE_LEAF, ++leaves) {
    const int n = acan_leaf_size(first, g->count);
    for (at = 0; at < g->groups; ++at) {
      acan_load_channels(x, x->data, 0, g, at, first, leaf);
      acan_tree_push(levels[at], leaves,
                     n == ACAN_LANE_LEAF ? acan_leaf_squares(leaf, means[at], ACAN_LANE_LEAF)
                                         : acan_leaf_squares(leaf, means[at], n));
    }
  }
  for (at = 0; at < g->groups; ++at) {
    variances[at] = ACAN_DIV(acan_tree_total(levels[at], leaves), (float)g->count);
  }
}

/* The columns of a group in row r. */
ACAN_FN void acan_group_norm_row(const acan_args* a, acan_i64 r, acan_i64 begin, acan_i64 end,
                                 float mean, float inverse) {
  const acan_matrix* scale = &a->m[3];
  const acan_matrix* bias = &a->m[4];
  acan_i64 c;
  ACAN_INDEPENDENT
  for (c = begin; c < end; ++c) {
    const float h = (acan_load(&a->m[2], r, c) - mean) * inverse;
    const float b = bias->data ? acan_load(bias, 0, c) : 0.0f;
    const float y = scale->data ? acan_load(scale, 0, c) : 1.0f;
    const float scaled = scale->data && bias->data ? ACAN_FMA(h, y, b) : h * y;
    acan_store(&a->m[0], r, c, bias->data && !scale->data ? h + b : scaled);
  }
}

ACAN_FN void acan_group_norm(const acan_args* a, acan_i64 row) {
  const acan_channels g = acan_channels_of(&a->m[2], a->i[0], a->i[1], row);
  float means[ACAN_GROUPS_AT_ONCE];
  float inverses[ACAN_GROUPS_AT_ONCE];
  acan_i64 r;
  int at;
  if (g.groups == 0) return;
  acan_channels_mean(&a->m[2], &g, means);
  acan_channels_variance(&a->m[2], &g, means, inverses);
  for (at = 0; at < g.groups; ++at) {
    inverses[at] = ACAN_DIV(1.0f, ACAN_SQRT(inverses[at] + a->f[0]));
    acan_store(&a->m[1], g.sample, 2 * (g.group + at), means[at]);
    acan_store(&a->m[1], g.sample, 2 * (g.group + at) + 1, inverses[at]);
  }
  if (!a->m[0].data) return;
  for (r = g.first_row; r < g.first_row + g.positions; ++r) {
    for (at = 0; at < g.groups; ++at) {
      const acan_i64 begin = acan_first_channel(&g, at);
      acan_group_norm_row(a, r, begin, begin + g.width, means[at], inverses[at]);
    }
  }
}

/* What the gradient of a group takes, and the means of g and of g * h. */
typedef struct {
  float mean;
  float inverse;
  float mean_g;
  float mean_gh;
} acan_group_means;

/* Leaves of g = dy * scale and of h = (x - mean) * inverse; zeros behind the last element. */
ACAN_FN void acan_load_gh(const acan_args* a, const acan_channels* g, int at, acan_i64 first,
                          const acan_group_means* means, float* of_g, float* of_h) {
  const int n = acan_leaf_size(first, g->count);
  int t;
  if (a->m[4].data) {
    acan_load_channels(&a->m[3], a->m[4].data, 1, g, at, first, of_g);
  } else {
    acan_load_channels(&a->m[3], a->m[3].data, 0, g, at, first, of_g);
  }
  acan_load_channels(&a->m[1], a->m[1].data, 0, g, at, first, of_h);
  for (t = 0; t < ACAN_LANE_LEAF; ++t) of_h[t] = (of_h[t] - means->mean) * means->inverse;
  if (n < ACAN_LANE_LEAF) acan_end_leaf(n, of_h);
}

ACAN_FN void acan_find_group_means(const acan_args* a, const acan_channels* g,
                                   acan_group_means* means) {
  float sums[ACAN_GROUPS_AT_ONCE][ACAN_TREE_LEVELS];
  float dots[ACAN_GROUPS_AT_ONCE][ACAN_TREE_LEVELS];
  float of_g[ACAN_LANE_LEAF];
  float of_h[ACAN_LANE_LEAF];
  float lanes[ACAN_LANES];
  acan_i64 leaves = 0;
  acan_i64 first;
  int at;
  int l;
  for (first = 0; first < g->count; first += ACAN_LANE_LEAF, ++leaves) {
    for (at = 0; at < g->groups; ++at) {
      acan_load_gh(a, g, at, first, &means[at], of_g, of_h);
      ACAN_LANE_LOOP
      for (l = 0; l < ACAN_LANES; ++l) {
        const float two = ACAN_FMA(of_g[16 + l], of_h[16 + l], ACAN_FMA(of_g[l], of_h[l], 0.0f));
        lanes[l] = ACAN_FMA(of_g[48 + l], of_h[48 + l], ACAN_FMA(of_g[32 + l], of_h[32 + l], two));
      }
      acan_tree_push(sums[at], leaves, acan_leaf_sum(of_g));
      acan_tree_push(dots[at], leaves, acan_add_lanes(lanes));
    }
  }
  for (at = 0; at < g->groups; ++at) {
    means[at].mean_g = ACAN_DIV(acan_tree_total(sums[at], leaves), (float)g->count);
    means[at].mean_gh = ACAN_DIV(acan_tree_total(dots[at], leaves), (float)g->count);
  }
}

ACAN_FN void acan_group_norm_gradient_row(const acan_args* a, acan_i64 r, acan_i64 begin,
                                          acan_i64 end, const acan_group_means* of) {
  const float mean = of->mean;
  const float inverse = of->inverse;
  const float mean_g = of->mean_g;
  const float mean_gh = of->mean_gh;
  acan_i64 c;
  ACAN_INDEPENDENT
  for (c = begin; c < end; ++c) {
    const float h = (acan_load(&a->m[1], r, c) - mean) * inverse;
    const float dy = acan_load(&a->m[3], r, c);
    const float scaled = a->m[4].data ? dy * acan_load(&a->m[4], 0, c) : dy;
    acan_store(&a->m[0], r, c, ACAN_FMA(-h, mean_gh, scaled - mean_g) * inverse);
  }
}

ACAN_FN void acan_group_norm_gradient(const acan_args* a, acan_i64 row) {
  const acan_channels g = acan_channels_of(&a->m[1], a->i[0], a->i[1], row);
  acan_group_means means[ACAN_GROUPS_AT_ONCE];
  acan_i64 r;
  int at;
  if (g.groups == 0) return;
  for (at = 0; at < g.groups; ++at) {
    means[at].mean = acan_load(&a->m[2], g.sample, 2 * (g.group + at));
    means[at].inverse = acan_load(&a->m[2], g.sample, 2 * (g.group + at) + 1);
  }
  acan_find_group_means(a, &g, means);
  for (r = g.first_row; r < g.first_row + g.positions; ++r) {
    for (at = 0; at < g.groups; ++at) {
      const acan_i64 begin = acan_first_channel(&g, at);
      acan_group_norm_gradient_row(a, r, begin, begin + g.width, &means[at]);
    }
  }
}

#endif /* ACAN_KERNELS_NORMS_H */
