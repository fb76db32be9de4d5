/* Convolutions whose groups are single channels, with the bits of a product with the unfolded
 * channel: a position outside the image is a factor 0 and not an omitted tap. Row k of a weight is
 * tap k of all channels, so lanes are channels. */
#ifndef ACAN_KERNELS_DEPTHWISE_H
#define ACAN_KERNELS_DEPTHWISE_H

/* Channels c .. c + lanes - 1 of row r of the result. */
ACAN_FN void acan_depthwise_lanes(const acan_args* a, const acan_window* w, acan_i64 r, acan_i64 c,
                                  int lanes) {
  float levels[ACAN_TREE_LEVELS][ACAN_COLUMN_LANES];
  float sums[ACAN_CHANNEL_LANES];
  const acan_i64 taps = w->window_height * w->window_width;
  const acan_i64 place = r % (w->out_height * w->out_width);
  const acan_i64 image = r / (w->out_height * w->out_width) * w->height;
  const acan_i64 left = place % w->out_width * w->stride_x - w->padding_x;
  acan_i64 y = place / w->out_width * w->stride_y - w->padding_y;
  acan_i64 x = left;
  acan_i64 leaves = 0;
  acan_i64 begin;
  acan_i64 tap;
  int l;
  for (begin = 0; begin < taps; begin += a->i[8], ++leaves) {
    const acan_i64 end = acan_leaf_end(begin, a->i[8], taps);
    for (l = 0; l < lanes; ++l) sums[l] = 0.0f;
    for (tap = begin; tap < end; ++tap) {
      const ACAN_GLOBAL float* weight = a->m[2].data + tap * a->m[2].stride + c;
      if ((y < 0) | (y >= w->height) | (x < 0) | (x >= w->width)) {
        for (l = 0; l < lanes; ++l) sums[l] = ACAN_FMA(0.0f, weight[l], sums[l]);
      } else {
        const ACAN_GLOBAL float* from =
            a->m[1].data + ((image + y) * w->width + x) * a->m[1].stride + c;
        for (l = 0; l < lanes; ++l) sums[l] = ACAN_FMA(from[l], weight[l], sums[l]);
      }
      if (++x == left + w->window_width) {
        x = left;
        ++y;
      }
    }
    if (end - begin < taps) acan_lane_tree_push(levels, leaves, sums, lanes);
  }
  if (leaves > 1) acan_lane_tree_total(levels, leaves, sums, lanes);
  acan_store_lanes(&a->m[0], r, c, sums, lanes);
}

ACAN_FN void acan_depthwise(const acan_args* a, acan_i64 c, int lanes) {
  const acan_window w = acan_window_of(a);
  const acan_i64 end = c + lanes;
  while (c < end) {
    acan_run run = acan_run_at(c, end, a->m[0].cols);
    c += run.lanes;
    ACAN_FOR_CHANNELS(run, acan_depthwise_lanes)
  }
}

/* Channels c .. c + lanes - 1 of row r of the image: the taps under which a window contains the
 * pixel, in ascending order. These are every stride-th tap, and their windows are in descending
 * order. */
ACAN_FN void acan_depthwise_input_lanes(const acan_args* a, const acan_window* w, acan_i64 r,
                                        acan_i64 c, int lanes) {
  float sums[ACAN_CHANNEL_LANES];
  const acan_i64 y = r / w->width % w->height + w->padding_y;
  const acan_i64 x = r % w->width + w->padding_x;
  const acan_i64 images = r / (w->height * w->width) * w->out_height;
  acan_i64 out_y = y / w->stride_y;
  acan_i64 tap_y;
  acan_i64 tap_x;
  int l;
  for (l = 0; l < lanes; ++l) sums[l] = 0.0f;
  for (tap_y = y % w->stride_y; (tap_y < w->window_height) & (out_y >= 0);
       tap_y += w->stride_y, --out_y) {
    acan_i64 out_x = x / w->stride_x;
    if (out_y >= w->out_height) continue;
    for (tap_x = x % w->stride_x; (tap_x < w->window_width) & (out_x >= 0);
         tap_x += w->stride_x, --out_x) {
      const acan_i64 row = (images + out_y) * w->out_width + out_x;
      const acan_i64 tap = tap_y * w->window_width + tap_x;
      const ACAN_GLOBAL float* dy = a->m[1].data + row * a->m[1].stride + c;
      const ACAN_GLOBAL float* weight = a->m[2].data + tap * a->m[2].stride + c;
      if (out_x >= w->out_width) continue;
      for (l = 0; l < lanes; ++l) sums[l] = sums[l] + ACAN_FMA(dy[l], weight[l], 0.0f);
    }
  }
  acan_store_lanes(&a->m[0], r, c, sums, lanes);
}

ACAN_FN void acan_depthwise_input_gradient(const acan_args* a, acan_i64 c, int lanes) {
  const acan_window w = acan_window_of(a);
  const acan_i64 end = c + lanes;
  while (c < end) {
    acan_run run = acan_run_at(c, end, a->m[0].cols);
    c += run.lanes;
    ACAN_FOR_CHANNELS(run, acan_depthwise_input_lanes)
  }
}

/* The chain of rows begin .. end - 1 of dy * x under `tap`, for channels c .. c + lanes - 1. */
ACAN_FN void acan_depthwise_chain(const acan_args* a, const acan_window* w, acan_i64 tap,
                                  acan_i64 begin, acan_i64 end, acan_i64 c, float* sums,
                                  int lanes) {
  const acan_i64 tap_y = tap / w->window_width - w->padding_y;
  const acan_i64 tap_x = tap % w->window_width - w->padding_x;
  acan_i64 out_x = begin % w->out_width;
  acan_i64 out_y = begin / w->out_width % w->out_height;
  acan_i64 image = begin / (w->out_height * w->out_width) * w->height;
  acan_i64 r;
  int l;
  for (l = 0; l < lanes; ++l) sums[l] = 0.0f;
  for (r = begin; r < end; ++r) {
    const acan_i64 y = out_y * w->stride_y + tap_y;
    const acan_i64 x = out_x * w->stride_x + tap_x;
    const ACAN_GLOBAL float* dy = a->m[2].data + r * a->m[2].stride + c;
    if ((y < 0) | (y >= w->height) | (x < 0) | (x >= w->width)) {
      for (l = 0; l < lanes; ++l) sums[l] = ACAN_FMA(dy[l], 0.0f, sums[l]);
    } else {
      const ACAN_GLOBAL float* from =
          a->m[1].data + ((image + y) * w->width + x) * a->m[1].stride + c;
      for (l = 0; l < lanes; ++l) sums[l] = ACAN_FMA(dy[l], from[l], sums[l]);
    }
    if (++out_x < w->out_width) continue;
    out_x = 0;
    if (++out_y < w->out_height) continue;
    out_y = 0;
    image += w->height;
  }
}

/* The columns of the call are the elements of d_weight, in runs of ACAN_CHANNEL_RUN channels. All
 * taps of a run follow each other, since they read the same columns of x and dy.
 *
 *   channels  0 .. 63, tap 0 | 0 .. 63, tap 1 | .. | 64 .. 127, tap 0 | .. | the rest, tap 0 |
 * .. */
#define ACAN_CHANNEL_RUN 64

ACAN_FN acan_run acan_tap_run_at(acan_i64 place, acan_i64 end, acan_i64 taps, acan_i64 channels) {
  const acan_i64 full = channels / ACAN_CHANNEL_RUN * ACAN_CHANNEL_RUN;
  const int in_full = place < full * taps;
  const acan_i64 width = in_full ? ACAN_CHANNEL_RUN : channels - full;
  const acan_i64 first = in_full ? place / (taps * width) * width : full;
  acan_run run = acan_run_at(place - first * taps, end - first * taps, width);
  run.col += first;
  return run;
}

#if ACAN_COLUMN_IS_SHARED

/* By the threads of a block, as acan_sum_places. */
ACAN_FN void acan_depthwise_weight_gradient(const acan_args* a, acan_i64 c, int there) {
  ACAN_TREE_VARIABLE float nodes[ACAN_OPEN_WORDS];
  ACAN_TREE_VARIABLE acan_i32 numbers[ACAN_OPEN_WORDS];
  const acan_window w = acan_window_of(a);
  const acan_places p = acan_places_of(a->m[2].rows, a->i[8], a->i[9]);
  const acan_run run = acan_tap_run_at(c, c + 1, w.window_height * w.window_width, a->m[0].cols);
  acan_open_nodes open = acan_no_nodes(nodes, numbers);
  acan_i64 first;
  for (first = 0; first < p.places; first = acan_next_turn(&p, first)) {
    const acan_leaf_rows leaf = acan_rows_at(&p, first + ACAN_COLUMN_PLACE);
    float sum;
    acan_depthwise_chain(a, &w, run.row, leaf.begin, there ? leaf.end : leaf.begin, run.col, &sum,
                         1);
    acan_push_places(a, &open, &p, first, sum);
  }
  if (ACAN_COLUMN_PLACE != 0 || !there) return;
  acan_store(&a->m[0], run.row, run.col, acan_open_total(&open));
}

#else

/* Channels c .. c + lanes - 1 of tap `tap`, over all rows in the order of acan_group_sums. */
ACAN_FN void acan_depthwise_weight_lanes(const acan_args* a, const acan_window* w, acan_i64 tap,
                                         acan_i64 c, int lanes) {
  float inner[ACAN_TREE_LEVELS][ACAN_COLUMN_LANES];
  float outer[ACAN_TREE_LEVELS][ACAN_COLUMN_LANES];
  float sums[ACAN_CHANNEL_LANES];
  const acan_i64 rows = a->m[2].rows;
  acan_i64 groups = 0;
  acan_i64 first;
  for (first = 0; first < rows; first += a->i[9], ++groups) {
    const acan_i64 last = acan_leaf_end(first, a->i[9], rows);
    acan_i64 leaf = 0;
    acan_i64 begin;
    for (begin = first; begin < last; begin += a->i[8], ++leaf) {
      acan_depthwise_chain(a, w, tap, begin, acan_leaf_end(begin, a->i[8], last), c, sums, lanes);
      acan_lane_tree_push(inner, leaf, sums, lanes);
    }
    acan_lane_tree_total(inner, leaf, sums, lanes);
    acan_lane_tree_push(outer, groups, sums, lanes);
  }
  acan_lane_tree_total(outer, groups, sums, lanes);
  acan_store_lanes(&a->m[0], tap, c, sums, lanes);
}

ACAN_FN void acan_depthwise_weight_gradient(const acan_args* a, acan_i64 c, int lanes) {
  const acan_window w = acan_window_of(a);
  const acan_i64 end = c + lanes;
  while (c < end) {
    acan_run run = acan_tap_run_at(c, end, w.window_height * w.window_width, a->m[0].cols);
    c += run.lanes;
    ACAN_FOR_CHANNELS(run, acan_depthwise_weight_lanes)
  }
}

#endif /* ACAN_COLUMN_IS_SHARED */

#endif /* ACAN_KERNELS_DEPTHWISE_H */
