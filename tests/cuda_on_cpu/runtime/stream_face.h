// The interface of a fake GPU's stream for stand-ins of CUDA's libraries (cuBLAS). These are
// separate shared objects, so the interface has only virtual functions.
#pragma once

#include <cstddef>
#include <functional>

namespace cuda_on_cpu {

// Reports that work is about to use memory. Returns false if it may not, which is a finding.
class Toucher {
 public:
  virtual ~Toucher() = default;
  virtual bool Reads(const void* begin, std::size_t bytes) = 0;
  virtual bool Writes(void* begin, std::size_t bytes) = 0;
};

// A cudaStream_t points to one of these.
class StreamFace {
 public:
  virtual ~StreamFace() = default;
  virtual void Enqueue(const char* what, std::function<void(Toucher&)> work) = 0;
};

}  // namespace cuda_on_cpu
