// The bugs that tests/cuda_on_cpu can switch on in this backend.
#pragma once

#include <cstdint>

#include "tuplespace/planted_bug.h"

namespace acan::cuda {

using tuplespace::IsPlanted;

enum class CudaBug : std::uint8_t {
  kNone,
  // waits
  kUploadIsNotAwaited,
  kUploadEndIsNotRecorded,
  kGemmForgetsItsUploads,
  kGroupsForgetTheirUploads,
  kCopyForgetsItsUpload,
  kFetchForgetsItsUpload,
  kFetchDoesNotWait,
  kDownloadForgetsKernels,
  kDownloadForgetsItsUpload,
  kDownloadEndIsNotRecorded,
  kReuseDoesNotWait,
  kReleaseIsNotRecorded,
  kBusyBlocksAreFreed,
  // lanes and devices
  kMarkIsOfUploads,
  kCopyInIsAnUpload,
  kUnusedUploadIsComputed,
  kReleaseIsRecordedElsewhere,
  kProductsRunElsewhere,
  kAllocateDoesNotEnter,
  kLaunchDoesNotEnter,
  // staging and pinned memory
  kSlotIsNotAwaited,
  kSlotIsNotRecorded,
  kStagingEndsAtOnce,
  kRowsLoseTheirPitch,
  kPinnedPieceIsTooSmall,
  // lifetimes and memory
  kDownloadForgetsItsBuffer,
  kDroppedDownloadDoesNotWait,
  kBlockIsTooSmall,
  kCacheIgnoresTheLimit,
  kBudgetIsNotGivenBack,
  // launches and barriers
  kLastTilesAreLeftOut,
  kTooFewThreads,
  kQuadsNeedNoAlignment,
  kNoBarrierBeforeTheFirstStep,
  kNoBarrierBetweenSteps,
  kHalfTheThreadsSkipABarrier,
  // copies into shared memory, products that are cut along k, sums over groups of rows
  kOneCopyLessIsAwaited,
  kLastPartIsLeftOut,
  kChunksShareTheirSum,
  kShortGroupIsLeftOut,
  kBatchesShareTheirSum,
  kCount,
};

}  // namespace acan::cuda
