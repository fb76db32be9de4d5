// The definitions that the kernels need, in CUDA, compiled without fusing (-fmad=false) and
// flushing.
#pragma once

#include <cstdint>
#include <type_traits>
#if defined(__CUDACC__)
#include <cuda_pipeline_primitives.h>
#endif

typedef std::int32_t acan_i32;
typedef std::int64_t acan_i64;

#define ACAN_FN [[maybe_unused]] static __device__ __forceinline__
#define ACAN_GLOBAL
#define ACAN_LOCAL
#define ACAN_BARRIER() __syncthreads()
#define ACAN_UNROLL _Pragma("unroll")
#define ACAN_NO_UNROLL _Pragma("unroll 1")
#define ACAN_FLOAT4 float4
#define ACAN_FMA(a, b, c) __fmaf_rn((a), (b), (c))
#define ACAN_DIV(a, b) __fdiv_rn((a), (b))
#define ACAN_SQRT(x) __fsqrt_rn(x)
#define ACAN_AS_U32(x) __float_as_uint(x)
#define ACAN_AS_F32(x) __uint_as_float(x)
#define ACAN_INDEPENDENT
#define ACAN_LANE_LOOP
// In the kernels that IsRowOfABlock names, each row has a block; RowThreads gives its size. Rows of
// other kernels have threads that share nothing.
#define ACAN_ROW_THREADS (static_cast<int>(blockDim.x))
#define ACAN_MOST_ROW_THREADS 512
#define ACAN_CHAIN_THREADS 128
#define ACAN_ROW_THREAD (static_cast<int>(threadIdx.x))
#define ACAN_NODE_LEAVES 8
#define ACAN_LOCAL_VARIABLE __shared__
#define ACAN_SHARED_ARRAY(a, type, name, count, at) \
  (void)(a);                                        \
  __shared__ type name[count]
// Arrays of a thread's own that are read at variable places are in local memory.
#define ACAN_TREE_VARIABLE __shared__
// Blocks of GridOfWords have a piece of a row's columns, and several threads for each column.
#define ACAN_ROW_PIECES (static_cast<int>(gridDim.y))
#define ACAN_ROW_PIECE (static_cast<int>(blockIdx.y))
#define ACAN_ROW_PLACES (static_cast<int>(blockDim.y))
#define ACAN_ROW_PLACE (static_cast<int>(threadIdx.y))
#define ACAN_TILE_PLACES (static_cast<int>(blockDim.y))
#define ACAN_TILE_PLACE (static_cast<int>(threadIdx.y))
// One column a thread, so that neighbours read neighbouring words. In the kernels that
// HasSharedColumns names, columns have several threads each.
#define ACAN_COLUMN_LANES 1
#define ACAN_COLUMNS (static_cast<int>(blockDim.x))
#define ACAN_COLUMN (static_cast<int>(threadIdx.x))
#define ACAN_COLUMN_PLACES (static_cast<int>(blockDim.y))
#define ACAN_COLUMN_PLACE (static_cast<int>(threadIdx.y))
#define ACAN_MOST_COLUMN_THREADS 512
#define ACAN_OPEN_COLUMNS 8
#define ACAN_OPEN_COLUMN ACAN_COLUMN

// Whether copies into shared memory may run asynchronously.
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800
#define ACAN_ASYNC_COPIES 1
#else
#define ACAN_ASYNC_COPIES 0
#endif
// Begins such a copy of 4 or 16 bytes (a constant) if it is `wanted`. The condition is the
// predicate of one instruction; an if around the call would be a branch. Where there are no
// asynchronous copies, the thread copies.
#if defined(__CUDACC__)
ACAN_FN void acan_copy_async(void* to, const void* from, int bytes, bool wanted) {
#if ACAN_ASYNC_COPIES && defined(__CUDA_ARCH__)
  const auto shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
  if (bytes == 16) {
    asm volatile(
        "{ .reg .pred p; setp.ne.s32 p, %2, 0; @p cp.async.cg.shared.global [%0], [%1], 16; }" ::
            "r"(shared),
        "l"(from), "r"(static_cast<int>(wanted))
        : "memory");
  } else {
    asm volatile(
        "{ .reg .pred p; setp.ne.s32 p, %2, 0; @p cp.async.ca.shared.global [%0], [%1], 4; }" ::"r"(
            shared),
        "l"(from), "r"(static_cast<int>(wanted))
        : "memory");
  }
#else
  if (!wanted) return;
  if (bytes == 16) {
    *static_cast<float4*>(to) = *static_cast<const float4*>(from);
  } else {
    *static_cast<float*>(to) = *static_cast<const float*>(from);
  }
#endif
}
#else
ACAN_FN void acan_copy_async(void* to, const void* from, int bytes, bool wanted) {
  if (wanted) __pipeline_memcpy_async(to, from, static_cast<std::size_t>(bytes));
}
#endif
// The dynamic shared memory, whose size the launch sets, as words aligned to 16 bytes.
#if !defined(ACAN_DYNAMIC_SHARED)
#define ACAN_DYNAMIC_SHARED(name) extern __shared__ __attribute__((aligned(16))) float name[]
#endif

#include "acan/kernels/kernels.h"
