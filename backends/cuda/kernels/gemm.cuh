// Exact products with tiles of one size, which the including file chooses: see gemm_quads.cuh.
#include "kernel_args.h"
#include "prelude.cuh"

#include "gemm_quads.cuh"

namespace acan::cuda {
namespace {

template <bool kVector, bool kAKFirst, bool kBKFirst>
__global__ void __launch_bounds__(ACAN_QUAD_THREADS, ACAN_BLOCKS_PER_MULTIPROCESSOR)
    GemmKernel(const __grid_constant__ Product p, unsigned tiles_across) {
  __shared__ __attribute__((aligned(16))) float tiles[ACAN_QUAD_WORDS];
  const acan_quad_operand a = {p.a.data, p.a.row_stride, p.a.k_stride, p.m};
  const acan_quad_operand b = {p.b.data, p.b.row_stride, p.b.k_stride, p.n};
  const bool a_k_first = kVector ? kAKFirst : p.a.k_stride != 1;
  const bool b_k_first = kVector ? kBKFirst : p.b.k_stride != 1;
  acan_gemm_quads(&a, &b, a_k_first, b_k_first, kVector, p.c, p.c_stride, p.k,
                  static_cast<int>(p.block), blockIdx.x / tiles_across, blockIdx.x % tiles_across,
                  static_cast<int>(threadIdx.x), tiles);
}

const void* GemmOf(GemmLayout layout) {
  switch (layout) {
    case GemmLayout::kRowRow:
      return reinterpret_cast<const void*>(&GemmKernel<true, false, false>);
    case GemmLayout::kRowK:
      return reinterpret_cast<const void*>(&GemmKernel<true, false, true>);
    case GemmLayout::kKK:
      return reinterpret_cast<const void*>(&GemmKernel<true, true, true>);
    case GemmLayout::kAny:
      break;
  }
  return reinterpret_cast<const void*>(&GemmKernel<false, false, false>);
}

}  // namespace
}  // namespace acan::cuda
