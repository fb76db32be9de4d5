// CUDA's errors as acan's exceptions.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace acan::cuda {

enum class Fault : std::uint8_t {
  kNone,
  kMemory,  // too little memory; the device continues to work
  kLost,    // the context is lost: every later call fails with the same error
  kOther,
};
Fault FaultOf(cudaError_t error);

// "cudaMalloc on cuda:0: cudaErrorMemoryAllocation (out of memory)".
std::string ErrorText(cudaError_t error, std::string_view call, std::string_view device);

// If `error` is an error, throws the exception that it stands for (see cuda_devices.h).
void Check(cudaError_t error, std::string_view call, std::string_view device);

// Whether the work before the event's latest record has ended, or failed: the next call that waits
// for it reports that. Does not leave "not ready" behind as the thread's last error.
bool HasEnded(cudaEvent_t event);

}  // namespace acan::cuda
