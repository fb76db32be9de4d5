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
#define ACAN_NO_UNROLL _Pragma("unroll 1")
/* Elements are independent even where an output is an operand's own matrix. This matters on CPU
 * devices, which compute many of them in one work-item (ACAN_ELEMENT_RUN). */
#if ACAN_ELEMENT_RUN > 1 && defined(__clang__)
#define ACAN_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define ACAN_LANE_LOOP _Pragma("clang loop vectorize(enable)")
#else
#define ACAN_INDEPENDENT
#define ACAN_LANE_LOOP
#endif
/* A row of a GPU has the work-items of a group along dimension 1: 64 or more, or one in kernels
 * whose rows share nothing (work_items.h). A group with columns has those along dimension 0, and
 * the places of each column along dimension 1. Functions cannot declare local memory, so the host
 * passes it. The nodes of a tree are each work-item's own. */
#ifdef ACAN_GPU
#define ACAN_ROW_THREADS ((int)get_local_size(1))
#define ACAN_ROW_THREAD ((int)get_local_id(1))
#define ACAN_ROW_BARRIER() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define ACAN_NODE_LEAVES 4
#define ACAN_COLUMNS ((int)get_local_size(0))
#define ACAN_COLUMN ((int)get_local_id(0))
#define ACAN_COLUMN_PLACES ((int)get_local_size(1))
#define ACAN_COLUMN_PLACE ((int)get_local_id(1))
#define ACAN_OPEN_COLUMNS 1
#define ACAN_OPEN_COLUMN 0
#define ACAN_TREE_VARIABLE
#define ACAN_SHARED_IN_ARGS
#define ACAN_SHARED_ARRAY(a, type, name, count, at) \
  ACAN_LOCAL type* name = (ACAN_LOCAL type*)((ACAN_LOCAL acan_u32*)(a)->shared + (at))
#define ACAN_WORDS_ARE_APART /* words.cl */
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
