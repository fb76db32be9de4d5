// The kernels that sum down columns with several threads for each column on GPUs, as the single
// source says with ACAN_COLUMN_IS_SHARED, and how many threads can have work.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "acan/core/operators/kernels.h"

namespace acan {

constexpr bool HasSharedColumns(Kernel kernel) {
  switch (kernel) {
    case Kernel::kColumnSums:
    case Kernel::kColumnDots:
    case Kernel::kColumnSquares:
    case Kernel::kColumnNormSums:
    case Kernel::kNormScaleGradient:
    case Kernel::kGroupNormScaleGradient:
    case Kernel::kDepthwiseWeightGradient:
      return true;
    default:
      return false;
  }
}

// Leaves of the tree over the rows: as many as acan_places_of counts, or fewer by those that the
// last group lacks. REQUIRES: HasSharedColumns(kernel), and `scalars` as CheckLaunch wants them.
constexpr std::int64_t LeavesOfColumns(Kernel kernel, std::int64_t rows,
                                       const KernelScalars& scalars) {
  const auto pieces = [](std::int64_t value, std::int64_t step) { return (value - 1) / step + 1; };
  const std::size_t at = kernel == Kernel::kDepthwiseWeightGradient ? 8 : 0;
  const std::int64_t block = scalars.i[at];
  const std::int64_t group = kernel == Kernel::kColumnSums ? block : scalars.i[at + 1];
  const auto of_a_group = std::bit_ceil(static_cast<std::uint64_t>(pieces(group, block)));
  return pieces(rows, group) * static_cast<std::int64_t>(of_a_group);
}

}  // namespace acan
