/* Philox4x32-10, the counter-based generator of Salmon et al., "Parallel Random Numbers: As Easy as
 * 1, 2, 3" (SC 2011). A random number is a pure function of (key, counter), so any handler can make
 * any element of any tensor, and the manager any epoch's order, without sharing state.
 *
 * Written in the subset of C that C++, OpenCL C and CUDA share: the kernels compile it too.
 * Includers may define ACAN_FN (function qualifiers) before including. */
#ifndef ACAN_CORE_PHILOX_H
#define ACAN_CORE_PHILOX_H

#ifdef __OPENCL_VERSION__
typedef uint acan_u32;
typedef ulong acan_u64;
#else
#include <stdint.h>
typedef uint32_t acan_u32;
typedef uint64_t acan_u64;
#endif

#ifndef ACAN_FN
#define ACAN_FN static inline
#endif

typedef struct {
  acan_u32 v[4];
} acan_philox4;

/* 128-bit counter (low, high) under a 64-bit key -> four random words. */
ACAN_FN acan_philox4 acan_philox(acan_u64 key, acan_u64 counter_low, acan_u64 counter_high) {
  acan_philox4 c;
  acan_u32 k0 = (acan_u32)key;
  acan_u32 k1 = (acan_u32)(key >> 32);
  int round;
  c.v[0] = (acan_u32)counter_low;
  c.v[1] = (acan_u32)(counter_low >> 32);
  c.v[2] = (acan_u32)counter_high;
  c.v[3] = (acan_u32)(counter_high >> 32);
  for (round = 0; round < 10; ++round) {
    acan_u64 p0 = (acan_u64)0xD2511F53u * c.v[0];
    acan_u64 p1 = (acan_u64)0xCD9E8D57u * c.v[2];
    acan_u32 n0 = (acan_u32)(p1 >> 32) ^ c.v[1] ^ k0;
    acan_u32 n2 = (acan_u32)(p0 >> 32) ^ c.v[3] ^ k1;
    c.v[0] = n0;
    c.v[1] = (acan_u32)p1;
    c.v[2] = n2;
    c.v[3] = (acan_u32)p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

/* A word to [0, 1): 24 random bits times 2^-24, exact in fp32. */
ACAN_FN float acan_unit_float(acan_u32 word) {
  return (float)(word >> 8) * 5.9604644775390625e-08f;
}

#endif /* ACAN_CORE_PHILOX_H */
