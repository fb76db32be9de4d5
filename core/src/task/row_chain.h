// Finds calls that can run part by part: all of them for some rows, then for the next rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include "acan/core/task.h"

namespace acan {

// Consecutive calls. Each element of their results depends only on the rows of the same samples,
// and on operands that none of the calls writes.
struct RowChain {
  std::size_t count = 0;     // 0: there is none
  std::size_t steps = 0;     // the number of kernels and convolutions
  std::int64_t samples = 0;  // the number of equal parts into which all their rows can be cut
  // What the calls read and write, except unfolded images and operands that every part needs whole.
  std::int64_t bytes = 0;
};

// The longest chain of element kernels and convolutions from calls[first] on, within a few hundred
// calls.
RowChain FindRowChain(const Task& task, std::size_t first);

// Restricts a call of a chain to `count` of its `samples`, starting at `first`.
void CutToSamples(Call& call, std::int64_t samples, std::int64_t first, std::int64_t count);

}  // namespace acan
