#include "attention_tiles.h"

#include <algorithm>
#include <limits>

#include "check.h"
#include "kernel_args.h"

namespace acan::cuda {
namespace {

constexpr std::int64_t kColumnBlock = 64;  // of a head; kernels are compiled for 1 or 2 of them
// With at least this many queries or keys, tall tiles leave enough blocks for a GPU.
constexpr std::int64_t kManyRows = 512;

std::int64_t Tiles(std::int64_t rows, std::int64_t height) {
  return (rows + height - 1) / height;
}

std::vector<AttentionTileKernel> AllKernels() {
  std::vector<AttentionTileKernel> all;
  for (const AttentionShape shape :
       {AttentionShape::kTall, AttentionShape::kLow, AttentionShape::kWide}) {
    all.push_back(AttentionForward(shape));
    all.push_back(AttentionKeyGradient(shape, true));
    all.push_back(AttentionQueryGradient(shape));
  }
  all.push_back(AttentionTerms(AttentionShape::kLow));
  all.push_back(AttentionTerms(AttentionShape::kWide));
  return all;
}

}  // namespace

AttentionTiles::AttentionTiles(int ordinal, const std::string& name) {
  int bytes = 0;
  Check(cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, ordinal),
        "cudaDeviceGetAttribute", name);
  block_shared_bytes_ = static_cast<std::size_t>(bytes);
  for (const AttentionTileKernel& each : AllKernels()) {
    const std::size_t most = std::min(each.shared_bytes, block_shared_bytes_);
    Check(cudaFuncSetAttribute(each.kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(most)),
          "cudaFuncSetAttribute for shared memory", name);
    Check(cudaFuncSetAttribute(each.kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                               cudaSharedmemCarveoutMaxShared),
          "cudaFuncSetAttribute for the carve-out", name);
  }
}

std::vector<TileLaunch> AttentionTiles::Find(Kernel kernel, std::int64_t rows,
                                             const KernelScalars& scalars,
                                             std::int64_t head_width) const {
  if (kernel != Kernel::kAttention && kernel != Kernel::kAttentionGradient) return {};
  if (head_width % 4 != 0 || head_width > kMaxAttentionWidth) return {};
  const std::int64_t most = std::max(scalars.i[1], scalars.i[2]);
  if (head_width > kColumnBlock) {
    return LaunchesOf(kernel, AttentionShape::kWide, rows, scalars);
  }
  std::vector<TileLaunch> launches;
  if (most >= kManyRows) launches = LaunchesOf(kernel, AttentionShape::kTall, rows, scalars);
  if (launches.empty()) launches = LaunchesOf(kernel, AttentionShape::kLow, rows, scalars);
  return launches;
}

std::vector<TileLaunch> AttentionTiles::LaunchesOf(Kernel kernel, AttentionShape shape,
                                                   std::int64_t rows,
                                                   const KernelScalars& scalars) const {
  const std::int64_t queries = scalars.i[1];
  const std::int64_t keys = scalars.i[2];
  const std::int64_t shared = scalars.i[4];
  if (std::max(queries, keys) > MostAttentionRows(shape)) return {};
  const std::int64_t height = AttentionTileRows(shape);
  const std::int64_t query_blocks = Tiles(queries, height) * rows;
  struct Part {
    AttentionTileKernel kernel;
    std::int64_t blocks;
  };
  std::vector<Part> parts;
  if (kernel == Kernel::kAttention) {
    parts = {{AttentionForward(shape), query_blocks}};
  } else {
    parts = {{AttentionTerms(shape), Tiles(rows * shared * queries, kAttentionTerms)},
             {AttentionKeyGradient(shape, scalars.f[1] > 0.0f), Tiles(keys, height) * rows},
             {AttentionQueryGradient(shape), query_blocks * shared}};
  }
  std::vector<TileLaunch> launches;
  for (const Part& part : parts) {
    if (part.kernel.shared_bytes > block_shared_bytes_) return {};
    if (part.blocks > std::numeric_limits<std::int32_t>::max()) return {};
    launches.push_back({part.kernel, {{static_cast<unsigned>(part.blocks)}, {kAttentionThreads}}});
  }
  return launches;
}

std::vector<const void*> AttentionTiles::Kernels() {
  std::vector<const void*> kernels;
  for (const AttentionTileKernel& each : AllKernels()) kernels.push_back(each.kernel);
  return kernels;
}

}  // namespace acan::cuda
