// For small products, and for sums of more leaves than the other sizes allow.
#define ACAN_WARPS_M 2
#define ACAN_WARPS_N 1
#define ACAN_QUADS_M 1
#define ACAN_QUADS_N 1
#define ACAN_STAGES 4
#define ACAN_LOCAL_LEVELS 31
#define ACAN_BLOCKS_PER_MULTIPROCESSOR 8
#include "gemm_ring.cuh"

const void* acan::cuda::Ring32(GemmLayout layout) {
  static_assert(IsOfDesign(kRingDesign32));
  return RingOf(layout);
}
