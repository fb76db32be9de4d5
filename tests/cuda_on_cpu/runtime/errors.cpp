// CUDA's errors: their names, their texts, and which of them lose the device.
#include <cuda_runtime_api.h>

#include <utility>

#include "api.h"

namespace cuda_on_cpu {
namespace {

struct ErrorWords {
  cudaError_t error;
  const char* name;
  const char* words;
};
#define ACAN_ERROR(error, words) \
  { error, #error, words }
constexpr ErrorWords kWords[] = {
    ACAN_ERROR(cudaSuccess, "no error"),
    ACAN_ERROR(cudaErrorInvalidValue, "invalid argument"),
    ACAN_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    ACAN_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    ACAN_ERROR(cudaErrorInvalidPitchValue, "invalid pitch argument"),
    ACAN_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    ACAN_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    ACAN_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    ACAN_ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    ACAN_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    ACAN_ERROR(cudaErrorDevicesUnavailable, "CUDA-capable device(s) is/are busy or unavailable"),
    ACAN_ERROR(cudaErrorNoKernelImageForDevice,
               "no kernel image is available for execution on the device"),
    ACAN_ERROR(cudaErrorNotReady, "device not ready"),
    ACAN_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    ACAN_ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    ACAN_ERROR(cudaErrorLaunchTimeout, "the launch timed out and was terminated"),
    ACAN_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    ACAN_ERROR(cudaErrorMisalignedAddress, "misaligned address"),
    ACAN_ERROR(cudaErrorIllegalInstruction, "an illegal instruction was encountered"),
    ACAN_ERROR(cudaErrorHardwareStackError, "hardware stack error"),
    ACAN_ERROR(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
    ACAN_ERROR(cudaErrorUnknown, "unknown error"),
};
#undef ACAN_ERROR

const ErrorWords* WordsOf(cudaError_t error) {
  for (const ErrorWords& each : kWords) {
    if (each.error == error) return &each;
  }
  return nullptr;
}

}  // namespace

bool IsSticky(cudaError_t error) {
  switch (error) {
    case cudaErrorDevicesUnavailable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorLaunchFailure:
    case cudaErrorMisalignedAddress:
    case cudaErrorIllegalInstruction:
    case cudaErrorHardwareStackError:
    case cudaErrorECCUncorrectable:
    case cudaErrorUnknown:
      return true;
    default:
      return false;
  }
}

}  // namespace cuda_on_cpu

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
  const auto* const words = cuda_on_cpu::WordsOf(error);
  return words == nullptr ? "an error that the fake GPU does not know" : words->name;
}

const char* cudaGetErrorString(cudaError_t error) {
  const auto* const words = cuda_on_cpu::WordsOf(error);
  return words == nullptr ? "no words" : words->words;
}

cudaError_t cudaGetLastError() {
  return std::exchange(cuda_on_cpu::last_error, cudaSuccess);
}

}  // extern "C"
