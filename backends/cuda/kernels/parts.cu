// Adds the parts of a product that was cut along k.
#include "kernel_args.h"
#include "prelude.cuh"

namespace acan::cuda {
namespace {

__global__ void __launch_bounds__(kPartsThreads) AddParts(const __grid_constant__ Parts p) {
  for (unsigned at = blockIdx.x * kPartsThreads + threadIdx.x; at < p.words;
       at += gridDim.x * kPartsThreads) {
    float nodes[kMaxParts];
    ACAN_UNROLL for (int i = 0; i < kMaxParts; ++i) {
      nodes[i] = i < p.count ? p.from[static_cast<acan_i64>(i) * p.words + at] : 0.0f;
    }
    // Left plus right, level by level; if the right one is missing, the left one passes through.
    ACAN_UNROLL for (int width = 1; width < kMaxParts; width *= 2) {
      ACAN_UNROLL for (int i = 0; i < kMaxParts; i += 2 * width) {
        if (i + width < p.count) nodes[i] = nodes[i] + nodes[i + width];
      }
    }
    const float sum = nodes[0];
    p.c[at / p.cols * p.c_stride + at % p.cols] = sum == sum ? sum : ACAN_NAN;
  }
}

}  // namespace

const void* AddPartsKernel() {
  return reinterpret_cast<const void*>(&AddParts);
}

}  // namespace acan::cuda
