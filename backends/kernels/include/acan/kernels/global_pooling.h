/* Pooling over the positions of a sample that count, which are the first ones: averages, the
 * largest elements, and the gradients of both. An average is a sum over rows in the order of
 * row_groups.h. */
#ifndef ACAN_KERNELS_GLOBAL_POOLING_H
#define ACAN_KERNELS_GLOBAL_POOLING_H

/* For calls whose columns are the elements of a matrix [rows, cols], row after row, so that a GPU
 * has a thread for each element and a CPU has long runs of one row. This is the run that begins at
 * `place`. */
typedef struct {
  acan_i64 row;
  acan_i64 col;
  int lanes;
} acan_run;

ACAN_FN acan_run acan_run_at(acan_i64 place, acan_i64 end, acan_i64 cols) {
  acan_run run;
  run.row = place / cols;
  run.col = place % cols;
  run.lanes = (int)(end - place < cols - run.col ? end - place : cols - run.col);
  return run;
}

/* Channels that are summed side by side: as many as fill the registers of a CPU. */
#define ACAN_CHANNEL_LANES (ACAN_COLUMN_LANES < 64 ? ACAN_COLUMN_LANES : 64)
#define ACAN_HALF_LANES (ACAN_CHANNEL_LANES < 2 ? 1 : ACAN_CHANNEL_LANES / 2)

/* Calls `function` for the channels of a run, in pieces. The sizes of most pieces are constants, so
 * that the sums in `function`'s loops stay in registers. */
#define ACAN_FOR_CHANNELS(run, function)                         \
  while ((run).lanes > 0) {                                      \
    int taken = (run).lanes;                                     \
    if (taken >= ACAN_CHANNEL_LANES) {                           \
      taken = ACAN_CHANNEL_LANES;                                \
      function(a, &w, (run).row, (run).col, ACAN_CHANNEL_LANES); \
    } else if (taken >= ACAN_HALF_LANES) {                       \
      taken = ACAN_HALF_LANES;                                   \
      function(a, &w, (run).row, (run).col, ACAN_HALF_LANES);    \
    } else {                                                     \
      function(a, &w, (run).row, (run).col, taken);              \
    }                                                            \
    (run).lanes -= taken;                                        \
    (run).col += taken;                                          \
  }

/* The number of positions of sample s that count. */
ACAN_FN acan_i64 acan_length_of(const acan_matrix* lengths, acan_i64 s, acan_i64 positions) {
  const acan_i64 length = lengths->data ? acan_load_int(lengths, s) : positions;
  return length < 0 ? 0 : length < positions ? length : positions;
}

ACAN_FN void acan_average_positions(const acan_args* a, acan_run run) {
  float levels[ACAN_TREE_LEVELS][ACAN_COLUMN_LANES];
  float sums[ACAN_COLUMN_LANES];
  const acan_i64 positions = a->i[1];
  const acan_i64 length = acan_length_of(&a->m[2], run.row, positions);
  const acan_i64 first = run.row * positions;
  acan_i64 leaves = 0;
  acan_i64 begin;
  int l;
  for (l = 0; l < run.lanes; ++l) sums[l] = 0.0f;
  for (begin = 0; begin < length; begin += a->i[0], ++leaves) {
    const acan_i64 end = acan_leaf_end(begin, a->i[0], length);
    acan_column_chain(&a->m[1], &a->m[1], ACAN_CHAIN_SUM, first + begin, first + end, run.col, sums,
                      run.lanes);
    acan_lane_tree_push(levels, leaves, sums, run.lanes);
  }
  if (leaves > 0) acan_lane_tree_total(levels, leaves, sums, run.lanes);
  for (l = 0; l < run.lanes; ++l) sums[l] = ACAN_DIV(sums[l], (float)length);
  acan_store_lanes(&a->m[0], run.row, run.col, sums, run.lanes);
}

ACAN_FN void acan_global_average_pooling(const acan_args* a, acan_i64 c, int lanes) {
  const acan_i64 end = c + lanes;
  while (c < end) {
    const acan_run run = acan_run_at(c, end, a->m[0].cols);
    acan_average_positions(a, run);
    c += run.lanes;
  }
}

ACAN_FN void acan_global_average_pooling_gradient(const acan_args* a, acan_i64 c, int lanes) {
  float shares[ACAN_COLUMN_LANES];
  const acan_i64 positions = a->i[0];
  const acan_i64 end = c + lanes;
  int l;
  while (c < end) {
    const acan_run run = acan_run_at(c, end, a->m[0].cols);
    const acan_i64 length = acan_length_of(&a->m[1], run.row, positions);
    acan_i64 p;
    for (l = 0; l < run.lanes; ++l) {
      const float share = ACAN_DIV(acan_load(&a->m[2], run.row, run.col + l), (float)length);
      shares[l] = share == share ? share : ACAN_NAN; /* once, not for each position */
    }
    for (p = 0; p < positions; ++p) {
      ACAN_GLOBAL float* to = a->m[0].data + (run.row * positions + p) * a->m[0].stride + run.col;
      if (p == length) {
        for (l = 0; l < run.lanes; ++l) shares[l] = 0.0f;
      }
      for (l = 0; l < run.lanes; ++l) to[l] = shares[l];
    }
    c += run.lanes;
  }
}

/* The largest elements over the positions that count, and their positions: the first of equal
 * elements, the last of NaNs; -infinity and -1 where no position counts. */
ACAN_FN void acan_largest_positions(const acan_matrix* x, acan_run run, acan_i64 positions,
                                    acan_i64 length, float* best, acan_i32* where) {
  acan_i64 p;
  int l;
  for (l = 0; l < run.lanes; ++l) best[l] = -ACAN_AS_F32(0x7f800000u);
  for (l = 0; l < run.lanes; ++l) where[l] = length > 0 ? 0 : -1;
  for (p = 0; p < length; ++p) {
    for (l = 0; l < run.lanes; ++l) {
      const float value = acan_load(x, run.row * positions + p, run.col + l);
      const int larger = (value > best[l]) | (value != value);
      best[l] = larger ? value : best[l];
      where[l] = larger ? (acan_i32)p : where[l];
    }
  }
}

ACAN_FN void acan_global_max_lanes(const acan_args* a, const acan_i64* length, acan_i64 s,
                                   acan_i64 c, int lanes) {
  float best[ACAN_CHANNEL_LANES];
  acan_i64 p;
  int l;
  for (l = 0; l < lanes; ++l) best[l] = -ACAN_AS_F32(0x7f800000u);
  for (p = 0; p < *length; ++p) {
    const ACAN_GLOBAL float* x = a->m[1].data + (s * a->i[0] + p) * a->m[1].stride + c;
    for (l = 0; l < lanes; ++l) best[l] = ((x[l] > best[l]) | (x[l] != x[l])) ? x[l] : best[l];
  }
  acan_store_lanes(&a->m[0], s, c, best, lanes);
}

ACAN_FN void acan_global_max_pooling(const acan_args* a, acan_i64 c, int lanes) {
  const acan_i64 end = c + lanes;
  while (c < end) {
    acan_run run = acan_run_at(c, end, a->m[0].cols);
    const acan_i64 w = acan_length_of(&a->m[2], run.row, a->i[0]);
    c += run.lanes;
    ACAN_FOR_CHANNELS(run, acan_global_max_lanes)
  }
}

ACAN_FN void acan_global_max_pooling_gradient(const acan_args* a, acan_i64 c, int lanes) {
  float best[ACAN_COLUMN_LANES];
  acan_i32 where[ACAN_COLUMN_LANES];
  const acan_i64 positions = a->i[0];
  const acan_i64 end = c + lanes;
  acan_i64 p;
  int l;
  while (c < end) {
    const acan_run run = acan_run_at(c, end, a->m[0].cols);
    const acan_i64 length = acan_length_of(&a->m[2], run.row, positions);
    acan_largest_positions(&a->m[1], run, positions, length, best, where);
    for (p = 0; p < positions; ++p) {
      for (l = 0; l < run.lanes; ++l) {
        const float dy = acan_load(&a->m[3], run.row, run.col + l);
        acan_store(&a->m[0], run.row * positions + p, run.col + l,
                   where[l] == (acan_i32)p ? dy : 0.0f);
      }
    }
    c += run.lanes;
  }
}

#endif /* ACAN_KERNELS_GLOBAL_POOLING_H */
