// Compares views of a task's buffers, and finds the operator row of a call.
#pragma once

#include "acan/core/operators/operators.h"
#include "acan/core/task.h"

namespace acan {

// The row of operators.inc that describes the call.
inline const OperatorRow& RowOfCall(const Call& call) {
  return call.gemm ? RowOf(call.form) : RowOf(call.kernel);
}

inline bool Overlap(const View& x, const View& y) {
  return x.buffer == y.buffer && x.row < y.row + y.rows && y.row < x.row + x.rows &&
         x.col < y.col + y.cols && y.col < x.col + x.cols;
}

}  // namespace acan
