// CUDA's errors as acan's exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace acan::cuda {

enum class Fault : std::uint8_t {
  kNone,
  kMemory,  // too little of it; the device goes on
  kLost,    // the context is gone: every later call fails with the same error
  kOther,
};
Fault FaultOf(cudaError_t error);

// "cudaMalloc on cuda:0: cudaErrorMemoryAllocation (out of memory)".
std::string ErrorText(cudaError_t error, std::string_view call, std::string_view device);

// Throws what `error` means (see cuda_devices.h), if it is one.
void Check(cudaError_t error, std::string_view call, std::string_view device);

}  // namespace acan::cuda
