// The work-items of GPUs for kernels over rows and columns.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "acan/core/device.h"
#include "acan/kernels/launch_check.h"
#include "acan/kernels/shared_columns.h"
#include "acan/kernels/sums/shared_words.h"

namespace acan::opencl {

// As Session::Run takes them.
struct WorkItems {
  std::pair<std::size_t, std::size_t> global, local;
};

// The number of parts of `step` that cover `value`.
constexpr std::int64_t Cut(std::int64_t value, std::int64_t step) {
  return (value + step - 1) / step;
}

// Work-items of a group, a power of two. Kernels whose groups add together have at least
// kLeastItems, which is also the usual number; longer rows and columns have more, if the device
// allows it.
constexpr std::size_t kLeastItems = 64;
constexpr std::size_t kMostItems = 256;

// Kernels over rows in which the threads of a row share nothing: any number of them may have a row.
constexpr bool MayShareOutColumns(Kernel kernel) {
  switch (kernel) {
    case Kernel::kRotary:
    case Kernel::kEmbedding:
    case Kernel::kPositions:
    case Kernel::kPositionsGradient:
    case Kernel::kDropout:
    case Kernel::kCrossEntropyGradient:
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

// Kernels over rows in which all threads of a row wait for each other ("by a row's threads" in the
// single source), so each row has a whole group.
constexpr bool HasSharedRows(Kernel kernel) {
  switch (kernel) {
    case Kernel::kSoftmaxCrossEntropy:
    case Kernel::kSquaredError:
    case Kernel::kNorm:
    case Kernel::kNormGradient:
    case Kernel::kClassMaxima:
    case Kernel::kClassSums:
    case Kernel::kRowSquares:
    case Kernel::kAttentionJoin:
    case Kernel::kGroupNorm:
    case Kernel::kGroupNormGradient:
      return true;
    default:
      return false;
  }
}

// Those in which each thread has a leaf, whose terms are in local memory.
constexpr bool HasChains(Kernel kernel) {
  return kernel == Kernel::kSoftmaxCrossEntropy || kernel == Kernel::kSquaredError;
}

// The local memory that the single source needs for a group of `items`.
constexpr std::size_t LocalBytes(Kernel kernel, std::size_t items) {
  constexpr std::size_t kWord = 4, kNone = 8;  // OpenCL passes no empty memory
  if (HasChains(kernel)) return ACAN_CHAIN_WORDS(items) * kWord;
  if (HasSharedRows(kernel)) return ACAN_ROW_WORDS(items) * kWord;
  return HasSharedColumns(kernel) ? ACAN_PLACE_WORDS(items) * kWord : kNone;
}

// The most work-items of a group for a kernel on a device that allows `most`, at least kLeastItems,
// and has so much local memory.
constexpr std::size_t MostItems(Kernel kernel, std::size_t most, std::uint64_t local_bytes) {
  const bool more = !HasChains(kernel) && (HasSharedRows(kernel) || HasSharedColumns(kernel));
  std::size_t items = std::min(more ? kMostItems : kLeastItems, std::bit_floor(most));
  while (items > kLeastItems && LocalBytes(kernel, items) > local_bytes) items /= 2;
  return items;
}

// A group with one row has its work-items along dimension 1, which is ACAN_ROW_THREAD in
// prelude.cl. Neighbours then read neighbouring columns. Otherwise each row has one work-item. That
// suits short rows, too, for which most items of a group would have no column, but not rows whose
// items add together.
//
// kEmbeddingGradient has a group for each word (words.cl). Words of a small table are in many rows
// each, so the columns of such a word are cut into pieces with a group each. With many words, there
// are enough groups, and each further one would search all rows again.
//
// `wanted`: for tests, the work-items of a row whose items add together.
inline WorkItems ItemsOfRows(Kernel kernel, const KernelRegion& region, std::size_t most,
                             std::optional<std::size_t> wanted = {}) {
  constexpr std::size_t kManyGroups = 2048;
  constexpr std::size_t kFewColumns = 32;
  constexpr std::size_t kLongRow = 1024;
  const auto rows = static_cast<std::size_t>(region.rows);
  const auto cols = static_cast<std::size_t>(region.cols);
  const std::size_t usual = std::min(most, kLeastItems);
  if (kernel == Kernel::kEmbeddingGradient) {
    const std::size_t pieces =
        std::min((cols + usual - 1) / usual, (kManyGroups + rows - 1) / rows);
    return {{rows, pieces * usual}, {1, usual}};
  }
  if (HasSharedRows(kernel)) {
    const std::size_t items = std::min(most, wanted.value_or(cols < kLongRow ? usual : most));
    return {{rows, items}, {1, items}};
  }
  if (MayShareOutColumns(kernel) && cols >= kFewColumns) return {{rows, usual}, {1, usual}};
  return {{rows, 1}, {usual, 1}};
}

// Columns are along dimension 0, so that neighbours read neighbouring words; the leaves that a
// group sums side by side are along dimension 1. Even if there are many leaves, a group has so many
// columns that it reads whole sectors of 32 bytes.
inline WorkItems ItemsOfColumns(Kernel kernel, const KernelRegion& region,
                                const KernelScalars& scalars, std::size_t most) {
  constexpr std::size_t kSector = 8;
  const auto cols = static_cast<std::size_t>(region.cols);
  if (!HasSharedColumns(kernel)) return {{cols, 1}, {std::min(most, kLeastItems), 1}};
  const auto leaves = static_cast<std::size_t>(LeavesOfColumns(kernel, region.rows, scalars));
  const std::size_t places = std::bit_ceil(std::min(leaves, most / kSector));
  const std::size_t columns = std::min(most / places, kLeastItems);
  return {{cols, places}, {columns, places}};
}

}  // namespace acan::opencl
