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
    // These are the errors for which CUDA's documentation says that the process is in an
    // inconsistent state and must end, and those which say that the device itself was lost.
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
  cudaGetLastError();  // otherwise the next call that reads the last error would get this one
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

bool HasEnded(cudaEvent_t event) {
  const cudaError_t error = cudaEventQuery(event);
  if (error != cudaSuccess) cudaGetLastError();
  return error != cudaErrorNotReady;
}

}  // namespace acan::cuda
