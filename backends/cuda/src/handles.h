// CUDA's objects with owners.
#pragma once

#include <cuda_runtime_api.h>

#include <string_view>
#include <utility>

#include "check.h"

namespace acan::cuda {

// Owns one object of CUDA's; nothing can be done about an error of its destruction.
template <typename T, cudaError_t (*kDestroy)(T)>
class Handle {
 public:
  Handle() = default;
  explicit Handle(T object) : object_(object) {}
  ~Handle() {
    if (object_ != nullptr) kDestroy(object_);
  }
  Handle(Handle&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  T get() const { return object_; }

 private:
  T object_ = nullptr;
};

using Stream = Handle<cudaStream_t, cudaStreamDestroy>;
using Event = Handle<cudaEvent_t, cudaEventDestroy>;
using DeviceBytes = Handle<void*, cudaFree>;
using PinnedBytes = Handle<void*, cudaFreeHost>;

// Both belong to the thread's current device. Streams do not wait for the legacy default stream.
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
