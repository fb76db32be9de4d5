// cuBLAS, loaded at its first use, because a machine may have the driver without the library.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <string>

#include "acan/core/device.h"
#include "check.h"
#include "kernel_args.h"

namespace acan::cuda {

// Why cuBLAS cannot be loaded, with the linker's words; empty if it can. Any thread.
std::string CublasProblem();
// "13.0.2"; empty if cuBLAS cannot be loaded.
std::string CublasVersion();

// A cuBLAS handle on one stream. Belongs to the device's thread.
class Cublas {
 public:
  // `workspace` is all the memory that products may use. Throws std::runtime_error or OutOfMemory
  // with cuBLAS' words. REQUIRES: CublasProblem() is empty.
  Cublas(std::string device, cudaStream_t stream, FastMath math, void* workspace,
         std::uint64_t workspace_bytes);
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  void Run(const Product& product);

 private:
  std::string device_;
  FastMath math_;
  void* handle_ = nullptr;
};

}  // namespace acan::cuda
