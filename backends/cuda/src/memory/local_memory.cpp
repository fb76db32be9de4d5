#include "memory/local_memory.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "check.h"

namespace acan::cuda {

std::uint64_t MostLocalBytes(const std::vector<const void*>& kernels, const std::string& name) {
  std::uint64_t most = 0;
  for (const void* const kernel : kernels) {
    cudaFuncAttributes attributes{};
    Check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes", name);
    most = std::max<std::uint64_t>(most, attributes.localSizeBytes);
  }
  return most;
}

std::uint64_t ReserveLocalMemory(std::uint64_t bytes_of_a_thread, int ordinal,
                                 const std::string& name) {
  std::size_t now = 0;
  Check(cudaDeviceGetLimit(&now, cudaLimitStackSize), "cudaDeviceGetLimit", name);
  if (bytes_of_a_thread > now) {
    Check(cudaDeviceSetLimit(cudaLimitStackSize, bytes_of_a_thread),
          "cudaDeviceSetLimit for local memory", name);
  }
  int multiprocessors = 0;
  int threads = 0;  // of a multiprocessor
  Check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, ordinal),
        "cudaDeviceGetAttribute", name);
  Check(cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, ordinal),
        "cudaDeviceGetAttribute", name);
  return bytes_of_a_thread * static_cast<std::uint64_t>(multiprocessors) *
         static_cast<std::uint64_t>(threads);
}

}  // namespace acan::cuda
