// The planted bugs of the CUDA backend by name.
#pragma once

#include <array>
#include <cstdint>

#include "acan/cuda/planted.h"

namespace cuda_on_cpu {

struct PlantedName {
  acan::cuda::CudaBug bug;
  const char* name;
};

#define ACAN_BUG(name)                  \
  PlantedName {                         \
    acan::cuda::CudaBug::k##name, #name \
  }
inline constexpr std::array kPlantedNames = {
    ACAN_BUG(UploadIsNotAwaited),         ACAN_BUG(UploadEndIsNotRecorded),
    ACAN_BUG(GemmForgetsItsUploads),      ACAN_BUG(GroupsForgetTheirUploads),
    ACAN_BUG(CopyForgetsItsUpload),       ACAN_BUG(FetchForgetsItsUpload),
    ACAN_BUG(FetchDoesNotWait),           ACAN_BUG(DownloadForgetsKernels),
    ACAN_BUG(DownloadForgetsItsUpload),   ACAN_BUG(DownloadEndIsNotRecorded),
    ACAN_BUG(ReuseDoesNotWait),           ACAN_BUG(ReleaseIsNotRecorded),
    ACAN_BUG(BusyBlocksAreFreed),         ACAN_BUG(MarkIsOfUploads),
    ACAN_BUG(CopyInIsAnUpload),           ACAN_BUG(UnusedUploadIsComputed),
    ACAN_BUG(ReleaseIsRecordedElsewhere), ACAN_BUG(ProductsRunElsewhere),
    ACAN_BUG(AllocateDoesNotEnter),       ACAN_BUG(LaunchDoesNotEnter),
    ACAN_BUG(SlotIsNotAwaited),           ACAN_BUG(SlotIsNotRecorded),
    ACAN_BUG(StagingEndsAtOnce),          ACAN_BUG(RowsLoseTheirPitch),
    ACAN_BUG(PinnedPieceIsTooSmall),      ACAN_BUG(DownloadForgetsItsBuffer),
    ACAN_BUG(DroppedDownloadDoesNotWait), ACAN_BUG(BlockIsTooSmall),
    ACAN_BUG(CacheIgnoresTheLimit),       ACAN_BUG(BudgetIsNotGivenBack),
    ACAN_BUG(LastTilesAreLeftOut),        ACAN_BUG(TooFewThreads),
    ACAN_BUG(QuadsNeedNoAlignment),       ACAN_BUG(NoBarrierBeforeTheFirstStep),
    ACAN_BUG(NoBarrierBetweenSteps),      ACAN_BUG(HalfTheThreadsSkipABarrier),
    ACAN_BUG(OneCopyLessIsAwaited),       ACAN_BUG(LastPartIsLeftOut),
    ACAN_BUG(ChunksShareTheirSum),        ACAN_BUG(ShortGroupIsLeftOut),
    ACAN_BUG(BatchesShareTheirSum),
};
#undef ACAN_BUG
static_assert(kPlantedNames.size() + 1 ==
              static_cast<std::size_t>(acan::cuda::CudaBug::kCount));  // kNone is none

inline void Plant(acan::cuda::CudaBug bug) {
  tuplespace::planted_bug<acan::cuda::CudaBug> = bug;
}

}  // namespace cuda_on_cpu
