// For large products: 64 sums a thread.
#define ACAN_WARPS_M 4
#define ACAN_WARPS_N 2
#define ACAN_QUADS_M 2
#define ACAN_QUADS_N 2
#define ACAN_QUAD_LEVELS 8
#define ACAN_BLOCKS_PER_MULTIPROCESSOR 2
#include "gemm.cuh"

const void* acan::cuda::Gemm128(GemmLayout layout) {
  static_assert(ACAN_QUAD_EDGE == 128);
  static_assert(ACAN_BLOCKS_PER_MULTIPROCESSOR == kDesign128.blocks);
  static_assert(ACAN_QUAD_LEVELS * ACAN_QUAD_SUMS * 4 == kDesign128.local_bytes);
  return GemmOf(layout);
}
