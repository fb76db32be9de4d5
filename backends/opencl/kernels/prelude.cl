/* The definitions that the kernels need, in OpenCL C. ACAN_SOFT_DIVIDE: the device's division and
 * square root are not correctly rounded. The build options define ACAN_COLUMN_LANES, and ACAN_GPU
 * unless the device is a CPU. */
#pragma OPENCL FP_CONTRACT OFF

typedef int acan_i32;
typedef long acan_i64;

#define ACAN_FN static inline
#define ACAN_GLOBAL __global
#define ACAN_LOCAL __local
#define ACAN_BARRIER() barrier(CLK_LOCAL_MEM_FENCE)
#define ACAN_UNROLL _Pragma("unroll")
/* Elements are independent even where an output is an operand's own matrix. This matters on CPU
 * devices, which compute many of them in one work-item (ACAN_ELEMENT_RUN). */
#if ACAN_ELEMENT_RUN > 1 && defined(__clang__)
#define ACAN_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define ACAN_LANE_LOOP _Pragma("clang loop vectorize(enable)")
#else
#define ACAN_INDEPENDENT
#define ACAN_LANE_LOOP
#endif
/* A row of a GPU has the work-items of a group along dimension 1; in most kernels, that is one
 * (work_items.h). */
#ifdef ACAN_GPU
#define ACAN_ROWS_SHARE_NOTHING
#define ACAN_ROW_THREADS ((int)get_local_size(1))
#define ACAN_ROW_THREAD ((int)get_local_id(1))
#endif
#define ACAN_FMA(a, b, c) fma((a), (b), (c))
#define ACAN_AS_U32(x) as_uint((float)(x))
#define ACAN_AS_F32(x) as_float((uint)(x))
#ifdef ACAN_SOFT_DIVIDE
#define ACAN_DIV(a, b) acan_soft_div((a), (b))
#define ACAN_SQRT(x) acan_soft_sqrt(x)
#else
#define ACAN_DIV(a, b) ((a) / (b))
#define ACAN_SQRT(x) sqrt(x)
#endif
