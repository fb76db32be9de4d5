// The checks that every backend makes before it runs anything, from the table of calls
// (operators.h). All of them throw std::invalid_argument, which names the operation, the operand,
// its actual and its required state.
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

// Checks presence, shape and bounds of every operand, and the scalars that could make a kernel go
// out of bounds (activation, block). Returns the iteration space.
KernelRegion CheckLaunch(Kernel kernel, const KernelArgs& args);

// Whether `kernel` writes operand `index`; false for an index beyond its operands.
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

// Checks shapes, bounds, `block`, and that c does not overlap a or b.
GemmShape CheckGemm(GemmForm form, std::int64_t block, const Matrix& a, const Matrix& b,
                    const Matrix& c);

// Checks that a view lies inside its buffer; `what` names it in the error.
void CheckView(std::string_view what, const Matrix& matrix);

// Checks a Device::CopyIn of `bytes`: the view, and that it has as many.
void CheckCopyIn(std::size_t bytes, const Matrix& to);

// Checks a Device::Download: the view, and that it is one of `buffer`.
void CheckDownload(const Buffer& buffer, const Matrix& from);

// Checks a Device::Copy: both views, that `from` is a view of `buffer`, equal shapes, and two
// different buffers.
void CheckCopy(const Buffer& buffer, const Matrix& from, const Matrix& to);

}  // namespace acan
