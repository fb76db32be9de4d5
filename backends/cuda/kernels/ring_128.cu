// For large products: 64 sums a thread.
#define ACAN_WARPS_M 4
#define ACAN_WARPS_N 2
#define ACAN_QUADS_M 2
#define ACAN_QUADS_N 2
#define ACAN_STAGES 2
#define ACAN_LOCAL_LEVELS 7
#define ACAN_BLOCKS_PER_MULTIPROCESSOR 2
#include "gemm_ring.cuh"

const void* acan::cuda::Ring128(GemmLayout layout) {
  static_assert(IsOfDesign(kRingDesign128));
  return RingOf(layout);
}
