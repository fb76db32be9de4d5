// For products that have too few large tiles for all multiprocessors.
#define ACAN_WARPS_M 2
#define ACAN_WARPS_N 2
#define ACAN_QUADS_M 2
#define ACAN_QUADS_N 1
#define ACAN_STAGES 3
#define ACAN_LOCAL_LEVELS 7
#define ACAN_BLOCKS_PER_MULTIPROCESSOR 4
#define ACAN_LANES_OF_K 16
#include "gemm_ring.cuh"

const void* acan::cuda::Ring64(GemmLayout layout) {
  static_assert(IsOfDesign(kRingDesign64));
  return RingOf(layout);
}
