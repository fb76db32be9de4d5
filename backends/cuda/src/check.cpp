#include "check.h"

#include <fmt/format.h>

#include <stdexcept>

#include "acan/core/device.h"

namespace acan::cuda {

Fault FaultOf(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return Fault::kNone;
    case cudaErrorMemoryAllocation:
      return Fault::kMemory;
    // What CUDA's documentation calls an inconsistent state in which the process must end, and what
    // says that the device itself went away.
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchFailure:
    case cudaErrorLaunchTimeout:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorAssert:
    case cudaErrorECCUncorrectable:
    case cudaErrorNvlinkUncorrectable:
    case cudaErrorContextIsDestroyed:
    case cudaErrorDeviceUninitialized:
    case cudaErrorDevicesUnavailable:
    case cudaErrorNoDevice:
    case cudaErrorSystemNotReady:
    case cudaErrorMpsConnectionFailed:
    case cudaErrorMpsRpcFailure:
    case cudaErrorMpsServerNotReady:
    case cudaErrorMpsClientTerminated:
    case cudaErrorExternalDevice:
#if CUDART_VERSION >= 12080
    case cudaErrorContained:
    case cudaErrorTensorMemoryLeak:
#endif
    case cudaErrorCudartUnloading:
    case cudaErrorUnknown:
      return Fault::kLost;
    default:
      return Fault::kOther;
  }
}

std::string ErrorText(cudaError_t error, std::string_view call, std::string_view device) {
  return fmt::format("{} on {}: {} ({})", call, device, cudaGetErrorName(error),
                     cudaGetErrorString(error));
}

void Check(cudaError_t error, std::string_view call, std::string_view device) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // else the next call that asks for it would hear of this one again
  const std::string text = ErrorText(error, call, device);
  switch (FaultOf(error)) {
    case Fault::kMemory:
      throw OutOfMemory(text);
    case Fault::kLost:
      throw DeviceLost(text);
    case Fault::kNone:
    case Fault::kOther:
      throw std::runtime_error(text);
  }
}

}  // namespace acan::cuda
