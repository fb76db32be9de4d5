// The texts of the kernels, which embed.cmake puts into the module at build time.
#pragma once

namespace acan::opencl {

extern const char kPreludeText[];
extern const char kPhiloxText[];
extern const char kMathText[];
extern const char kSoftFloatText[];
extern const char kConstantsText[];
extern const char kArgsText[];
extern const char kElementwiseText[];
extern const char kReductionsText[];
extern const char kSharedWordsText[];
extern const char kLanesText[];
extern const char kPlacesText[];
extern const char kRowGroupsText[];
extern const char kGlobalPoolingText[];
extern const char kNormsText[];
extern const char kGroupLanesText[];
extern const char kGroupNormText[];
extern const char kGroupNormGradientText[];
extern const char kTablesText[];
extern const char kClassesText[];
extern const char kDropoutText[];
extern const char kAttentionText[];
extern const char kAttentionGradientText[];
extern const char kNormalText[];
extern const char kImagesText[];
extern const char kDepthwiseText[];
extern const char kOperatorsText[];
extern const char kLaunchText[];
extern const char kWordsText[];
extern const char kGemmTileHeaderText[];
extern const char kGemmTileText[];
extern const char kGemmVectorText[];
extern const char kAttentionTileText[];
extern const char kAttentionForwardText[];
extern const char kAttentionBackwardText[];

}  // namespace acan::opencl
