// Adds the parts of a product that was cut along k, or the sums over groups of rows.
#include "kernel_args.h"
#include "prelude.cuh"

namespace acan::cuda {
namespace {

__global__ void __launch_bounds__(kPartsThreads) AddParts(const __grid_constant__ Parts p) {
  const acan_i64 chunk = blockIdx.y;
  const int first = static_cast<int>(blockIdx.y) * kMaxParts;
  const int count = p.count - first;
  const float* const from = p.from + first * p.part_words;
  float* const c = p.c + chunk * p.chunk_words;
  for (unsigned at = blockIdx.x * kPartsThreads + threadIdx.x; at < p.words;
       at += gridDim.x * kPartsThreads) {
    float nodes[kMaxParts];
    ACAN_UNROLL for (int i = 0; i < kMaxParts; ++i) {
      nodes[i] = i < count ? from[i * p.part_words + at] : 0.0f;
    }
    // Left plus right, level by level; if the right one is missing, the left one passes through.
    ACAN_UNROLL for (int width = 1; width < kMaxParts; width *= 2) {
      ACAN_UNROLL for (int i = 0; i < kMaxParts; i += 2 * width) {
        if (i + width < count) nodes[i] = nodes[i] + nodes[i + width];
      }
    }
    // If this word is one of the first part, no other thread reads it.
    const float sum = nodes[0];
    c[at / p.cols * p.c_stride + at % p.cols] = sum == sum ? sum : ACAN_NAN;
  }
}

}  // namespace

const void* AddPartsKernel() {
  return reinterpret_cast<const void*>(&AddParts);
}

}  // namespace acan::cuda
