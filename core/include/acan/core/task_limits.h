// Limits of a task, for code that makes tasks from models.
#pragma once

#include <cstddef>
#include <cstdint>

namespace acan {

// The maximum number of rows, and of columns, of a matrix. Larger values of a model must be cut
// into several matrices.
inline constexpr std::int32_t kMaxMatrixAxis = 1 << 24;
// The maximum number of tuples that a task names to be fetched ahead (Task::ahead).
inline constexpr std::size_t kMaxAhead = 4096;

}  // namespace acan
