/* The gradient of a group norm, for the channels that group_norm.h draws. */
#ifndef ACAN_KERNELS_GROUP_NORM_GRADIENT_H
#define ACAN_KERNELS_GROUP_NORM_GRADIENT_H

/* What the gradient needs of each group: its statistics, and the means of g = dy * scale and of g *
 * h, h = (x - mean) * inverse. */
typedef struct {
  float mean[ACAN_GROUPS_AT_ONCE];
  float inverse[ACAN_GROUPS_AT_ONCE];
  float mean_g[ACAN_GROUPS_AT_ONCE];
  float mean_gh[ACAN_GROUPS_AT_ONCE];
} acan_group_means;

/* g of an element. */
ACAN_FN float acan_group_g(const acan_args* a, acan_i64 r, acan_i64 c, int scaled) {
  const float dy = acan_load(&a->m[3], r, c);
  return scaled ? dy * acan_load(&a->m[4], 0, c) : dy;
}

#if ACAN_ROW_IS_SHARED

/* By a row's threads; all of them get the means. */
ACAN_FN void acan_find_group_means(const acan_args* a, const acan_channels* g,
                                   acan_group_means* means) {
  ACAN_TREE_VARIABLE float sums[ACAN_TREE_LEVELS];
  ACAN_TREE_VARIABLE float dots[ACAN_TREE_LEVELS];
  const acan_group group = acan_group_of(g);
  const acan_i64 leaves = acan_leaves_of(g->count);
  const int scaled = a->m[4].data != 0;
  acan_group_walk walk = acan_begin_walk(&group);
  acan_i64 first;
  int t;
  for (first = 0; first < leaves; first += ACAN_ROW_LEAVES) {
    const acan_lane_place lane = acan_place_of_thread(first, g->count);
    acan_group_place places[ACAN_LANE_ELEMENTS];
    float sum = 0.0f;
    float dot = 0.0f;
    acan_lane_places(&group, &walk, places);
    ACAN_UNROLL for (t = 0; t < ACAN_LANE_ELEMENTS; ++t) {
      const acan_i64 r = group.first_row + places[t].row;
      const acan_i64 c = group.first_column + places[t].column;
      const int there = t * ACAN_LANES + lane.lane < lane.n;
      const float x = there ? acan_load(&a->m[1], r, c) : 0.0f;
      const float h = there ? (x - means->mean[0]) * means->inverse[0] : 0.0f;
      const float of_g = there ? acan_group_g(a, r, c, scaled) : 0.0f;
      sum = sum + of_g;
      dot = ACAN_FMA(of_g, h, dot);
    }
    acan_push_lanes(a, sum, first, leaves, sums);
    acan_push_lanes(a, dot, first, leaves, dots);
    walk.at = acan_group_behind(&group, walk.at, walk.by_turn);
  }
  means->mean_g[0] = ACAN_DIV(acan_share_lanes(a, sums, leaves), (float)g->count);
  means->mean_gh[0] = ACAN_DIV(acan_share_lanes(a, dots, leaves), (float)g->count);
}

/* `scaled` is a constant. */
ACAN_FN void acan_group_gradient_rows(const acan_args* a, const acan_channels* g,
                                      const acan_group_means* of, int scaled) {
  const acan_group group = acan_group_of(g);
  const acan_group_place by = acan_group_place_of(&group, ACAN_ROW_THREADS);
  acan_group_place at = acan_group_place_of(&group, ACAN_ROW_THREAD);
  for (; at.row < g->positions; at = acan_group_behind(&group, at, by)) {
    const acan_i64 r = group.first_row + at.row;
    const acan_i64 c = group.first_column + at.column;
    const float h = (acan_load(&a->m[1], r, c) - of->mean[0]) * of->inverse[0];
    const float of_g = acan_group_g(a, r, c, scaled) - of->mean_g[0];
    acan_store(&a->m[0], r, c, ACAN_FMA(-h, of->mean_gh[0], of_g) * of->inverse[0]);
  }
}

#else

/* The sums of g and of g * h over a leaf of the call's group `at`. */
ACAN_FN void acan_group_leaf(const acan_args* a, const acan_channels* g, int at, acan_i64 first,
                             const acan_group_means* means, float* sum, float* dot) {
  const float mean = means->mean[at];
  const float inverse = means->inverse[at];
  const int n = acan_leaf_size(first, g->count);
  float of_g[ACAN_LANE_LEAF];
  float of_h[ACAN_LANE_LEAF];
  float lanes[ACAN_LANES];
  int t;
  if (a->m[4].data) {
    acan_load_channels(&a->m[3], a->m[4].data, 1, g, at, first, of_g);
  } else {
    acan_load_channels(&a->m[3], a->m[3].data, 0, g, at, first, of_g);
  }
  acan_load_channels(&a->m[1], a->m[1].data, 0, g, at, first, of_h);
  for (t = 0; t < ACAN_LANE_LEAF; ++t) of_h[t] = (of_h[t] - mean) * inverse;
  acan_end_leaf(n, of_h);
  ACAN_LANE_LOOP
  for (t = 0; t < ACAN_LANES; ++t) {
    const float two = ACAN_FMA(of_g[16 + t], of_h[16 + t], ACAN_FMA(of_g[t], of_h[t], 0.0f));
    lanes[t] = ACAN_FMA(of_g[48 + t], of_h[48 + t], ACAN_FMA(of_g[32 + t], of_h[32 + t], two));
  }
  *sum = acan_leaf_sum(of_g);
  *dot = acan_add_lanes(lanes);
}

/* The positions of a leaf's chunks in x, in dy and in the row of scales. */
typedef struct {
  acan_i64 x[ACAN_LANE_LEAF / ACAN_CHUNK];
  acan_i64 dy[ACAN_LANE_LEAF / ACAN_CHUNK];
  acan_i64 scale[ACAN_LANE_LEAF / ACAN_CHUNK];
} acan_gradient_chunks;

/* The same for a leaf in place. `scaled` is a constant. */
ACAN_FN void acan_group_leaf_in_place(const acan_args* a, acan_i64 channel,
                                      const acan_gradient_chunks* chunks, float mean, float inverse,
                                      int scaled, float* sum, float* dot) {
  const ACAN_GLOBAL float* x = a->m[1].data + channel;
  const ACAN_GLOBAL float* dy = a->m[3].data + channel;
  const ACAN_GLOBAL float* scale = scaled ? a->m[4].data + channel : dy;
  float sums[ACAN_LANES];
  float dots[ACAN_LANES];
  int h;
  int l;
  for (h = 0; h < 2; ++h) {
    ACAN_LANE_LOOP
    for (l = 0; l < ACAN_CHUNK; ++l) {
      const float d0 = dy[chunks->dy[h] + l];
      const float d1 = dy[chunks->dy[h + 2] + l];
      const float d2 = dy[chunks->dy[h + 4] + l];
      const float d3 = dy[chunks->dy[h + 6] + l];
      const float g0 = scaled ? d0 * scale[chunks->scale[h] + l] : d0;
      const float g1 = scaled ? d1 * scale[chunks->scale[h + 2] + l] : d1;
      const float g2 = scaled ? d2 * scale[chunks->scale[h + 4] + l] : d2;
      const float g3 = scaled ? d3 * scale[chunks->scale[h + 6] + l] : d3;
      const float h0 = (x[chunks->x[h] + l] - mean) * inverse;
      const float h1 = (x[chunks->x[h + 2] + l] - mean) * inverse;
      const float h2 = (x[chunks->x[h + 4] + l] - mean) * inverse;
      const float h3 = (x[chunks->x[h + 6] + l] - mean) * inverse;
      const float two = ACAN_FMA(g1, h1, ACAN_FMA(g0, h0, 0.0f));
      sums[ACAN_CHUNK * h + l] = (((0.0f + g0) + g1) + g2) + g3;
      dots[ACAN_CHUNK * h + l] = ACAN_FMA(g3, h3, ACAN_FMA(g2, h2, two));
    }
  }
  *sum = acan_add_lanes(sums);
  *dot = acan_add_lanes(dots);
}

ACAN_FN void acan_find_group_means(const acan_args* a, const acan_channels* g,
                                   acan_group_means* means) {
  float sums[ACAN_GROUPS_AT_ONCE][ACAN_TREE_LEVELS];
  float dots[ACAN_GROUPS_AT_ONCE][ACAN_TREE_LEVELS];
  acan_gradient_chunks chunks;
  acan_i64 leaves = 0;
  acan_i64 first;
  int at;
  for (first = 0; first < g->count; first += ACAN_LANE_LEAF, ++leaves) {
    const int in_place = acan_has_chunks(g, first);
    if (in_place) {
      acan_matrix scale = a->m[4];
      scale.stride = 0; /* all rows of a leaf have the same row of scales */
      acan_find_chunks(&a->m[1], g, first, chunks.x);
      acan_find_chunks(&a->m[3], g, first, chunks.dy);
      acan_find_chunks(&scale, g, first, chunks.scale);
    }
    for (at = 0; at < g->groups; ++at) {
      const acan_i64 channel = acan_first_channel(g, at);
      float sum;
      float dot;
      if (!in_place) {
        acan_group_leaf(a, g, at, first, means, &sum, &dot);
      } else if (a->m[4].data) {
        acan_group_leaf_in_place(a, channel, &chunks, means->mean[at], means->inverse[at], 1, &sum,
                                 &dot);
      } else {
        acan_group_leaf_in_place(a, channel, &chunks, means->mean[at], means->inverse[at], 0, &sum,
                                 &dot);
      }
      acan_tree_push(sums[at], leaves, sum);
      acan_tree_push(dots[at], leaves, dot);
    }
  }
  for (at = 0; at < g->groups; ++at) {
    means->mean_g[at] = ACAN_DIV(acan_tree_total(sums[at], leaves), (float)g->count);
    means->mean_gh[at] = ACAN_DIV(acan_tree_total(dots[at], leaves), (float)g->count);
  }
}

/* Channels c .. c + lanes - 1 of the sample's rows. `scaled` is a constant. */
ACAN_FN void acan_group_gradient_lanes(const acan_args* a, const acan_channels* g,
                                       const acan_group_means* of, acan_i64 c, int lanes,
                                       int scaled) {
  float mean[ACAN_SPREAD_LANES];
  float inverse[ACAN_SPREAD_LANES];
  float mean_g[ACAN_SPREAD_LANES];
  float mean_gh[ACAN_SPREAD_LANES];
  acan_i64 r;
  int l;
  acan_spread(g, of->mean, c, lanes, mean);
  acan_spread(g, of->inverse, c, lanes, inverse);
  acan_spread(g, of->mean_g, c, lanes, mean_g);
  acan_spread(g, of->mean_gh, c, lanes, mean_gh);
  for (r = g->first_row; r < g->first_row + g->positions; ++r) {
    ACAN_INDEPENDENT
    for (l = 0; l < lanes; ++l) {
      const float h = (acan_load(&a->m[1], r, c + l) - mean[l]) * inverse[l];
      const float of_g = acan_group_g(a, r, c + l, scaled);
      acan_store(&a->m[0], r, c + l, ACAN_FMA(-h, mean_gh[l], of_g - mean_g[l]) * inverse[l]);
    }
  }
}

ACAN_FN void acan_group_gradient_rows(const acan_args* a, const acan_channels* g,
                                      const acan_group_means* of, int scaled) {
  const acan_i64 end = acan_first_channel(g, g->groups);
  acan_i64 c = acan_first_channel(g, 0);
  for (; c + ACAN_SPREAD_LANES <= end; c += ACAN_SPREAD_LANES) {
    acan_group_gradient_lanes(a, g, of, c, ACAN_SPREAD_LANES, scaled);
  }
  if (c < end) acan_group_gradient_lanes(a, g, of, c, (int)(end - c), scaled);
}

#endif /* ACAN_ROW_IS_SHARED */

ACAN_FN void acan_group_norm_gradient(const acan_args* a, acan_i64 row) {
  const acan_channels g = acan_channels_of(&a->m[1], a->i[0], a->i[1], row);
  acan_group_means means;
  int at;
  /* A row's threads always have a group. PoCL would run stores behind barriers twice for the first
   * thread if a condition that it does not know were before them. */
  if (!ACAN_ROW_IS_SHARED && g.groups == 0) return;
  for (at = 0; at < g.groups; ++at) {
    means.mean[at] = acan_load(&a->m[2], g.sample, 2 * (g.group + at));
    means.inverse[at] = acan_load(&a->m[2], g.sample, 2 * (g.group + at) + 1);
  }
  acan_find_group_means(a, &g, &means);
  if (a->m[4].data) {
    acan_group_gradient_rows(a, &g, &means, 1);
  } else {
    acan_group_gradient_rows(a, &g, &means, 0);
  }
}

#endif /* ACAN_KERNELS_GROUP_NORM_GRADIENT_H */
