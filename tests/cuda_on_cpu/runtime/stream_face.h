// What a stand-in for a library of CUDA (cuBLAS) sees of a stream of a fake GPU. Such a library is
// a shared object of its own, so there are virtual functions only.
#pragma once

#include <cstddef>
#include <functional>

namespace cuda_on_cpu {

// Says of memory that work is about to use it; false: it may not (that is a finding).
class Toucher {
 public:
  virtual ~Toucher() = default;
  virtual bool Reads(const void* begin, std::size_t bytes) = 0;
  virtual bool Writes(void* begin, std::size_t bytes) = 0;
};

// A cudaStream_t is a pointer to one.
class StreamFace {
 public:
  virtual ~StreamFace() = default;
  virtual void Enqueue(const char* what, std::function<void(Toucher&)> work) = 0;
};

}  // namespace cuda_on_cpu
