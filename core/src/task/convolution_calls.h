// Finds convolutions among the calls of a task.
#pragma once

#include <cstddef>
#include <cstdint>

#include "acan/core/task.h"

namespace acan {

enum class ConvolutionPass : std::uint8_t {
  kNone,
  kForward,        // an unfolding and its product: Device::Convolve
  kInputGradient,  // a product and its folding: Device::ConvolveBack
};

// Whether a call from `from` on, or an output, reads what `view` contains before that call.
bool IsReadLater(const Task& task, std::size_t from, const View& view);

// What calls[first] and the next call compute together, provided that nothing else reads the
// unfolded image.
ConvolutionPass FindConvolution(const Task& task, std::size_t first);

}  // namespace acan
