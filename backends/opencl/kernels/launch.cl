/* One OpenCL kernel for each row of operators.inc, called acan_run_NAME. The rows follow this
 * text. */

/* As acan::opencl::LaunchScalars. */
typedef struct {
  acan_i64 offset[ACAN_KERNEL_MATRICES];
  acan_i64 rows[ACAN_KERNEL_MATRICES];
  acan_i64 cols[ACAN_KERNEL_MATRICES];
  acan_i64 stride[ACAN_KERNEL_MATRICES];
  acan_i64 i[ACAN_KERNEL_INTEGERS];
  float f[ACAN_KERNEL_FLOATS];
  acan_i64 region_rows;
  acan_i64 region_cols;
} acan_launch;

#if ACAN_KERNEL_MATRICES != 10
#error "the buffers below, and the calls with them, are one for each matrix"
#endif
#define ACAN_BUFFERS                                                                             \
  __global float *d0, __global float *d1, __global float *d2, __global float *d3,                \
      __global float *d4, __global float *d5, __global float *d6, __global float *d7,            \
      __global float *d8, __global float *d9
#ifdef ACAN_SHARED_IN_ARGS
#define ACAN_MEMORY ACAN_BUFFERS, __local acan_i64* shared
#define ACAN_MEMORY_GIVEN d0, d1, d2, d3, d4, d5, d6, d7, d8, d9, shared
#else
#define ACAN_MEMORY ACAN_BUFFERS
#define ACAN_MEMORY_GIVEN d0, d1, d2, d3, d4, d5, d6, d7, d8, d9
#endif

ACAN_FN acan_args acan_args_of(const acan_launch* l, ACAN_MEMORY) {
  acan_args a;
  int i;
#ifdef ACAN_SHARED_IN_ARGS
  a.shared = shared;
#endif
  a.m[0].data = d0;
  a.m[1].data = d1;
  a.m[2].data = d2;
  a.m[3].data = d3;
  a.m[4].data = d4;
  a.m[5].data = d5;
  a.m[6].data = d6;
  a.m[7].data = d7;
  a.m[8].data = d8;
  a.m[9].data = d9;
  for (i = 0; i < ACAN_KERNEL_MATRICES; ++i) {
    if (a.m[i].data) a.m[i].data += l->offset[i];
    a.m[i].rows = l->rows[i];
    a.m[i].cols = l->cols[i];
    a.m[i].stride = l->stride[i];
  }
  for (i = 0; i < ACAN_KERNEL_INTEGERS; ++i) a.i[i] = l->i[i];
  for (i = 0; i < ACAN_KERNEL_FLOATS; ++i) a.f[i] = l->f[i];
  return a;
}

/* A work-item computes ACAN_ELEMENT_RUN adjacent elements. CPU devices need many, so that the
 * arguments are read once for all of them. */
#define ACAN_RUN_ELEMENT(function, whole)                                  \
  const acan_i64 first = (acan_i64)get_global_id(0) * ACAN_ELEMENT_RUN;    \
  const acan_i64 r = get_global_id(1);                                     \
  const acan_i64 end = min(first + ACAN_ELEMENT_RUN, l.region_cols);       \
  acan_i64 c;                                                              \
  if (r >= l.region_rows) return;                                          \
  ACAN_INDEPENDENT for (c = first; c < end; ++c) function(&a, r, c);

/* `whole`: all work-items of a group call the function, since it has barriers. A row has a group of
 * its own then. */
#define ACAN_RUN_ROW(function, whole)  \
  const acan_i64 r = get_global_id(0); \
  if (whole || r < l.region_rows) function(&a, r);

#ifdef ACAN_GPU
#define ACAN_RUN_COLUMN(function, whole) \
  const acan_i64 c = get_global_id(0);   \
  if (whole || c < l.region_cols) function(&a, c, c < l.region_cols ? 1 : 0);
#else
#define ACAN_RUN_COLUMN(function, whole)                                              \
  const acan_i64 c = get_global_id(0) * ACAN_COLUMN_LANES;                            \
  const acan_i64 left = l.region_cols - c;                                            \
  if (left >= ACAN_COLUMN_LANES) {                                                    \
    function(&a, c, ACAN_COLUMN_LANES);                                               \
  } else if (left > 0) {                                                              \
    function(&a, c, (int)left);                                                       \
  }
#endif

#define ACAN_RUN_TILE(function, whole)                                                    \
  const acan_i64 item = get_global_id(0);                                                 \
  const acan_i64 r = get_global_id(1);                                                    \
  const acan_i64 c = item / ACAN_TILE_LANES;                                              \
  if (r < l.region_rows && c < l.region_cols) function(&a, r, c, (int)(item % ACAN_TILE_LANES));

/* OpenCL C has no macros with "...". The host defines ACAN_WHOLE_NAME as 0 or 1. */
#define ACAN_PRODUCT(number, enumerator, name, space, operands, flops, meaning)
#define ACAN_OPERATOR(number, enumerator, function, iteration, variants, space, operands, scalars, \
                      flops, meaning)                                                              \
  __kernel void acan_run_##enumerator(const acan_launch l, ACAN_MEMORY) {                          \
    const acan_args a = acan_args_of(&l, ACAN_MEMORY_GIVEN);                                       \
    ACAN_RUN_##iteration(function, ACAN_WHOLE_##enumerator)                                        \
  }
