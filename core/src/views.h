// How views of a task's buffers lie to each other.
#pragma once

#include "acan/core/task.h"

namespace acan {

inline bool Overlap(const View& x, const View& y) {
  return x.buffer == y.buffer && x.row < y.row + y.rows && y.row < x.row + x.rows &&
         x.col < y.col + y.cols && y.col < x.col + x.cols;
}

inline bool SameView(const View& x, const View& y) {
  return x.buffer == y.buffer && x.row == y.row && x.col == y.col && x.rows == y.rows &&
         x.cols == y.cols;
}

}  // namespace acan
