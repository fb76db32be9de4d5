// For products that have too few large tiles for all multiprocessors.
#define ACAN_WARPS_M 2
#define ACAN_WARPS_N 2
#define ACAN_QUADS_M 2
#define ACAN_QUADS_N 1
#define ACAN_QUAD_LEVELS 8
#define ACAN_BLOCKS_PER_MULTIPROCESSOR 4
#include "gemm.cuh"

const void* acan::cuda::Gemm64(GemmLayout layout) {
  static_assert(ACAN_QUAD_EDGE == 64);
  static_assert(ACAN_BLOCKS_PER_MULTIPROCESSOR == kDesign64.blocks);
  static_assert(ACAN_QUAD_LEVELS * ACAN_QUAD_SUMS * 4 == kDesign64.local_bytes);
  return GemmOf(layout);
}
