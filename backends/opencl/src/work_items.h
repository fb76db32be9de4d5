// The work-items of GPUs for kernels over rows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>

#include "acan/core/device.h"
#include "acan/kernels/launch_check.h"

namespace acan::opencl {

// As Session::Run takes them.
struct WorkItems {
  std::pair<std::size_t, std::size_t> global, local;
};

// Kernels over rows in which the threads of a row share nothing: their loops begin at
// ACAN_ROW_THREAD in the single source also where rows are not shared.
constexpr bool MayShareOutColumns(Kernel kernel) {
  switch (kernel) {
    case Kernel::kRotary:
    case Kernel::kEmbedding:
    case Kernel::kPositions:
    case Kernel::kPositionsGradient:
    case Kernel::kAttentionFinish:
    case Kernel::kUnfold:
    case Kernel::kFold:
    case Kernel::kMaxPooling:
    case Kernel::kMaxPoolingGradient:
    case Kernel::kAveragePooling:
    case Kernel::kAveragePoolingGradient:
      return true;
    default:
      return false;
  }
}

// A group with one row has its work-items along dimension 1, which is ACAN_ROW_THREAD in
// prelude.cl. Neighbours then read neighbouring columns. Otherwise each row has one work-item. That
// suits short rows, too, for which most items of a group would have no column.
//
// kEmbeddingGradient has a group for each word (words.cl). Words of a small table are in many rows
// each, so the columns of such a word are cut into pieces with a group each. With many words, there
// are enough groups, and each further one would search all rows again.
inline WorkItems ItemsOfRows(Kernel kernel, const KernelRegion& region, std::size_t group) {
  constexpr std::size_t kManyGroups = 2048;
  constexpr std::size_t kFewColumns = 32;
  const auto rows = static_cast<std::size_t>(region.rows);
  const auto cols = static_cast<std::size_t>(region.cols);
  if (kernel == Kernel::kEmbeddingGradient) {
    const std::size_t pieces =
        std::min((cols + group - 1) / group, (kManyGroups + rows - 1) / rows);
    return {{rows, pieces * group}, {1, group}};
  }
  if (MayShareOutColumns(kernel) && cols >= kFewColumns) return {{rows, group}, {1, group}};
  return {{rows, 1}, {group, 1}};
}

}  // namespace acan::opencl
