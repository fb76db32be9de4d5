// The calls of convolutions: products with unfolded images, group by group; depthwise ones have
// calls of their own with the same bits.
#pragma once

#include "segment_task.h"

namespace acan {

// Of a kernel that takes a window first: kUnfold and others.
KernelScalars OfWindow(const model::Window& window);

// y[rows of the output, outputs], without bias.
void Convolve(SegmentTask& task, const model::Convolution& op, const View& x, const View& weight,
              const View& y);
void ConvolveInputGradient(SegmentTask& task, const model::Convolution& op, const View& dy,
                           const View& weight, const View& dx);
// `order` is that of the rows of dy.
void ConvolveWeightGradient(SegmentTask& task, const model::Convolution& op, const RowOrder& order,
                            const View& dy, const View& x, const View& d_weight);

}  // namespace acan
