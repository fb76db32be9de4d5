// RAII owners for CUDA's objects.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>

#include "acan/module/handle.h"
#include "check.h"

namespace acan::cuda {

using Stream = Handle<cudaStream_t, cudaStreamDestroy>;
using Event = Handle<cudaEvent_t, cudaEventDestroy>;
using DeviceBytes = Handle<void*, cudaFree>;
using PinnedBytes = Handle<void*, cudaFreeHost>;

// Both create objects of the thread's current device. Streams do not wait for the legacy default
// stream.
inline Stream NewStream(std::string_view device) {
  cudaStream_t stream = nullptr;
  Check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreate", device);
  return Stream(stream);
}
inline Event NewEvent(std::string_view device) {
  cudaEvent_t event = nullptr;
  Check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate", device);
  return Event(event);
}

}  // namespace acan::cuda
