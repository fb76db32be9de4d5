// The runtime's functions for streams, events, copies and launches.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "api.h"
#include "blocks.h"
#include "kernel_registry.h"
#include "memory.h"

namespace cuda_on_cpu {
namespace {

// Adds a finding and returns null if the stream does not exist (any more).
FakeStream* StreamOf(cudaStream_t handle, const char* call) {
  auto* const stream = static_cast<FakeStream*>(reinterpret_cast<StreamFace*>(handle));
  if (TheState().streams.contains(stream) && !stream->destroyed) return stream;
  Find(fmt::format("{}: a stream that is not there", call));
  return nullptr;
}

FakeEvent* EventOf(cudaEvent_t handle, const char* call) {
  auto* const event = reinterpret_cast<FakeEvent*>(handle);
  if (TheState().events.contains(event)) return event;
  Find(fmt::format("{}: an event that is not there", call));
  return nullptr;
}

// ---- copies ------------------------------------------------------------------------------------

struct CopyWork {
  std::byte* to = nullptr;
  const std::byte* from = nullptr;
  std::size_t to_pitch = 0, from_pitch = 0;
  std::size_t width = 0, height = 0;
  int to_owner = 0, from_owner = 0;

  static std::size_t Span(std::size_t pitch, std::size_t width, std::size_t height) {
    return pitch * (height - 1) + width;
  }
  bool Check(const char* call) const {
    return CheckRange(to, Span(to_pitch, width, height), to_owner, call) &&
           CheckRange(from, Span(from_pitch, width, height), from_owner, call);
  }
  void Run() const {
    for (std::size_t r = 0; r < height; ++r) {
      std::memmove(to + r * to_pitch, from + r * from_pitch, width);
    }
  }
};

cudaError_t PushCopy(const char* call, CopyWork work, cudaMemcpyKind kind, cudaStream_t handle) {
  FakeStream* const stream = StreamOf(handle, call);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (work.width == 0 || work.height == 0) return cudaSuccess;
  if (work.to_pitch < work.width || work.from_pitch < work.width) {
    return Refuse(cudaErrorInvalidPitchValue,
                  fmt::format("{}: rows of {} bytes at pitches of {} and {}", call, work.width,
                              work.to_pitch, work.from_pitch));
  }
  switch (kind) {
    case cudaMemcpyHostToDevice:
      work.from_owner = kPinned;
      work.to_owner = stream->device();
      break;
    case cudaMemcpyDeviceToHost:
      work.from_owner = stream->device();
      work.to_owner = kPinned;
      break;
    case cudaMemcpyDeviceToDevice:
      work.from_owner = work.to_owner = stream->device();
      break;
    default:
      return Refuse(cudaErrorInvalidMemcpyDirection, fmt::format("{}: no direction", call));
  }
  // Unpinned host memory is a finding, too, because it would make the call wait.
  if (!work.Check(call)) return cudaErrorInvalidValue;
  const int device = stream->device();
  Push(*stream, {call,
                 [=] {
                   if (work.Check(call)) {
                     work.Run();
                   } else {
                     Lose(device, cudaErrorIllegalAddress);
                   }
                 },
                 nullptr, nullptr});
  return cudaSuccess;
}

// ---- launches ----------------------------------------------------------------------------------

bool FitsGrid(const KernelInfo& kernel, dim3 grid, dim3 block) {
  const auto threads = std::uint64_t{block.x} * block.y * block.z;
  return threads > 0 && threads <= kernel.most_threads && block.z <= 64 && grid.x > 0 &&
         grid.y > 0 && grid.z > 0 && grid.x <= 0x7fffffffu && grid.y <= 65535 && grid.z <= 65535;
}

// To use more than every GPU provides, a kernel must have requested it.
bool FitsSharedMemory(const void* function, std::size_t bytes) {
  constexpr std::size_t kForAll = 48 << 10;
  const auto& asked =
      TheState().gpus[static_cast<std::size_t>(current_device)].dynamic_shared_bytes;
  const auto found = asked.find(function);
  return bytes <= (found == asked.end() ? kForAll : std::max(kForAll, found->second));
}

cudaError_t PushLaunch(const void* function, dim3 grid, dim3 block, void** parameters,
                       std::size_t shared_bytes, FakeStream& stream) {
  const KernelInfo* const kernel = FindKernel(function);
  if (kernel == nullptr) return Refuse(cudaErrorInvalidDeviceFunction, "launch of no kernel");
  if (stream.device() != current_device) {
    return Refuse(cudaErrorInvalidResourceHandle,
                  fmt::format("{} is launched into a stream of cuda:{}, but the thread's device "
                              "is cuda:{}",
                              kernel->name, stream.device(), current_device));
  }
  if (!FitsGrid(*kernel, grid, block)) {
    return Refuse(cudaErrorInvalidConfiguration,
                  fmt::format("{} with {} x {} blocks of {} x {} threads", kernel->name, grid.x,
                              grid.y, block.x, block.y));
  }
  if (!FitsSharedMemory(function, shared_bytes)) {
    return Refuse(cudaErrorInvalidValue,
                  fmt::format("{} with {} bytes of shared memory", kernel->name, shared_bytes));
  }
  if (!LoadKernel(current_device, function) ||
      !MakeRoomForLocal(current_device, kernel->local_bytes)) {
    return cudaErrorMemoryAllocation;
  }
  ++TheState().gpus[static_cast<std::size_t>(current_device)].launches;
  auto launch = std::make_shared<Launch>();
  const Parameters copies = kernel->copy(parameters);
  *launch = {kernel,         grid, block, copies, shared_bytes, {copies.copies, &DeleteCopies},
             stream.device()};
  Push(stream, {kernel->name, [launch] { RunGrid(*launch); }, nullptr, nullptr});
  return cudaSuccess;
}

}  // namespace
}  // namespace cuda_on_cpu

using cuda_on_cpu::Api;
using cuda_on_cpu::EventOf;
using cuda_on_cpu::FakeEvent;
using cuda_on_cpu::FakeStream;
using cuda_on_cpu::Marker;
using cuda_on_cpu::Push;
using cuda_on_cpu::PushCopy;
using cuda_on_cpu::Refuse;
using cuda_on_cpu::RunUntil;
using cuda_on_cpu::State;
using cuda_on_cpu::StreamOf;
using cuda_on_cpu::TheState;

extern "C" {

// ---- streams -----------------------------------------------------------------------------------

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* out, unsigned flags) {
  return Api("cudaStreamCreateWithFlags", [&] {
    if (flags != cudaStreamNonBlocking) {
      return Refuse(cudaErrorInvalidValue, "a stream that waits for the legacy default stream");
    }
    State& state = TheState();
    auto* const stream = new FakeStream(cuda_on_cpu::current_device, state.streams_made++);
    state.streams.insert(stream);
    *out = reinterpret_cast<cudaStream_t>(static_cast<cuda_on_cpu::StreamFace*>(stream));
    return cudaSuccess;
  });
}

// Returns at once; the stream's remaining work still runs.
cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return Api("cudaStreamDestroy", [&] {
    FakeStream* const stream = StreamOf(handle, "cudaStreamDestroy");
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    stream->destroyed = true;
    if (stream->operations.empty()) {
      TheState().streams.erase(stream);
      delete stream;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return Api("cudaStreamSynchronize", [&] {
    FakeStream* const stream = StreamOf(handle, "cudaStreamSynchronize");
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    Drain(*stream);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return Api("cudaDeviceSynchronize", [&] {
    cuda_on_cpu::DrainDevice(cuda_on_cpu::current_device);
    return cudaSuccess;
  });
}

// ---- events ------------------------------------------------------------------------------------

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* out, unsigned flags) {
  return Api("cudaEventCreateWithFlags", [&] {
    if ((flags & cudaEventDisableTiming) == 0) {
      return Refuse(cudaErrorInvalidValue, "an event that takes the time: slow");
    }
    auto* const event = new FakeEvent{cuda_on_cpu::current_device, nullptr};
    TheState().events.insert(event);
    *out = reinterpret_cast<cudaEvent_t>(event);
    return cudaSuccess;
  });
}

cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return Api("cudaEventDestroy", [&] {
    FakeEvent* const event = EventOf(handle, "cudaEventDestroy");
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    TheState().events.erase(event);
    delete event;
    return cudaSuccess;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream_handle) {
  return Api("cudaEventRecord", [&] {
    FakeEvent* const event = EventOf(handle, "cudaEventRecord");
    FakeStream* const stream = StreamOf(stream_handle, "cudaEventRecord");
    if (event == nullptr || stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (event->device != stream->device()) {
      return Refuse(cudaErrorInvalidResourceHandle,
                    fmt::format("an event of cuda:{} is recorded in a stream of cuda:{}",
                                event->device, stream->device()));
    }
    event->latest = std::make_shared<Marker>();
    Push(*stream, {"cudaEventRecord", nullptr, nullptr, event->latest});
    return cudaSuccess;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return Api("cudaEventQuery", [&] {
    FakeEvent* const event = EventOf(handle, "cudaEventQuery");
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    return !event->latest || event->latest->done ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return Api("cudaEventSynchronize", [&] {
    FakeEvent* const event = EventOf(handle, "cudaEventSynchronize");
    if (event == nullptr) return cudaErrorInvalidResourceHandle;
    RunUntil(event->latest);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t handle, unsigned) {
  return Api("cudaStreamWaitEvent", [&] {
    FakeEvent* const event = EventOf(handle, "cudaStreamWaitEvent");
    FakeStream* const stream = StreamOf(stream_handle, "cudaStreamWaitEvent");
    if (event == nullptr || stream == nullptr) return cudaErrorInvalidResourceHandle;
    // Without a record there is nothing to wait for.
    if (event->latest) Push(*stream, {"cudaStreamWaitEvent", nullptr, event->latest, nullptr});
    return cudaSuccess;
  });
}

// ---- copies and launches -----------------------------------------------------------------------

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return Api("cudaMemcpyAsync", [&] {
    return PushCopy(
        "cudaMemcpyAsync",
        {static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes, bytes, bytes, 1},
        kind, stream);
  });
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  return Api("cudaMemcpy2DAsync", [&] {
    return PushCopy("cudaMemcpy2DAsync",
                    {static_cast<std::byte*>(to), static_cast<const std::byte*>(from), to_pitch,
                     from_pitch, width, height},
                    kind, stream);
  });
}

cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** parameters,
                             std::size_t shared_bytes, cudaStream_t handle) {
  return Api("cudaLaunchKernel", [&] {
    FakeStream* const stream = StreamOf(handle, "cudaLaunchKernel");
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    return cuda_on_cpu::PushLaunch(function, grid, block, parameters, shared_bytes, *stream);
  });
}

}  // extern "C"
