// What gpu_bench compares acan's device with: direct calls of cuBLAS and direct copies, on cuda:0.
// Errors of CUDA throw what Check throws.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>

#include "acan/core/operators/operators.h"
#include "acan/cuda/cuda_devices.h"
#include "check.h"
#include "cublas.h"
#include "gpu_sizes.h"
#include "gpu_ways.h"
#include "handles.h"

namespace acan::cuda {

inline PinnedBytes NewPinned(std::size_t bytes) {
  void* memory = nullptr;
  Check(cudaHostAlloc(&memory, bytes, cudaHostAllocPortable), "cudaHostAlloc", "cuda:0");
  return PinnedBytes(memory);
}

// Copies between pinned memory and the device, in a separate stream; returns when the copy is done.
inline void CopyBare(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  static const Stream kStream = NewStream("cuda:0");
  Check(cudaMemcpyAsync(to, from, bytes, kind, kStream.get()), "cudaMemcpyAsync", "cuda:0");
  Check(cudaStreamSynchronize(kStream.get()), "cudaStreamSynchronize", "cuda:0");
}

// Random values like those of acan's own operands. The power that a GPU draws, and so its clock,
// depends on the bits that change.
inline void FillRandomly(float* memory, std::int64_t words) {
  constexpr std::int64_t kDrawnWords = (1 << 20) + 7;  // not a power of two, so that rows differ
  static const PinnedBytes kDrawn = [] {
    PinnedBytes out = NewPinned(kDrawnWords * 4);
    std::mt19937 random(1);
    std::uniform_real_distribution<float> unit(-1.0f, 1.0f);
    auto* const values = static_cast<float*>(out.get());
    std::generate(values, values + kDrawnWords, [&] { return unit(random); });
    return out;
  }();
  for (std::int64_t begin = 0; begin < words; begin += kDrawnWords) {
    const auto bytes = static_cast<std::size_t>(std::min(kDrawnWords, words - begin)) * 4;
    CopyBare(memory + begin, kDrawn.get(), bytes, cudaMemcpyHostToDevice);
  }
}

// cuBLAS without acan's device.
class Bare {
 public:
  Bare(const Shape& s, FastMath math) {
    const auto allocate = [](std::int64_t words) {
      void* memory = nullptr;
      Check(cudaMalloc(&memory, static_cast<std::size_t>(words) * 4), "cudaMalloc", "cuda:0");
      FillRandomly(static_cast<float*>(memory), words);
      return DeviceBytes(memory);
    };
    a_ = allocate(s.m * s.k);
    b_ = allocate(s.n * s.k);
    c_ = allocate(s.m * s.n);
    workspace_ = allocate(8 << 20);  // words: 32 MiB
    stream_ = NewStream("cuda:0");
    cublas_.emplace("cuda:0", stream_.get(), math, workspace_.get(), 32u << 20);
    const bool a_k_first = SumIndexComesFirst(s.form, 0);
    const bool b_k_first = SumIndexComesFirst(s.form, 1);
    const auto operand = [&](const DeviceBytes& memory, bool k_first, std::int64_t rows) {
      return Operand{static_cast<const float*>(memory.get()), k_first ? 1 : s.k,
                     k_first ? rows : 1};
    };
    product_ = {operand(a_, a_k_first, s.m),
                operand(b_, b_k_first, s.n),
                static_cast<float*>(c_.get()),
                s.n,
                s.m,
                s.n,
                s.k,
                64};
  }
  Way As(const std::string& name) {
    return {
        name, [this] { cublas_->Run(product_); },
        [this] { Check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize", "cuda:0"); }};
  }

 private:
  DeviceBytes a_, b_, c_, workspace_;
  Stream stream_;
  std::optional<Cublas> cublas_;
  Product product_;
};

}  // namespace acan::cuda
