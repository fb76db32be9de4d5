// Defines CUDA's keywords and functions for the host's compiler. Included before an unchanged .cu
// file, whose memory accesses call the functions of access_hooks.cpp.
#pragma once

#include <cuda_runtime_api.h>

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "blocks.h"
#include "device_functions.h"
#include "kernel_registry.h"

#undef __global__
#undef __device__
#undef __shared__
#undef __forceinline__
#undef __launch_bounds__
#undef __grid_constant__
#define __global__ static
#define __device__
#define __shared__ static
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__

#define threadIdx (::cuda_on_cpu::ThreadIndex())
#define blockIdx (::cuda_on_cpu::BlockIndex())
#define blockDim (::cuda_on_cpu::BlockSize())
#define gridDim (::cuda_on_cpu::GridSize())
#define __syncthreads() ::cuda_on_cpu::Barrier()

#define ACAN_DYNAMIC_SHARED(name) float* const name = ::cuda_on_cpu::DynamicShared()

inline void __pipeline_memcpy_async(void* to, const void* from, std::size_t bytes) {
  ::cuda_on_cpu::CopyAsync(to, from, static_cast<unsigned>(bytes));
}
inline void __pipeline_commit() {
  ::cuda_on_cpu::CommitCopies();
}
inline void __pipeline_wait_prior(std::size_t prior) {
  ::cuda_on_cpu::AwaitCopies(static_cast<unsigned>(prior));
}

inline float __fmaf_rn(float a, float b, float c) {
  return std::fma(a, b, c);
}
inline float __fdiv_rn(float a, float b) {
  return a / b;
}
inline float __fsqrt_rn(float a) {
  return std::sqrt(a);
}
inline unsigned __float_as_uint(float x) {
  return std::bit_cast<unsigned>(x);
}
inline float __uint_as_float(unsigned x) {
  return std::bit_cast<float>(x);
}

namespace cuda_on_cpu {

// Like CUDA's float4. It reports its reads and writes as one access because the compiler may split
// them.
struct alignas(16) Float4 {
  float x, y, z, w;
  Float4() = default;
  Float4(const Float4& from) {
    TouchVector(&from, false);
    Take(from);
  }
  Float4& operator=(const Float4& from) {
    TouchVector(&from, false);
    TouchVector(this, true);
    Take(from);
    return *this;
  }

 private:
  // The caller has already reported this access.
  __attribute__((no_sanitize("thread"))) void Take(const Float4& from) {
    x = from.x;
    y = from.y;
    z = from.z;
    w = from.w;
  }
};

}  // namespace cuda_on_cpu
#define float4 ::cuda_on_cpu::Float4
