// What every backend checks before it runs anything, from the one table of kernels. All throw
// std::invalid_argument that names the operation, the operand, what it is and what it must be.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "acan/core/device.h"
#include "acan/core/kernels.h"

namespace acan {

enum class KernelSpace : std::uint8_t { kElement, kRow, kColumn };

struct KernelRegion {
  KernelSpace space;
  std::int64_t rows;  // of the iteration space's matrix
  std::int64_t cols;
};

// "kAdd", as the table has it.
std::string_view KernelName(Kernel kernel);

struct KernelOperand {
  bool written = false;
  char shape = 'e';  // as in table.h: e [rows, cols], v [1, cols], s [rows, 1]
  bool optional = false;
};

// The operands of `kernel`, as the table has them. Returns how many.
int KernelOperands(Kernel kernel, std::array<KernelOperand, kMaxKernelMatrices>& out);

// Checks presence, shape and bounds of every operand, and the scalars that would make a kernel run
// astray (activation, block). Returns what to iterate over.
KernelRegion CheckLaunch(Kernel kernel, const KernelArgs& args);

// Whether operand `index` of `kernel` is written.
bool IsWritten(Kernel kernel, int index);

struct GemmShape {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};

// Checks shapes, bounds, overlap of c with a and b, and block.
GemmShape CheckGemm(GemmForm form, std::int64_t block, const Matrix& a, const Matrix& b,
                    const Matrix& c);

// Checks that a view lies inside its buffer; `what` names it in the error.
void CheckView(std::string_view what, const Matrix& matrix);

// Checks a Device::Copy: both views, that `from` is one of `buffer`, equal shapes, two buffers.
void CheckCopy(const Buffer& buffer, const Matrix& from, const Matrix& to);

}  // namespace acan
