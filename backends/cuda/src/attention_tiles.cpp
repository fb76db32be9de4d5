#include "attention_tiles.h"

#include <algorithm>

#include "check.h"
#include "kernel_args.h"

namespace acan::cuda {
namespace {

constexpr std::uint64_t kLeaf = 64;
constexpr std::uint64_t kLanes = 16;

// What the kernels keep in shared memory: ForwardMemory and GradientMemory of kernels/.
std::uint64_t SharedBytes(Kernel kernel, std::uint64_t width) {
  const bool forward = kernel == Kernel::kAttention;
  const std::uint64_t rows = kLeaf * (width + 4);
  const std::uint64_t pairs = kLeaf * (kLeaf + 4);
  const std::uint64_t lanes = kLeaf * kLanes;
  const std::uint64_t blocks = width <= kLeaf ? 1 : 2;
  return 4 * (forward ? 3 * rows + pairs + lanes : 4 * rows + pairs + blocks * lanes + 3 * kLeaf);
}

}  // namespace

AttentionTiles::AttentionTiles(int ordinal, const std::string& name) {
  int bytes = 0;
  Check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal),
        "cudaDeviceGetAttribute", name);
  block_shared_bytes_ = static_cast<std::uint64_t>(bytes);
  const std::uint64_t most = SharedBytes(Kernel::kAttentionGradient, kMostAttentionWidth);
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
  const std::uint64_t bytes = SharedBytes(kernel, static_cast<std::uint64_t>(head_width));
  if (bytes > block_shared_bytes_) return std::nullopt;
  const int blocks = head_width <= static_cast<std::int64_t>(kLeaf) ? 1 : 2;
  return TileLaunch{forward ? AttentionTileKernel(blocks) : AttentionGradientTileKernel(blocks),
                    kAttentionThreads, bytes};
}

std::vector<const void*> AttentionTiles::Kernels() {
  return {AttentionTileKernel(1), AttentionTileKernel(2), AttentionGradientTileKernel(1),
          AttentionGradientTileKernel(2)};
}

}  // namespace acan::cuda
