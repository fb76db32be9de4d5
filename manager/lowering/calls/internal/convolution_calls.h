// The calls of convolutions: products with unfolded images, one group at a time. Depthwise
// convolutions have their own calls, with the same bits.
#pragma once

#include "segment_task.h"

namespace acan {

// The scalars of kUnfold and other kernels whose scalars begin with a window.
KernelScalars OfWindow(const model::Window& window);

// y[rows of the output, outputs] of the convolution, without bias.
void Convolve(SegmentTask& task, const model::Convolution& op, const View& x, const View& weight,
              const View& y);
void ConvolveInputGradient(SegmentTask& task, const model::Convolution& op, const View& dy,
                           const View& weight, const View& dx);
// `order` is the order of the rows of dy.
void ConvolveWeightGradient(SegmentTask& task, const model::Convolution& op, const RowOrder& order,
                            const View& dy, const View& x, const View& d_weight);

}  // namespace acan
