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

/*   columns     begin .. begin + width - 1       element e is (row e / width, column e % width)
 *               +------------------------+
 *   first_row   |  0    1    2  ...      |
 *               |  width  ...            |
 *               +------------------------+       count = positions * width */
typedef struct {
  acan_i64 sample;
  acan_i64 group;
  acan_i64 first_row;
  acan_i64 positions;
  acan_i64 begin;
  acan_i64 width;
  acan_i64 count;
} acan_channels;

/* Of the call's row r. */
ACAN_FN acan_channels acan_channels_of(const acan_matrix* x, acan_i64 positions, acan_i64 groups,
                                       acan_i64 r) {
  acan_channels g;
  g.sample = r / groups;
  g.group = r % groups;
  g.first_row = g.sample * positions;
  g.positions = positions;
  g.width = x->cols / groups;
  g.begin = g.group * g.width;
  g.count = positions * g.width;
  return g;
}

/* x[t] = element `first` + t of the group; zeros behind its last one. */
ACAN_FN void acan_load_channels(const acan_matrix* m, const acan_channels* g, acan_i64 first,
                                float* x) {
  const int n = acan_leaf_size(first, g->count);
  acan_i64 row = g->first_row + first / g->width;
  acan_i64 column = first % g->width;
  int t = 0;
  while (t < n) {
    const ACAN_GLOBAL float* from = m->data + row * m->stride + g->begin + column;
    const int run = g->width - column < n - t ? (int)(g->width - column) : n - t;
    int k;
    if (run == ACAN_LANE_LEAF) {
      for (k = 0; k < ACAN_LANE_LEAF; ++k) x[k] = from[k];
    } else {
      for (k = 0; k < run; ++k) x[t + k] = from[k];
    }
    t += run;
    column = 0;
    ++row;
  }
  acan_end_leaf(n, x);
}

ACAN_FN float acan_channels_mean(const acan_matrix* x, const acan_channels* g) {
  float levels[ACAN_TREE_LEVELS];
  float leaf[ACAN_LANE_LEAF];
  acan_i64 leaves = 0;
  acan_i64 first;
  for (first = 0; first < g->count; first += ACAN_LANE_LEAF, ++leaves) {
    acan_load_channels(x, g, first, leaf);
    acan_tree_push(levels, leaves, acan_leaf_sum(leaf));
  }
  return ACAN_DIV(acan_tree_total(levels, leaves), (float)g->count);
}

ACAN_FN float acan_channels_variance(const acan_matrix* x, const acan_channels* g, float mean) {
  float levels[ACAN_TREE_LEVELS];
  float leaf[ACAN_LANE_LEAF];
  acan_i64 leaves = 0;
  acan_i64 first;
  for (first = 0; first < g->count; first += ACAN_LANE_LEAF, ++leaves) {
    const int n = acan_leaf_size(first, g->count);
    acan_load_channels(x, g, first, leaf);
    if (n == ACAN_LANE_LEAF) {
      acan_tree_push(levels, leaves, acan_leaf_squares(leaf, mean, ACAN_LANE_LEAF));
    } else {
      acan_tree_push(levels, leaves, acan_leaf_squares(leaf, mean, n));
    }
  }
  return ACAN_DIV(acan_tree_total(levels, leaves), (float)g->count);
}

ACAN_FN void acan_group_norm_rows(const acan_args* a, const acan_channels* g, float mean,
                                  float inverse) {
  const acan_matrix* scale = &a->m[3];
  const acan_matrix* bias = &a->m[4];
  const acan_i64 end = g->begin + g->width;
  acan_i64 r;
  acan_i64 c;
  for (r = g->first_row; r < g->first_row + g->positions; ++r) {
    ACAN_INDEPENDENT
    for (c = g->begin; c < end; ++c) {
      const float h = (acan_load(&a->m[2], r, c) - mean) * inverse;
      const float b = bias->data ? acan_load(bias, 0, c) : 0.0f;
      const float y = scale->data ? acan_load(scale, 0, c) : 1.0f;
      const float scaled = scale->data && bias->data ? ACAN_FMA(h, y, b) : h * y;
      acan_store(&a->m[0], r, c, bias->data && !scale->data ? h + b : scaled);
    }
  }
}

ACAN_FN void acan_group_norm(const acan_args* a, acan_i64 r) {
  const acan_matrix* x = &a->m[2];
  const acan_channels g = acan_channels_of(x, a->i[0], a->i[1], r);
  const float mean = acan_channels_mean(x, &g);
  const float variance = acan_channels_variance(x, &g, mean);
  const float inverse = ACAN_DIV(1.0f, ACAN_SQRT(variance + a->f[0]));
  if (a->m[0].data) acan_group_norm_rows(a, &g, mean, inverse);
  acan_store(&a->m[1], g.sample, 2 * g.group, mean);
  acan_store(&a->m[1], g.sample, 2 * g.group + 1, inverse);
}

/* leaf of h = (x - mean) * inverse, and of g = dy * scale; zeros behind the last element. */
ACAN_FN void acan_load_h(const acan_args* a, const acan_channels* g, acan_i64 first, float mean,
                         float inverse, float* h) {
  const int n = acan_leaf_size(first, g->count);
  int t;
  acan_load_channels(&a->m[1], g, first, h);
  for (t = 0; t < ACAN_LANE_LEAF; ++t) h[t] = (h[t] - mean) * inverse;
  if (n < ACAN_LANE_LEAF) acan_end_leaf(n, h);
}

ACAN_FN void acan_load_g(const acan_args* a, const acan_channels* g, acan_i64 first, float* x) {
  const int n = acan_leaf_size(first, g->count);
  acan_i64 column = first % g->width;
  int t;
  acan_load_channels(&a->m[3], g, first, x);
  if (!a->m[4].data) return;
  for (t = 0; t < n; ++t) {
    x[t] = x[t] * acan_load(&a->m[4], 0, g->begin + column);
    column = column + 1 == g->width ? 0 : column + 1;
  }
}

/* The means of g and of g * h. */
ACAN_FN void acan_channels_means(const acan_args* a, const acan_channels* g, float mean,
                                 float inverse, float* mean_g, float* mean_gh) {
  float sums[ACAN_TREE_LEVELS];
  float dots[ACAN_TREE_LEVELS];
  float of_g[ACAN_LANE_LEAF];
  float of_h[ACAN_LANE_LEAF];
  float lanes[ACAN_LANES];
  acan_i64 leaves = 0;
  acan_i64 first;
  int l;
  for (first = 0; first < g->count; first += ACAN_LANE_LEAF, ++leaves) {
    acan_load_g(a, g, first, of_g);
    acan_load_h(a, g, first, mean, inverse, of_h);
    ACAN_LANE_LOOP
    for (l = 0; l < ACAN_LANES; ++l) {
      const float two = ACAN_FMA(of_g[16 + l], of_h[16 + l], ACAN_FMA(of_g[l], of_h[l], 0.0f));
      lanes[l] = ACAN_FMA(of_g[48 + l], of_h[48 + l], ACAN_FMA(of_g[32 + l], of_h[32 + l], two));
    }
    acan_tree_push(sums, leaves, acan_leaf_sum(of_g));
    acan_tree_push(dots, leaves, acan_add_lanes(lanes));
  }
  *mean_g = ACAN_DIV(acan_tree_total(sums, leaves), (float)g->count);
  *mean_gh = ACAN_DIV(acan_tree_total(dots, leaves), (float)g->count);
}

ACAN_FN void acan_group_norm_gradient(const acan_args* a, acan_i64 row) {
  const acan_channels g = acan_channels_of(&a->m[1], a->i[0], a->i[1], row);
  const float mean = acan_load(&a->m[2], g.sample, 2 * g.group);
  const float inverse = acan_load(&a->m[2], g.sample, 2 * g.group + 1);
  float mean_g;
  float mean_gh;
  acan_i64 r;
  acan_i64 c;
  acan_channels_means(a, &g, mean, inverse, &mean_g, &mean_gh);
  for (r = g.first_row; r < g.first_row + g.positions; ++r) {
    ACAN_INDEPENDENT
    for (c = g.begin; c < g.begin + g.width; ++c) {
      const float h = (acan_load(&a->m[1], r, c) - mean) * inverse;
      const float dy = acan_load(&a->m[3], r, c);
      const float scaled = (a->m[4].data ? dy * acan_load(&a->m[4], 0, c) : dy) - mean_g;
      acan_store(&a->m[0], r, c, ACAN_FMA(-h, mean_gh, scaled) * inverse);
    }
  }
}

#endif /* ACAN_KERNELS_NORMS_H */
