// Which kernels can run on a subset of their rows, and on rows in another order.
#pragma once

#include "acan/core/operators/kernels.h"

namespace acan {

// True for element kernels whose result in a row depends only on the same row of the operands that
// have as many rows, and on all of the operands that have one or two rows. The result does not
// depend on the number of the row or of the column.
bool IsByRows(Kernel kernel);

}  // namespace acan
