// Limits of a task, for code that makes tasks from models.
#pragma once

#include <cstdint>

namespace acan {

// The maximum number of rows, and of columns, of a matrix. Larger values of a model must be cut
// into several matrices.
inline constexpr std::int32_t kMaxMatrixAxis = 1 << 24;

}  // namespace acan
