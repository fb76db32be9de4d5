/* Windows that step over images: unfolding for convolution, and pooling. Rows are (sample, y, x),
 * columns are channels. A window begins at y = out_y * stride - padding. */
#ifndef ACAN_KERNELS_IMAGES_H
#define ACAN_KERNELS_IMAGES_H

/* The first eight integers of each of these calls, and the size of the result. */
typedef struct {
  acan_i64 height, width;
  acan_i64 window_height, window_width;
  acan_i64 stride_y, stride_x;
  acan_i64 padding_y, padding_x;
  acan_i64 out_height, out_width;
} acan_window;

ACAN_FN acan_window acan_window_of(const acan_args* a) {
  acan_window w;
  w.height = a->i[0];
  w.width = a->i[1];
  w.window_height = a->i[2];
  w.window_width = a->i[3];
  w.stride_y = a->i[4];
  w.stride_x = a->i[5];
  w.padding_y = a->i[6];
  w.padding_x = a->i[7];
  w.out_height = (w.height + 2 * w.padding_y - w.window_height) / w.stride_y + 1;
  w.out_width = (w.width + 2 * w.padding_x - w.window_width) / w.stride_x + 1;
  return w;
}

/* The row of the image under tap `tap` of the window of row r of the result; -1: outside. */
ACAN_FN acan_i64 acan_tap_row(const acan_window* w, acan_i64 r, acan_i64 tap) {
  const acan_i64 out_area = w->out_height * w->out_width;
  const acan_i64 place = r % out_area;
  const acan_i64 y = place / w->out_width * w->stride_y - w->padding_y + tap / w->window_width;
  const acan_i64 x = place % w->out_width * w->stride_x - w->padding_x + tap % w->window_width;
  if ((y < 0) | (y >= w->height) | (x < 0) | (x >= w->width)) return -1;
  return (r / out_area * w->height + y) * w->width + x;
}

/* The row of the result whose window has the image's row r under `tap`; -1: none has. */
ACAN_FN acan_i64 acan_window_row(const acan_window* w, acan_i64 r, acan_i64 tap) {
  const acan_i64 area = w->height * w->width;
  const acan_i64 y = r % area / w->width + w->padding_y - tap / w->window_width;
  const acan_i64 x = r % w->width + w->padding_x - tap % w->window_width;
  if ((y < 0) | (x < 0)) return -1;
  if ((y % w->stride_y != 0) | (x % w->stride_x != 0)) return -1;
  if ((y / w->stride_y >= w->out_height) | (x / w->stride_x >= w->out_width)) return -1;
  return (r / area * w->out_height + y / w->stride_y) * w->out_width + x / w->stride_x;
}

/* Row r of out holds the window's elements, tap after tap; 0 where it is outside the image. */
ACAN_FN void acan_unfold(const acan_args* a, acan_i64 r) {
  const acan_window w = acan_window_of(a);
  const acan_i64 channels = a->m[1].cols;
  acan_i64 tap;
  acan_i64 c;
  for (tap = 0; tap < w.window_height * w.window_width; ++tap) {
    const acan_i64 from = acan_tap_row(&w, r, tap);
    const acan_i64 to = tap * channels;
    if (from < 0) {
      for (c = 0; c < channels; ++c) acan_store(&a->m[0], r, to + c, 0.0f);
    } else {
      ACAN_INDEPENDENT
      for (c = 0; c < channels; ++c) {
        acan_store(&a->m[0], r, to + c, acan_load(&a->m[1], from, c));
      }
    }
  }
}

/* Channels c .. c + lanes - 1 of the image's row r: a chain over the taps, ascending. */
ACAN_FN void acan_fold_lanes(const acan_args* a, const acan_window* w, acan_i64 r, acan_i64 c,
                             int lanes) {
  float sums[ACAN_COLUMN_LANES];
  const acan_i64 channels = a->m[0].cols;
  acan_i64 tap;
  int l;
  for (l = 0; l < lanes; ++l) sums[l] = 0.0f;
  for (tap = 0; tap < w->window_height * w->window_width; ++tap) {
    const acan_i64 from = acan_window_row(w, r, tap);
    if (from < 0) continue;
    for (l = 0; l < lanes; ++l) {
      sums[l] = sums[l] + acan_load(&a->m[1], from, tap * channels + c + l);
    }
  }
  acan_store_lanes(&a->m[0], r, c, sums, lanes);
}

ACAN_FN void acan_fold(const acan_args* a, acan_i64 r) {
  const acan_window w = acan_window_of(a);
  acan_i64 c;
  for (c = 0; c < a->m[0].cols; c += ACAN_COLUMN_LANES) {
    const acan_i64 left = a->m[0].cols - c;
    acan_fold_lanes(a, &w, r, c, left < ACAN_COLUMN_LANES ? (int)left : ACAN_COLUMN_LANES);
  }
}

/* Of equal elements the first tap's counts. A NaN is larger than everything. */
ACAN_FN void acan_max_pooling(const acan_args* a, acan_i64 r) {
  const acan_window w = acan_window_of(a);
  float best[ACAN_COLUMN_LANES];
  acan_i64 begin;
  acan_i64 tap;
  int l;
  for (begin = 0; begin < a->m[0].cols; begin += ACAN_COLUMN_LANES) {
    const acan_i64 left = a->m[0].cols - begin;
    const int lanes = left < ACAN_COLUMN_LANES ? (int)left : ACAN_COLUMN_LANES;
    for (l = 0; l < lanes; ++l) best[l] = -ACAN_AS_F32(0x7f800000u);
    for (tap = 0; tap < w.window_height * w.window_width; ++tap) {
      const acan_i64 from = acan_tap_row(&w, r, tap);
      if (from < 0) continue;
      for (l = 0; l < lanes; ++l) {
        const float x = acan_load(&a->m[1], from, begin + l);
        best[l] = ((x > best[l]) | (x != x)) ? x : best[l];
      }
    }
    acan_store_lanes(&a->m[0], r, begin, best, lanes);
  }
}

/* Adds dy of the window of row `from` to the sums of those channels whose maximum is row r. */
ACAN_FN void acan_add_if_largest(const acan_args* a, const acan_window* w, acan_i64 from,
                                 acan_i64 r, acan_i64 c, float* sums, int lanes) {
  float best[ACAN_COLUMN_LANES];
  acan_i32 mine[ACAN_COLUMN_LANES];
  acan_i64 tap;
  int l;
  for (l = 0; l < lanes; ++l) best[l] = -ACAN_AS_F32(0x7f800000u);
  for (l = 0; l < lanes; ++l) mine[l] = 0;
  for (tap = 0; tap < w->window_height * w->window_width; ++tap) {
    const acan_i64 at = acan_tap_row(w, from, tap);
    const acan_i32 same = at == r;
    if (at < 0) continue;
    for (l = 0; l < lanes; ++l) {
      const float x = acan_load(&a->m[1], at, c + l);
      const int larger = (x > best[l]) | (x != x);
      best[l] = larger ? x : best[l];
      mine[l] = larger ? same : mine[l];
    }
  }
  for (l = 0; l < lanes; ++l) {
    sums[l] = mine[l] ? sums[l] + acan_load(&a->m[2], from, c + l) : sums[l];
  }
}

/* Windows in ascending order are taps in descending order. */
ACAN_FN void acan_max_pooling_gradient(const acan_args* a, acan_i64 r) {
  const acan_window w = acan_window_of(a);
  float sums[ACAN_COLUMN_LANES];
  acan_i64 begin;
  acan_i64 tap;
  int l;
  for (begin = 0; begin < a->m[0].cols; begin += ACAN_COLUMN_LANES) {
    const acan_i64 left = a->m[0].cols - begin;
    const int lanes = left < ACAN_COLUMN_LANES ? (int)left : ACAN_COLUMN_LANES;
    for (l = 0; l < lanes; ++l) sums[l] = 0.0f;
    for (tap = w.window_height * w.window_width - 1; tap >= 0; --tap) {
      const acan_i64 from = acan_window_row(&w, r, tap);
      if (from >= 0) acan_add_if_largest(a, &w, from, r, begin, sums, lanes);
    }
    acan_store_lanes(&a->m[0], r, begin, sums, lanes);
  }
}

ACAN_FN void acan_average_pooling(const acan_args* a, acan_i64 r) {
  const acan_window w = acan_window_of(a);
  const float area = (float)(w.window_height * w.window_width);
  float sums[ACAN_COLUMN_LANES];
  acan_i64 begin;
  acan_i64 tap;
  int l;
  for (begin = 0; begin < a->m[0].cols; begin += ACAN_COLUMN_LANES) {
    const acan_i64 left = a->m[0].cols - begin;
    const int lanes = left < ACAN_COLUMN_LANES ? (int)left : ACAN_COLUMN_LANES;
    for (l = 0; l < lanes; ++l) sums[l] = 0.0f;
    for (tap = 0; tap < w.window_height * w.window_width; ++tap) {
      const acan_i64 from = acan_tap_row(&w, r, tap);
      if (from < 0) continue;
      for (l = 0; l < lanes; ++l) sums[l] = sums[l] + acan_load(&a->m[1], from, begin + l);
    }
    for (l = 0; l < lanes; ++l) sums[l] = ACAN_DIV(sums[l], area);
    acan_store_lanes(&a->m[0], r, begin, sums, lanes);
  }
}

ACAN_FN void acan_average_pooling_gradient(const acan_args* a, acan_i64 r) {
  const acan_window w = acan_window_of(a);
  const float area = (float)(w.window_height * w.window_width);
  float sums[ACAN_COLUMN_LANES];
  acan_i64 begin;
  acan_i64 tap;
  int l;
  for (begin = 0; begin < a->m[0].cols; begin += ACAN_COLUMN_LANES) {
    const acan_i64 left = a->m[0].cols - begin;
    const int lanes = left < ACAN_COLUMN_LANES ? (int)left : ACAN_COLUMN_LANES;
    for (l = 0; l < lanes; ++l) sums[l] = 0.0f;
    for (tap = w.window_height * w.window_width - 1; tap >= 0; --tap) {
      const acan_i64 from = acan_window_row(&w, r, tap);
      if (from < 0) continue;
      for (l = 0; l < lanes; ++l) sums[l] = sums[l] + acan_load(&a->m[1], from, begin + l);
    }
    for (l = 0; l < lanes; ++l) sums[l] = ACAN_DIV(sums[l], area);
    acan_store_lanes(&a->m[0], r, begin, sums, lanes);
  }
}

#endif /* ACAN_KERNELS_IMAGES_H */
