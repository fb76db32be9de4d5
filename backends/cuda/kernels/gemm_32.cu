// For small products, and for sums of more leaves than the other sizes allow.
#define ACAN_WARPS_M 2
#define ACAN_WARPS_N 1
#define ACAN_QUADS_M 1
#define ACAN_QUADS_N 1
#define ACAN_QUAD_LEVELS 32
#define ACAN_BLOCKS_PER_MULTIPROCESSOR 8
#include "gemm.cuh"

const void* acan::cuda::Gemm32(GemmLayout layout) {
  static_assert(ACAN_QUAD_EDGE == 32);
  static_assert(ACAN_BLOCKS_PER_MULTIPROCESSOR == kDesign32.blocks);
  static_assert(ACAN_QUAD_LEVELS * ACAN_QUAD_SUMS * 4 == kDesign32.local_bytes);
  return GemmOf(layout);
}
