#include "attention_tiles.h"

#include <algorithm>

#include "check.h"
#include "kernel_args.h"

namespace acan::cuda {
namespace {

constexpr std::int64_t kColumnBlock = 64;  // of a head, for which a kernel is compiled

std::size_t SharedBytes(Kernel kernel, std::int64_t width) {
  const int head_width = static_cast<int>(width);
  return kernel == Kernel::kAttention ? AttentionTileBytes(head_width)
                                      : AttentionGradientTileBytes(head_width);
}

}  // namespace

AttentionTiles::AttentionTiles(int ordinal, const std::string& name) {
  int bytes = 0;
  Check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal),
        "cudaDeviceGetAttribute", name);
  block_shared_bytes_ = static_cast<std::size_t>(bytes);
  const std::size_t most = SharedBytes(Kernel::kAttentionGradient, kMostAttentionWidth);
  for (const void* const kernel : Kernels()) {
    Check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(std::min(most, block_shared_bytes_))),
          "cudaFuncSetAttribute for shared memory", name);
    Check(cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                               cudaSharedmemCarveoutMaxShared),
          "cudaFuncSetAttribute for the carve-out", name);
  }
}

std::optional<TileLaunch> AttentionTiles::Find(Kernel kernel, const KernelScalars& scalars,
                                               std::int64_t head_width) const {
  const bool forward = kernel == Kernel::kAttention;
  if (!forward && kernel != Kernel::kAttentionGradient) return std::nullopt;
  if (head_width % 4 != 0 || head_width > kMostAttentionWidth) return std::nullopt;
  if (std::max(scalars.i[1], scalars.i[2]) > kMostAttentionRows) return std::nullopt;
  const std::size_t bytes = SharedBytes(kernel, head_width);
  if (bytes > block_shared_bytes_) return std::nullopt;
  const int blocks = head_width <= kColumnBlock ? 1 : 2;
  return TileLaunch{forward ? AttentionTileKernel(blocks) : AttentionGradientTileKernel(blocks),
                    kAttentionThreads, bytes};
}

std::vector<const void*> AttentionTiles::Kernels() {
  return {AttentionTileKernel(1), AttentionTileKernel(2), AttentionGradientTileKernel(1),
          AttentionGradientTileKernel(2)};
}

}  // namespace acan::cuda
