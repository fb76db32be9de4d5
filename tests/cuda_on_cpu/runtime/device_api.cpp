// The runtime's functions for devices and their memory.
#include <cuda_profiler_api.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "api.h"
#include "kernel_registry.h"
#include "memory.h"

using cuda_on_cpu::Api;
using cuda_on_cpu::Gpu;
using cuda_on_cpu::Refuse;
using cuda_on_cpu::Return;
using cuda_on_cpu::State;
using cuda_on_cpu::TheState;

namespace {

const Gpu* GpuAt(int device) {
  const State& state = TheState();
  const bool there = device >= 0 && static_cast<std::size_t>(device) < state.gpu_count;
  return there ? &state.gpus[static_cast<std::size_t>(device)] : nullptr;
}

// Frees memory of a lost device, although releasing it returns an error.
void ForgetOfLost(void* memory, bool pinned) {
  const std::lock_guard lock(TheState().mutex);
  const Gpu* const gpu = GpuAt(cuda_on_cpu::current_device);
  if (memory != nullptr && gpu != nullptr && gpu->lost != cudaSuccess) {
    cuda_on_cpu::FreePiece(memory, pinned);
  }
}

}  // namespace

extern "C" {

cudaError_t cudaDriverGetVersion(int* version) {
  *version = TheState().gpu_count == 0 ? 0 : CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = static_cast<int>(TheState().gpu_count);
  return Return(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaSetDevice(int device) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  if (GpuAt(device) == nullptr) return Return(cudaErrorInvalidDevice);
  Gpu* const gpu = &state.gpus[static_cast<std::size_t>(device)];
  gpu->has_context = true;
  cuda_on_cpu::current_device = device;
  // A lost device may report that here, or only in the next call.
  return Return(gpu->lost != cudaSuccess && state.Draw(2) == 0 ? gpu->lost : cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  const std::lock_guard lock(TheState().mutex);
  const Gpu* const gpu = GpuAt(device);
  if (gpu == nullptr) return Return(cudaErrorInvalidDevice);
  const cuda_on_cpu::GpuModel& model = gpu->model;
  *properties = {};
  const std::string name = fmt::format("fake {} on the CPU, for tests only", model.name);
  name.copy(properties->name, sizeof(properties->name) - 1);
  properties->major = model.major;
  properties->minor = model.minor;
  properties->multiProcessorCount = model.multiprocessors;
  properties->maxThreadsPerMultiProcessor = model.threads;
  properties->totalGlobalMem = model.memory_bytes;
  return cudaSuccess;
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  const std::lock_guard lock(TheState().mutex);
  const Gpu* const gpu = GpuAt(cuda_on_cpu::current_device);
  if (gpu == nullptr) return Return(cudaErrorInvalidDevice);
  *total = gpu->model.memory_bytes;
  *free = gpu->model.memory_bytes - gpu->TakenBytes();
  return Return(gpu->lost);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  const std::lock_guard lock(TheState().mutex);
  const Gpu* const gpu = GpuAt(device);
  if (gpu == nullptr) return Return(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrComputeMode:
      *value = cudaComputeModeDefault;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = gpu->model.multiprocessors;
      return cudaSuccess;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = gpu->model.threads;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(gpu->model.block_shared_bytes);
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = static_cast<int>(gpu->model.shared_bytes);
      return cudaSuccess;
    default:
      return Return(Refuse(
          cudaErrorInvalidValue,
          fmt::format("the fake GPU does not know attribute {}", static_cast<int>(attribute))));
  }
}

// The local memory of a thread. The driver's own stack is not simulated.
cudaError_t cudaDeviceGetLimit(std::size_t* value, cudaLimit limit) {
  return Api("cudaDeviceGetLimit", [&] {
    if (limit != cudaLimitStackSize) return cudaErrorUnsupportedLimit;
    const Gpu& gpu = TheState().gpus[static_cast<std::size_t>(cuda_on_cpu::current_device)];
    *value = gpu.local_bytes_a_thread;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSetLimit(cudaLimit limit, std::size_t value) {
  return Api("cudaDeviceSetLimit", [&] {
    if (limit != cudaLimitStackSize) return cudaErrorUnsupportedLimit;
    return cuda_on_cpu::MakeRoomForLocal(cuda_on_cpu::current_device, value)
               ? cudaSuccess
               : cudaErrorMemoryAllocation;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  if (GpuAt(device) == nullptr) return Return(cudaErrorInvalidDevice);
  const std::string id = fmt::format("0000:{:02x}:00.0", device + 1);
  if (static_cast<std::size_t>(bytes) <= id.size()) return Return(cudaErrorInvalidValue);
  std::memcpy(text, id.c_str(), id.size() + 1);
  return cudaSuccess;
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* function) {
  return Api("cudaFuncGetAttributes", [&] {
    const cuda_on_cpu::KernelInfo* const kernel = cuda_on_cpu::FindKernel(function);
    if (kernel == nullptr) return cudaErrorInvalidDeviceFunction;
    if (!cuda_on_cpu::LoadKernel(cuda_on_cpu::current_device, function)) {
      return cudaErrorMemoryAllocation;
    }
    *attributes = {};
    attributes->maxThreadsPerBlock = static_cast<int>(kernel->most_threads);
    attributes->localSizeBytes = kernel->local_bytes;
    const cuda_on_cpu::GpuModel& model = GpuAt(cuda_on_cpu::current_device)->model;
    attributes->ptxVersion = attributes->binaryVersion = model.major * 10 + model.minor;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute attribute, int value) {
  return Api("cudaFuncSetAttribute", [&] {
    if (cuda_on_cpu::FindKernel(function) == nullptr) return cudaErrorInvalidDeviceFunction;
    if (!cuda_on_cpu::LoadKernel(cuda_on_cpu::current_device, function)) {
      return cudaErrorMemoryAllocation;
    }
    Gpu& gpu = TheState().gpus[static_cast<std::size_t>(cuda_on_cpu::current_device)];
    switch (attribute) {
      case cudaFuncAttributeMaxDynamicSharedMemorySize:
        if (value < 0 || static_cast<std::uint64_t>(value) > gpu.model.block_shared_bytes) {
          return Refuse(cudaErrorInvalidValue,
                        fmt::format("{} bytes of shared memory for a block", value));
        }
        gpu.dynamic_shared_bytes[function] = static_cast<std::uint64_t>(value);
        return cudaSuccess;
      case cudaFuncAttributePreferredSharedMemoryCarveout:  // a hint
        return value < -1 || value > 100 ? cudaErrorInvalidValue : cudaSuccess;
      default:
        return Refuse(cudaErrorInvalidValue, "an attribute of kernels that the fake GPU lacks");
    }
  });
}

// Only threads and dynamic shared memory limit the result, since the fake GPU has no registers.
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* function,
                                                          int threads, std::size_t shared_bytes) {
  return Api("cudaOccupancyMaxActiveBlocksPerMultiprocessor", [&] {
    if (cuda_on_cpu::FindKernel(function) == nullptr) return cudaErrorInvalidDeviceFunction;
    if (threads < 1) return cudaErrorInvalidValue;
    constexpr std::size_t kReserveBytes = 1024;  // of each block
    const cuda_on_cpu::GpuModel& model = GpuAt(cuda_on_cpu::current_device)->model;
    *blocks = std::min(model.threads / threads,
                       static_cast<int>(model.shared_bytes / (shared_bytes + kReserveBytes)));
    return cudaSuccess;
  });
}

// There is no profiler, but the calls must succeed.
cudaError_t cudaProfilerStart() {
  return Api("cudaProfilerStart", [] { return cudaSuccess; });
}
cudaError_t cudaProfilerStop() {
  return Api("cudaProfilerStop", [] { return cudaSuccess; });
}

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  return Api("cudaMalloc", [&] {
    *memory = nullptr;
    if (bytes == 0) return cudaSuccess;
    *memory = cuda_on_cpu::NewDevicePiece(cuda_on_cpu::current_device, bytes);
    return *memory == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

// The memory's device counts, not the thread's.
cudaError_t cudaFree(void* memory) {
  ForgetOfLost(memory, false);
  return Api("cudaFree", [&] {
    if (memory == nullptr) return cudaSuccess;
    const auto* const piece = cuda_on_cpu::PieceAt(reinterpret_cast<std::uintptr_t>(memory));
    if (TheState().options.free_waits && piece != nullptr && piece->owner >= 0) {
      cuda_on_cpu::DrainDevice(piece->owner);
    }
    return cuda_on_cpu::FreePiece(memory, false) ? cudaSuccess : cudaErrorInvalidValue;
  });
}

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned flags) {
  return Api("cudaHostAlloc", [&] {
    if ((flags & cudaHostAllocPortable) == 0) {
      return Refuse(cudaErrorInvalidValue, "cudaHostAlloc: pinned for one context only");
    }
    *memory = cuda_on_cpu::NewPinnedPiece(bytes);
    return cudaSuccess;
  });
}

cudaError_t cudaFreeHost(void* memory) {
  ForgetOfLost(memory, true);
  return Api("cudaFreeHost", [&] {
    if (memory == nullptr || cuda_on_cpu::FreePiece(memory, true)) return cudaSuccess;
    return cudaErrorInvalidValue;
  });
}

}  // extern "C"
