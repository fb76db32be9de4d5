// What every backend checks before it runs anything, from the table of calls (operators.h). All
// throw std::invalid_argument that names the operation, the operand, what it is and what it must
// be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "acan/core/device.h"
#include "acan/core/operators/operators.h"

namespace acan {

struct KernelRegion {
  KernelSpace space;
  std::int64_t rows;  // of the iteration space's matrix
  std::int64_t cols;
};

// Checks presence, shape and bounds of every operand, and the scalars that would make a kernel run
// astray (activation, block). Returns what to iterate over.
KernelRegion CheckLaunch(Kernel kernel, const KernelArgs& args);

// Whether operand `index` of `kernel` is written; of those that it does not have none is.
inline bool IsWritten(Kernel kernel, std::size_t index) {
  const OperatorRow& row = RowOf(kernel);
  return index < row.operands.size() && row.operands[index].writes();
}

struct GemmShape {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
  bool a_k_first;  // a is [k, m], else [m, k]
  bool b_k_first;  // b is [k, n], else [n, k]
};

// Checks shapes, bounds, overlap of c with a and b, and block.
GemmShape CheckGemm(GemmForm form, std::int64_t block, const Matrix& a, const Matrix& b,
                    const Matrix& c);

// Checks that a view lies inside its buffer; `what` names it in the error.
void CheckView(std::string_view what, const Matrix& matrix);

// Checks a Device::Copy: both views, that `from` is one of `buffer`, equal shapes, two buffers.
void CheckCopy(const Buffer& buffer, const Matrix& from, const Matrix& to);

}  // namespace acan
