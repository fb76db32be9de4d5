// The largest products: 128 sums a thread, which take most of its registers.
#define ACAN_WARPS_M 4
#define ACAN_WARPS_N 2
#define ACAN_QUADS_M 4
#define ACAN_QUADS_N 2
#define ACAN_STAGES 3
#define ACAN_LOCAL_LEVELS 6
#define ACAN_BLOCKS_PER_MULTIPROCESSOR 1
#define ACAN_WHOLE_LEVEL
#define ACAN_LANES_OF_K 16
#include "gemm_ring.cuh"

const void* acan::cuda::Ring256(GemmLayout layout) {
  static_assert(IsOfDesign(kRingDesign256));
  return RingOf(layout);
}
