// Finds calls that may run part by part: for some rows all of them, then for the next rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "acan/core/task.h"

namespace acan {

// Calls from `first` on. Each element of their results depends only on the rows of the same
// samples, and on operands that none of them writes.
struct RowChain {
  std::size_t count = 0;     // 0: there is none
  std::size_t steps = 0;     // kernels and convolutions
  std::int64_t samples = 0;  // equal parts into which all their rows may be cut
  // Of what they read and write, without unfolded images and what they have whole.
  std::int64_t bytes = 0;
};

// The longest chain of element kernels and convolutions from calls[first] on.
RowChain FindRowChain(const Task& task, std::size_t first);

// Makes a call of a chain one for `count` of its `samples`, from `first` on.
void CutToSamples(Call& call, std::int64_t samples, std::int64_t first, std::int64_t count);

}  // namespace acan
