// Large products where shared memory has room for the tree: 128 sums a thread, which need fewer
// reads of factors, in blocks of 128 threads, of which two share a multiprocessor: while one is
// busy with its tree, the other one multiplies.
#define ACAN_WARPS_M 2
#define ACAN_WARPS_N 2
#define ACAN_QUADS_M 4
#define ACAN_QUADS_N 2
#define ACAN_STAGES 2
#define ACAN_LOCAL_LEVELS 6
#define ACAN_BLOCKS_PER_MULTIPROCESSOR 2
#define ACAN_WHOLE_LEVEL
#include "gemm_ring.cuh"

const void* acan::cuda::Ring128Wide(GemmLayout layout) {
  static_assert(IsOfDesign(kRingDesign128Wide));
  return RingOf(layout);
}
