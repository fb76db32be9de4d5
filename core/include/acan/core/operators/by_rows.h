// Which kernels may run on some of their rows alone, and on rows that lie otherwise.
#pragma once

#include "acan/core/operators/kernels.h"

namespace acan {

// Kernels that go element by element, and whose result in a row depends only on the same row of the
// operands that have as many rows, and on all of those that have one or two; it does not depend on
// the number of the row or of the column.
bool IsByRows(Kernel kernel);

}  // namespace acan
