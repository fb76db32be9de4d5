/* The definitions that the kernels need, in C++ for CPUs. Included once per instruction set, before
 * kernels.h. Nothing here or there has external linkage, so code of one instruction set cannot end
 * up in another. */
#pragma once

#include <stdint.h>

typedef int32_t acan_i32;
typedef int64_t acan_i64;

#define ACAN_FN [[maybe_unused]] static inline __attribute__((always_inline))
#define ACAN_GLOBAL
#define ACAN_FMA(a, b, c) __builtin_fmaf((a), (b), (c))
#define ACAN_DIV(a, b) ((a) / (b))
#define ACAN_SQRT(x) __builtin_sqrtf(x)
#define ACAN_AS_U32(x) __builtin_bit_cast(uint32_t, (float)(x))
#define ACAN_AS_F32(x) __builtin_bit_cast(float, (uint32_t)(x))
#define ACAN_COLUMN_LANES 256
#if defined(__AVX512F__)
#define ACAN_SEARCH_LANES 64  // there are 32 vector registers
#endif
#if defined(__clang__)
#define ACAN_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define ACAN_LANE_LOOP _Pragma("clang loop vectorize(enable)")
#else
// Compilers do not vectorise a loop over lanes that they have unrolled first.
#define ACAN_LANE_LOOP _Pragma("GCC unroll 1")
#define ACAN_INDEPENDENT _Pragma("GCC ivdep")
#endif

#include "acan/kernels/kernels.h"
