// Finds a convolution's weight gradient among the calls of a task.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "acan/core/task.h"

namespace acan {

// Calls from `first` on that are one Device::ConvolveWeights.
struct WeightGradientCalls {
  std::size_t count = 0;
  std::int64_t group_rows = 0;
  View dy;
  View d_weight;
};

// An unfolding, the products of groups of its rows, and the additions of their aligned tree.
// Nothing, if calls[first] does not begin these, or if another call or an output reads one of the
// groups' sums. Whether something else reads the unfolded image is not looked at.
std::optional<WeightGradientCalls> FindWeightGradient(const Task& task, std::size_t first);

}  // namespace acan
