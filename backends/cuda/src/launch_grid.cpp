#include "launch_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <stdexcept>

#include "acan/core/operators/kernel_constants.h"
#include "acan/kernels/shared_columns.h"
#include "kernel_args.h"

namespace acan::cuda {

namespace {

// Blocks or threads. More blocks than CUDA launches could be few in 32 bits, and the others would
// leave results that have what the memory had before.
unsigned Size(std::int64_t value) {
  if (value > std::numeric_limits<std::int32_t>::max()) {
    throw std::invalid_argument(
        fmt::format("a launch of {} blocks; CUDA has at most 2^31 - 1", value));
  }
  return static_cast<unsigned>(value);
}

std::int64_t Pieces(std::int64_t value, std::int64_t step) {
  return (value - 1) / step + 1;
}

// Adjacent columns read adjacent words; 8 words are a sector of 32 bytes.
Grid GridOfColumns(Kernel kernel, const KernelRegion& region, const KernelScalars& scalars) {
  constexpr std::int64_t kMaxPlaces = kMaxColumnThreads / kLongColumns;
  const std::int64_t leaves = LeavesOfColumns(kernel, region.rows, scalars);
  const std::int64_t places =
      leaves >= kMaxPlaces
          ? kMaxPlaces
          : static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(leaves)));
  const std::int64_t columns =
      std::clamp<std::int64_t>(kColumnThreads / places, kLongColumns, kSumThreads);
  return {{Size(Pieces(region.cols, columns))}, {Size(columns), Size(places)}};
}

// The number of elements of a row that are contiguous in all operands.
std::int64_t RunOf(Kernel kernel, std::int64_t cols, const KernelScalars& scalars) {
  std::int64_t runs = 1;
  if (kernel == Kernel::kUnfold) runs = scalars.i[2];  // the lines of a window
  if (kernel == Kernel::kAttentionFinish) runs = scalars.i[0];
  return std::max<std::int64_t>(cols / runs, 1);
}

Grid GridOfRuns(Kernel kernel, const KernelRegion& region, const KernelScalars& scalars) {
  const int across = RunThreads(RunOf(kernel, region.cols, scalars));
  const int down = kElementThreads / across;
  return {{Size(Pieces(region.rows, down))}, {Size(across), Size(down)}};
}

// Words of a small table have many rows each. So their blocks have pieces of the columns, a few
// sectors wide, and several threads for each column. Each block searches all rows, which would take
// most of the time if there were many words.
Grid GridOfWords(const KernelRegion& region) {
  constexpr std::int64_t kManyWords = 1024;
  constexpr std::int64_t kManyBlocks = 2048;
  constexpr std::int64_t kColumns = 32;
  if (region.rows >= kManyWords) {
    return {{Size(region.rows)}, {Size(RowThreads(Kernel::kEmbeddingGradient, region.cols))}};
  }
  const std::int64_t pieces =
      std::min(Pieces(region.cols, kColumns), Pieces(kManyBlocks, region.rows));
  return {{Size(region.rows), Size(pieces)}, {Size(kColumns), Size(kMaxRowThreads / kColumns)}};
}

}  // namespace

Grid GridOf(Kernel kernel, const KernelRegion& region, const KernelScalars& scalars,
            std::int64_t head_width) {
  constexpr std::int64_t kMaxBlocks = 65535;  // down; the kernels loop over further rows
  if (region.space == KernelSpace::kElement) {
    const std::int64_t across = std::min<std::int64_t>(
        kElementThreads,
        static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(region.cols))));
    const std::int64_t down = kElementThreads / across;
    return {{Size(std::min<std::int64_t>(Pieces(region.cols, across), 1 << 30)),
             Size(std::min(Pieces(region.rows, down), kMaxBlocks))},
            {Size(across), Size(down)}};
  }
  if (region.space == KernelSpace::kTile) {
    const auto places = std::min<std::int64_t>(kMaxTilePlaces, Pieces(head_width, kTileColumns));
    return {{Size(region.cols), Size(std::min(region.rows, kMaxBlocks))},
            {ACAN_TILE_LANES, Size(places)}};
  }
  if (kernel == Kernel::kEmbeddingGradient) return GridOfWords(region);
  if (IsRowOfABlock(kernel)) return {{Size(region.rows)}, {Size(RowThreads(kernel, region.cols))}};
  if (HasSharedColumns(kernel)) return GridOfColumns(kernel, region, scalars);
  if (region.space == KernelSpace::kRow) return GridOfRuns(kernel, region, scalars);
  return {{Size(Pieces(region.cols, kSumThreads))}, {Size(kSumThreads)}};
}

}  // namespace acan::cuda
