#include "memory/local_memory.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "check.h"

namespace acan::cuda {

std::uint64_t ReserveLocalMemory(const std::vector<const void*>& kernels, int ordinal,
                                 const std::string& name) {
  std::uint64_t most = 0;
  for (const void* const kernel : kernels) {
    cudaFuncAttributes attributes{};
    Check(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes", name);
    most = std::max<std::uint64_t>(most, attributes.localSizeBytes);
  }
  std::size_t now = 0;
  Check(cudaDeviceGetLimit(&now, cudaLimitStackSize), "cudaDeviceGetLimit", name);
  if (most > now) {
    Check(cudaDeviceSetLimit(cudaLimitStackSize, most), "cudaDeviceSetLimit for local memory",
          name);
  }
  int multiprocessors = 0;
  int threads = 0;  // of a multiprocessor
  Check(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, ordinal),
        "cudaDeviceGetAttribute", name);
  Check(cudaDeviceGetAttribute(&threads, cudaDevAttrMaxThreadsPerMultiProcessor, ordinal),
        "cudaDeviceGetAttribute", name);
  return most * static_cast<std::uint64_t>(multiprocessors) * static_cast<std::uint64_t>(threads);
}

}  // namespace acan::cuda
