// The common part of every function of the runtime.
#pragma once

#include <fmt/format.h>

#include <string_view>

#include "state.h"

namespace cuda_on_cpu {

inline thread_local int current_device = 0;  // a new thread starts with cuda:0, as in CUDA
inline thread_local cudaError_t last_error = cudaSuccess;

inline cudaError_t Return(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

// Runs body() unless an injected fault or a lost device prevents it. Work that nobody waits for may
// run before it.
template <typename Body>
cudaError_t Api(std::string_view name, Body body) {
  State& state = TheState();
  const std::lock_guard lock(state.mutex);
  if (static_cast<std::size_t>(current_device) >= state.gpu_count) {
    return Return(cudaErrorNoDevice);
  }
  Gpu& gpu = state.gpus[static_cast<std::size_t>(current_device)];
  gpu.has_context = true;
  const cudaError_t injected = InjectedFor(name);
  if (injected != cudaSuccess && IsSticky(injected)) Lose(current_device, injected);
  if (gpu.lost != cudaSuccess) return Return(gpu.lost);
  if (injected != cudaSuccess) return Return(injected);
  RunSome();
  const cudaError_t error = gpu.lost != cudaSuccess ? gpu.lost : body();
  // Work for which body() waited may have failed.
  return Return(gpu.lost != cudaSuccess ? gpu.lost : error);
}

// Reports a call that CUDA refuses, and that the backend must not make.
inline cudaError_t Refuse(cudaError_t error, const std::string& why) {
  Find(why);
  return error;
}

}  // namespace cuda_on_cpu
