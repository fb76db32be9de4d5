#include "launch_grid.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "acan/core/operators/kernel_constants.h"
#include "kernel_args.h"

namespace acan::cuda {

Grid GridOf(Kernel kernel, const KernelRegion& region) {
  constexpr std::int64_t kMostBlocks = 65535;  // down; the kernels go round for more rows
  const auto cut = [](std::int64_t value, std::int64_t step) { return (value + step - 1) / step; };
  const auto size = [](std::int64_t value) { return static_cast<unsigned>(value); };
  if (region.space == KernelSpace::kElement) {
    const std::int64_t across = std::min<std::int64_t>(
        kElementThreads,
        static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(region.cols))));
    const std::int64_t down = kElementThreads / across;
    return {{size(std::min<std::int64_t>(cut(region.cols, across), 1 << 30)),
             size(std::min(cut(region.rows, down), kMostBlocks))},
            {size(across), size(down)}};
  }
  if (region.space == KernelSpace::kTile) {
    return {{size(region.cols), size(std::min(region.rows, kMostBlocks))}, {ACAN_TILE_LANES}};
  }
  if (IsRowOfABlock(kernel)) return {{size(region.rows)}, {size(RowThreads(kernel, region.cols))}};
  const std::int64_t sums = region.space == KernelSpace::kRow ? region.rows : region.cols;
  return {{size(cut(sums, kSumThreads))}, {size(kSumThreads)}};
}

}  // namespace acan::cuda
