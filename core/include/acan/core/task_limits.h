// What a task may have at most, for those that make tasks of models.
#pragma once

#include <cstdint>

namespace acan {

// Rows, and columns, of a matrix. Larger values of a model must be cut into several matrices.
inline constexpr std::int32_t kMaxMatrixAxis = 1 << 24;

}  // namespace acan
