/* Layer norm and RMS norm. The statistics of a row are (mean, 1 / sqrt(variance + epsilon)). An RMS
 * norm has the mean 0 there, so that one kernel computes the gradients of both norms' scales. */
#ifndef ACAN_KERNELS_NORMS_H
#define ACAN_KERNELS_NORMS_H

/* out = (x - mean) * inverse * scale + bias. The flags are constants, so the loop has no branch. */
ACAN_FN void acan_norm_row(const acan_args* a, acan_i64 r, float mean, float inverse, int scaled,
                           int biased) {
  const acan_i64 cols = a->m[2].cols;
  acan_i64 c;
  ACAN_INDEPENDENT
  for (c = ACAN_ROW_THREAD; c < cols; c += ACAN_ROW_THREADS) {
    const float h = (acan_load(&a->m[2], r, c) - mean) * inverse;
    const float scale = scaled ? acan_load(&a->m[3], 0, c) : 1.0f;
    const float bias = biased ? acan_load(&a->m[4], 0, c) : 0.0f;
    const float y = scaled && biased ? ACAN_FMA(h, scale, bias) : scaled ? h * scale : h;
    acan_store(&a->m[0], r, c, biased && !scaled ? y + bias : y);
  }
}

ACAN_FN void acan_norm(const acan_args* a, acan_i64 r) {
  const float count = (float)a->m[2].cols;
  const float mean = a->i[0] == ACAN_LAYER_NORM ? ACAN_DIV(acan_row_sum(a, 2, r), count) : 0.0f;
  const float variance = ACAN_DIV(acan_row_square_sum(a, 2, r, mean), count);
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
  if (ACAN_ROW_THREAD != 0) return;
  acan_store(&a->m[1], r, 0, mean);
  acan_store(&a->m[1], r, 1, inverse);
}

/* The operands and statistics of a row of kNormGradient. */
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

/* Lane l of the sums of g and of g * h over the leaf of n elements at `begin`. */
ACAN_FN void acan_norm_lane(const acan_norm_operands* o, acan_i64 begin, int l, int n, int scaled,
                            float* sum, float* dot) {
  const float g0 = l < n ? acan_norm_g(o, begin + l, scaled) : 0.0f;
  const float g1 = 16 + l < n ? acan_norm_g(o, begin + 16 + l, scaled) : 0.0f;
  const float g2 = 32 + l < n ? acan_norm_g(o, begin + 32 + l, scaled) : 0.0f;
  const float g3 = 48 + l < n ? acan_norm_g(o, begin + 48 + l, scaled) : 0.0f;
  const float h0 = l < n ? acan_norm_h(o, begin + l) : 0.0f;
  const float h1 = 16 + l < n ? acan_norm_h(o, begin + 16 + l) : 0.0f;
  const float h2 = 32 + l < n ? acan_norm_h(o, begin + 32 + l) : 0.0f;
  const float h3 = 48 + l < n ? acan_norm_h(o, begin + 48 + l) : 0.0f;
  *sum = (((0.0f + g0) + g1) + g2) + g3;
  *dot = ACAN_FMA(g3, h3, ACAN_FMA(g2, h2, ACAN_FMA(g1, h1, ACAN_FMA(g0, h0, 0.0f))));
}

#if ACAN_ROW_IS_SHARED

/* The sums of g and of g * h over the row, by a row's threads. */
ACAN_FN void acan_norm_sums(const acan_args* a, const acan_norm_operands* o, int scaled, float* sum,
                            float* dot) {
  ACAN_TREE_VARIABLE float sums[ACAN_TREE_LEVELS];
  ACAN_TREE_VARIABLE float dots[ACAN_TREE_LEVELS];
  const acan_i64 cols = a->m[1].cols;
  const acan_i64 leaves = acan_leaves_of(cols);
  acan_i64 first;
  for (first = 0; first < leaves; first += ACAN_ROW_LEAVES) {
    const acan_lane_place at = acan_place_of_thread(first, cols);
    acan_norm_lane(o, at.begin, at.lane, at.n, scaled, sum, dot);
    acan_push_lanes(a, *sum, first, leaves, sums);
    acan_push_lanes(a, *dot, first, leaves, dots);
  }
  *sum = acan_share_lanes(a, sums, leaves);
  *dot = acan_share_lanes(a, dots, leaves);
}

#else

/* The sums of g and of g * h over the leaf of n elements at `begin`. */
ACAN_FN void acan_norm_leaf(const acan_norm_operands* o, acan_i64 begin, int n, int scaled,
                            float* sum, float* dot) {
  float sums[ACAN_LANES];
  float dots[ACAN_LANES];
  int l;
  ACAN_LANE_LOOP
  for (l = 0; l < ACAN_LANES; ++l) acan_norm_lane(o, begin, l, n, scaled, &sums[l], &dots[l]);
  *sum = acan_add_lanes(sums);
  *dot = acan_add_lanes(dots);
}

ACAN_FN void acan_norm_sums(const acan_args* a, const acan_norm_operands* o, int scaled, float* sum,
                            float* dot) {
  float sums[ACAN_TREE_LEVELS];
  float dots[ACAN_TREE_LEVELS];
  const acan_i64 cols = a->m[1].cols;
  acan_i64 leaf = 0;
  acan_i64 begin;
  for (begin = 0; begin < cols; begin += ACAN_LANE_LEAF, ++leaf) {
    const int n = acan_leaf_size(begin, cols);
    if (n == ACAN_LANE_LEAF) {
      acan_norm_leaf(o, begin, ACAN_LANE_LEAF, scaled, sum, dot);
    } else {
      acan_norm_leaf(o, begin, n, scaled, sum, dot);
    }
    acan_tree_push(sums, leaf, *sum);
    acan_tree_push(dots, leaf, *dot);
  }
  *sum = acan_tree_total(sums, leaf);
  *dot = acan_tree_total(dots, leaf);
}

#endif /* ACAN_ROW_IS_SHARED */

ACAN_FN void acan_norm_gradient_row(const acan_args* a, acan_i64 r, const acan_norm_operands* o,
                                    int scaled) {
  const acan_i64 cols = a->m[1].cols;
  const float count = (float)cols;
  float sum;
  float dot;
  float mean_g;
  float mean_gh;
  acan_i64 c;
  acan_norm_sums(a, o, scaled, &sum, &dot);
  mean_g = ACAN_DIV(sum, count);
  mean_gh = ACAN_DIV(dot, count);
  if (a->i[0] != ACAN_LAYER_NORM) mean_g = 0.0f;
  ACAN_INDEPENDENT
  for (c = ACAN_ROW_THREAD; c < cols; c += ACAN_ROW_THREADS) {
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

#endif /* ACAN_KERNELS_NORMS_H */
