/* Windows that step over images: unfolding for convolution, and pooling. Rows are (sample, y, x),
 * columns are channels. A window begins at y = out_y * stride - padding.
 *
 * On a GPU each row has several threads, which have channels of their own and share nothing. */
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

/* The range begin .. end - 1. */
typedef struct {
  acan_i64 begin;
  acan_i64 end;
} acan_span;

/* The taps of window `at` that are inside the image, along one dimension. */
ACAN_FN acan_span acan_taps_inside(acan_i64 at, acan_i64 stride, acan_i64 padding, acan_i64 window,
                                   acan_i64 size) {
  const acan_i64 first = at * stride - padding;
  acan_span taps;
  taps.begin = first < 0 ? (-first < window ? -first : window) : 0;
  taps.end = size - first < window ? size - first : window;
  if (taps.end < taps.begin) taps.end = taps.begin;
  return taps;
}

/* Of `count` windows, those that contain one of the pixels begin .. end - 1, along one
 * dimension. */
ACAN_FN acan_span acan_windows_over(acan_i64 begin, acan_i64 end, acan_i64 stride, acan_i64 padding,
                                    acan_i64 window, acan_i64 count) {
  const acan_i64 before = begin + padding - window; /* the last pixel whose window ends before */
  const acan_i64 last = (end - 1 + padding) / stride;
  acan_span windows;
  windows.begin = before < 0 ? 0 : before / stride + 1;
  windows.end = last + 1 < count ? last + 1 : count;
  return windows;
}

/* The position of the window of a row of the result. */
typedef struct {
  const acan_window* of;
  acan_i64 top, left; /* of the window: may be negative */
  acan_i64 image;     /* the first row of its image */
  acan_span taps_y, taps_x;
} acan_view;

ACAN_FN acan_view acan_view_at(const acan_window* w, acan_i64 image, acan_i64 out_y,
                               acan_i64 out_x) {
  acan_view v;
  v.of = w;
  v.image = image * w->height * w->width;
  v.top = out_y * w->stride_y - w->padding_y;
  v.left = out_x * w->stride_x - w->padding_x;
  v.taps_y = acan_taps_inside(out_y, w->stride_y, w->padding_y, w->window_height, w->height);
  v.taps_x = acan_taps_inside(out_x, w->stride_x, w->padding_x, w->window_width, w->width);
  return v;
}

ACAN_FN acan_view acan_view_of(const acan_window* w, acan_i64 r) {
  const acan_i64 row = r / w->out_width;
  return acan_view_at(w, row / w->out_height, row % w->out_height, r % w->out_width);
}

/* The row of the image under a tap. */
ACAN_FN acan_i64 acan_view_row(const acan_view* v, acan_i64 tap_y, acan_i64 tap_x) {
  return v->image + (v->top + tap_y) * v->of->width + v->left + tap_x;
}

/* Fills this thread's elements of a run with zeros. */
ACAN_FN void acan_fill_run(const acan_matrix* m, acan_i64 r, acan_i64 begin, acan_i64 end) {
  acan_i64 c;
  for (c = begin + ACAN_ROW_THREAD; c < end; c += ACAN_ROW_THREADS) acan_store(m, r, c, 0.0f);
}

/* Calls `function` for all channels of row r of m0, or for those of this thread. Devices whose rows
 * have several threads take one column a call. */
#if ACAN_COLUMN_LANES == 1
#define ACAN_FOR_CHANNELS_OF_ROW(function)                               \
  {                                                                      \
    acan_i64 c;                                                          \
    for (c = ACAN_ROW_THREAD; c < a->m[0].cols; c += ACAN_ROW_THREADS) { \
      function(a, &w, r, c, 1);                                          \
    }                                                                    \
  }
#else
#define ACAN_FOR_CHANNELS_OF_ROW(function)                                              \
  {                                                                                     \
    acan_run run = acan_run_at(r * a->m[0].cols, (r + 1) * a->m[0].cols, a->m[0].cols); \
    ACAN_FOR_CHANNELS(run, function)                                                    \
  }
#endif

/* Row r of out holds the window's elements, tap after tap; 0 where it is outside the image.
 * Neighbouring taps are one run of elements if the image's pixels are contiguous. */
ACAN_FN void acan_unfold(const acan_args* a, acan_i64 r) {
  const acan_window w = acan_window_of(a);
  const acan_view v = acan_view_of(&w, r);
  const acan_i64 channels = a->m[1].cols;
  const acan_i64 taps = a->m[1].stride == channels ? w.window_width : 1; /* of a run, at most */
  acan_i64 tap_y;
  for (tap_y = 0; tap_y < w.window_height; ++tap_y) {
    const acan_i64 to = tap_y * w.window_width * channels;
    const int inside = (tap_y >= v.taps_y.begin) & (tap_y < v.taps_y.end);
    const acan_i64 begin = inside ? v.taps_x.begin : w.window_width;
    const acan_i64 end = inside ? v.taps_x.end : w.window_width;
    acan_i64 tap;
    acan_fill_run(&a->m[0], r, to, to + begin * channels);
    for (tap = begin; tap < end; tap += taps) {
      const acan_i64 left = end - tap < taps ? end - tap : taps;
      const ACAN_GLOBAL float* from = a->m[1].data + acan_view_row(&v, tap_y, tap) * a->m[1].stride;
      acan_i64 c;
      ACAN_INDEPENDENT
      for (c = ACAN_ROW_THREAD; c < left * channels; c += ACAN_ROW_THREADS) {
        acan_store(&a->m[0], r, to + tap * channels + c, from[c]);
      }
    }
    acan_fill_run(&a->m[0], r, to + end * channels, to + w.window_width * channels);
  }
}

/* A pixel of an image, and the windows that contain it. */
typedef struct {
  const acan_window* of;
  acan_i64 y, x;      /* with the padding */
  acan_i64 out_image; /* the first row of its image's result */
  acan_span out_y, out_x;
} acan_pixel;

ACAN_FN acan_pixel acan_pixel_of(const acan_window* w, acan_i64 r) {
  const acan_i64 row = r / w->width;
  const acan_i64 y = row % w->height;
  const acan_i64 x = r % w->width;
  acan_pixel p;
  p.of = w;
  p.y = y + w->padding_y;
  p.x = x + w->padding_x;
  p.out_image = row / w->height * w->out_height * w->out_width;
  p.out_y = acan_windows_over(y, y + 1, w->stride_y, w->padding_y, w->window_height, w->out_height);
  p.out_x = acan_windows_over(x, x + 1, w->stride_x, w->padding_x, w->window_width, w->out_width);
  return p;
}

/* Channels c .. c + lanes - 1 of the image's row r: a chain over the taps in ascending order, hence
 * over the windows in descending order. */
ACAN_FN void acan_fold_lanes(const acan_args* a, const acan_pixel* p, acan_i64 r, acan_i64 c,
                             int lanes) {
  const acan_window* w = p->of;
  float sums[ACAN_CHANNEL_LANES];
  acan_i64 y;
  acan_i64 x;
  int l;
  for (l = 0; l < lanes; ++l) sums[l] = 0.0f;
  for (y = p->out_y.end - 1; y >= p->out_y.begin; --y) {
    for (x = p->out_x.end - 1; x >= p->out_x.begin; --x) {
      const acan_i64 tap = (p->y - y * w->stride_y) * w->window_width + (p->x - x * w->stride_x);
      const acan_i64 from = p->out_image + y * w->out_width + x;
      const ACAN_GLOBAL float* dy = a->m[1].data + from * a->m[1].stride + tap * a->m[0].cols + c;
      for (l = 0; l < lanes; ++l) sums[l] = sums[l] + dy[l];
    }
  }
  acan_store_lanes(&a->m[0], r, c, sums, lanes);
}

ACAN_FN void acan_fold(const acan_args* a, acan_i64 r) {
  const acan_window window = acan_window_of(a);
  const acan_pixel w = acan_pixel_of(&window, r);
  ACAN_FOR_CHANNELS_OF_ROW(acan_fold_lanes)
}

/* Of equal elements, that of the first tap counts. A NaN is larger than everything. */
ACAN_FN void acan_max_pooling_lanes(const acan_args* a, const acan_view* v, acan_i64 r, acan_i64 c,
                                    int lanes) {
  float best[ACAN_CHANNEL_LANES];
  acan_i64 y;
  acan_i64 x;
  int l;
  for (l = 0; l < lanes; ++l) best[l] = -ACAN_AS_F32(0x7f800000u);
  for (y = v->taps_y.begin; y < v->taps_y.end; ++y) {
    for (x = v->taps_x.begin; x < v->taps_x.end; ++x) {
      const ACAN_GLOBAL float* from = a->m[1].data + acan_view_row(v, y, x) * a->m[1].stride + c;
      for (l = 0; l < lanes; ++l) {
        best[l] = ((from[l] > best[l]) | (from[l] != from[l])) ? from[l] : best[l];
      }
    }
  }
  acan_store_lanes(&a->m[0], r, c, best, lanes);
}

ACAN_FN void acan_max_pooling(const acan_args* a, acan_i64 r) {
  const acan_window window = acan_window_of(a);
  const acan_view w = acan_view_of(&window, r);
  ACAN_FOR_CHANNELS_OF_ROW(acan_max_pooling_lanes)
}

/* The rows of an image whose gradients one call computes: one pixel on a GPU, a strip of rows on a
 * CPU, so that each window is searched once for all of its pixels. */
#define ACAN_STRIP_ROWS (ACAN_COLUMN_LANES > 1 ? 16 : 1)

/* Channels of a window that are searched side by side. A prelude may define more, where more fit
 * into the registers. */
#ifndef ACAN_SEARCH_LANES
#define ACAN_SEARCH_LANES ACAN_HALF_LANES
#endif

typedef struct {
  const acan_window* of;
  acan_i64 image;
  acan_span y, x;
} acan_strip;

ACAN_FN int acan_in_span(acan_span span, acan_i64 at) {
  return (at >= span.begin) & (at < span.end);
}

/* Adds dy of a window, which is row `from` of the result, to the pixels of the strip that are its
 * maximum. */
ACAN_FN void acan_add_to_largest(const acan_args* a, const acan_strip* s, const acan_view* v,
                                 acan_i64 from, acan_i64 c, int lanes) {
  const float infinity = ACAN_AS_F32(0x7f800000u);
  const ACAN_GLOBAL float* from_dy = a->m[2].data + from * a->m[2].stride + c;
  float dy[ACAN_SEARCH_LANES];
  float best[ACAN_SEARCH_LANES]; /* infinity for a NaN, so that one comparison suffices */
  acan_i32 where[ACAN_SEARCH_LANES];
  acan_i64 y;
  acan_i64 x;
  int l;
  for (l = 0; l < lanes; ++l) dy[l] = from_dy[l];
  for (l = 0; l < lanes; ++l) best[l] = -infinity;
  /* The first pixel, also of a window in which no pixel is larger than minus infinity. */
  for (l = 0; l < lanes; ++l) {
    where[l] = (acan_i32)(v->taps_y.begin * v->of->window_width + v->taps_x.begin);
  }
  for (y = v->taps_y.begin; y < v->taps_y.end; ++y) {
    for (x = v->taps_x.begin; x < v->taps_x.end; ++x) {
      const acan_i32 tap = (acan_i32)(y * v->of->window_width + x);
      const ACAN_GLOBAL float* at = a->m[1].data + acan_view_row(v, y, x) * a->m[1].stride + c;
      for (l = 0; l < lanes; ++l) {
        const float value = at[l] < infinity ? at[l] : infinity; /* also for NaN */
        where[l] = !(at[l] <= best[l]) ? tap : where[l];         /* larger, or NaN */
        best[l] = value > best[l] ? value : best[l];
      }
    }
  }
  for (y = v->taps_y.begin; y < v->taps_y.end; ++y) {
    if (!acan_in_span(s->y, v->top + y)) continue;
    for (x = v->taps_x.begin; x < v->taps_x.end; ++x) {
      const acan_i32 tap = (acan_i32)(y * v->of->window_width + x);
      ACAN_GLOBAL float* to = a->m[0].data + acan_view_row(v, y, x) * a->m[0].stride + c;
      if (!acan_in_span(s->x, v->left + x)) continue;
      ACAN_INDEPENDENT
      for (l = 0; l < lanes; ++l) {
        const float sum = where[l] == tap ? to[l] + dy[l] : to[l];
        to[l] = sum == sum ? sum : ACAN_NAN;
      }
    }
  }
}

/* Visits the windows in ascending order, all channels of one before the next, since they are
 * adjacent. */
ACAN_FN void acan_max_gradient_strip(const acan_args* a, const acan_strip* s) {
  const acan_window* w = s->of;
  const acan_i64 channels = a->m[0].cols;
  const acan_span out_y = acan_windows_over(s->y.begin, s->y.end, w->stride_y, w->padding_y,
                                            w->window_height, w->out_height);
  const acan_span out_x = acan_windows_over(s->x.begin, s->x.end, w->stride_x, w->padding_x,
                                            w->window_width, w->out_width);
  acan_i64 y;
  acan_i64 x;
  acan_i64 c;
  for (y = s->y.begin; y < s->y.end; ++y) {
    for (x = s->x.begin; x < s->x.end; ++x) {
      acan_fill_run(&a->m[0], (s->image * w->height + y) * w->width + x, 0, channels);
    }
  }
  for (y = out_y.begin; y < out_y.end; ++y) {
    for (x = out_x.begin; x < out_x.end; ++x) {
      const acan_view v = acan_view_at(w, s->image, y, x);
      const acan_i64 from = (s->image * w->out_height + y) * w->out_width + x;
      for (c = ACAN_SEARCH_LANES * ACAN_ROW_THREAD; c + ACAN_SEARCH_LANES <= channels;
           c += ACAN_SEARCH_LANES * ACAN_ROW_THREADS) {
        acan_add_to_largest(a, s, &v, from, c, ACAN_SEARCH_LANES);
      }
      if (ACAN_SEARCH_LANES > ACAN_HALF_LANES && c + ACAN_HALF_LANES <= channels) {
        acan_add_to_largest(a, s, &v, from, c, ACAN_HALF_LANES);
        c += ACAN_HALF_LANES;
      }
      if (c < channels) acan_add_to_largest(a, s, &v, from, c, (int)(channels - c));
    }
  }
}

ACAN_FN void acan_max_pooling_gradient(const acan_args* a, acan_i64 r) {
  const acan_window w = acan_window_of(a);
  const acan_i64 row = r / w.width;
  acan_strip s;
  s.of = &w;
  s.image = row / w.height;
  s.y.begin = row % w.height;
  s.x.begin = r % w.width;
  s.x.end = ACAN_STRIP_ROWS > 1 ? w.width : s.x.begin + 1;
  s.y.end = s.y.begin + ACAN_STRIP_ROWS < w.height ? s.y.begin + ACAN_STRIP_ROWS : w.height;
  /* The call of a strip's first pixel computes the whole strip. */
  if (ACAN_STRIP_ROWS > 1 && ((s.x.begin > 0) | (s.y.begin % ACAN_STRIP_ROWS > 0))) return;
  acan_max_gradient_strip(a, &s);
}

/* sums / divisor. For a power of two, multiplying by its inverse gives the same bits and is
 * faster. */
ACAN_FN void acan_divide_lanes(float* sums, float divisor, int lanes) {
  int l;
  if ((ACAN_AS_U32(divisor) & 0x007fffffu) == 0) {
    const float inverse = ACAN_DIV(1.0f, divisor);
    for (l = 0; l < lanes; ++l) sums[l] = sums[l] * inverse;
  } else {
    for (l = 0; l < lanes; ++l) sums[l] = ACAN_DIV(sums[l], divisor);
  }
}

ACAN_FN void acan_average_pooling_lanes(const acan_args* a, const acan_view* v, acan_i64 r,
                                        acan_i64 c, int lanes) {
  const float area = (float)(v->of->window_height * v->of->window_width);
  float sums[ACAN_CHANNEL_LANES];
  acan_i64 y;
  acan_i64 x;
  int l;
  for (l = 0; l < lanes; ++l) sums[l] = 0.0f;
  for (y = v->taps_y.begin; y < v->taps_y.end; ++y) {
    for (x = v->taps_x.begin; x < v->taps_x.end; ++x) {
      const ACAN_GLOBAL float* from = a->m[1].data + acan_view_row(v, y, x) * a->m[1].stride + c;
      for (l = 0; l < lanes; ++l) sums[l] = sums[l] + from[l];
    }
  }
  acan_divide_lanes(sums, area, lanes);
  acan_store_lanes(&a->m[0], r, c, sums, lanes);
}

ACAN_FN void acan_average_pooling(const acan_args* a, acan_i64 r) {
  const acan_window window = acan_window_of(a);
  const acan_view w = acan_view_of(&window, r);
  ACAN_FOR_CHANNELS_OF_ROW(acan_average_pooling_lanes)
}

ACAN_FN void acan_average_gradient_lanes(const acan_args* a, const acan_pixel* p, acan_i64 r,
                                         acan_i64 c, int lanes) {
  const acan_window* w = p->of;
  const float area = (float)(w->window_height * w->window_width);
  float sums[ACAN_CHANNEL_LANES];
  acan_i64 y;
  acan_i64 x;
  int l;
  for (l = 0; l < lanes; ++l) sums[l] = 0.0f;
  for (y = p->out_y.begin; y < p->out_y.end; ++y) {
    for (x = p->out_x.begin; x < p->out_x.end; ++x) {
      const acan_i64 from = p->out_image + y * w->out_width + x;
      const ACAN_GLOBAL float* dy = a->m[1].data + from * a->m[1].stride + c;
      for (l = 0; l < lanes; ++l) sums[l] = sums[l] + dy[l];
    }
  }
  acan_divide_lanes(sums, area, lanes);
  acan_store_lanes(&a->m[0], r, c, sums, lanes);
}

ACAN_FN void acan_average_pooling_gradient(const acan_args* a, acan_i64 r) {
  const acan_window window = acan_window_of(a);
  const acan_pixel w = acan_pixel_of(&window, r);
  ACAN_FOR_CHANNELS_OF_ROW(acan_average_gradient_lanes)
}

#endif /* ACAN_KERNELS_IMAGES_H */
