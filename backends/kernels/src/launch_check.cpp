#include "acan/kernels/launch_check.h"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <stdexcept>
#include <string>

#include "acan/kernels/table.h"

namespace acan {
namespace {

struct Row {
  Kernel kernel;
  std::string_view name;
  std::string_view space;
  std::string_view operands;
  int variants;
};

constexpr Row kRows[] = {
#define ACAN_ROW(name, function, space, operands, variants) \
  {Kernel::name, #name, #space, operands, variants},
    ACAN_KERNEL_TABLE(ACAN_ROW)
#undef ACAN_ROW
};

constexpr bool InOrder() {
  for (int i = 0; i < static_cast<int>(std::size(kRows)); ++i) {
    if (static_cast<int>(kRows[i].kernel) != i) return false;
  }
  return std::size(kRows) == static_cast<std::size_t>(Kernel::kCount);
}
static_assert(InOrder(), "table.h must have one row per acan::Kernel, in its order");

const Row& RowOf(Kernel kernel) {
  const auto index = static_cast<std::size_t>(kernel);
  if (index >= std::size(kRows)) {
    throw std::invalid_argument(
        fmt::format("kernel number {} is unknown; the table has {}", index, std::size(kRows)));
  }
  return kRows[index];
}

// "we re rv we?" -> operands. Returns how many.
int Parse(std::string_view text, std::array<KernelOperand, kMaxKernelMatrices>& out) {
  int count = 0;
  for (std::size_t i = 0; i < text.size();) {
    if (text[i] == ' ') {
      ++i;
      continue;
    }
    KernelOperand& operand = out[static_cast<std::size_t>(count++)];
    operand.written = text[i] == 'w';
    operand.shape = text[i + 1];
    i += 2;
    operand.optional = i < text.size() && text[i] == '?';
    if (operand.optional) ++i;
  }
  return count;
}

void CheckBlock(std::string_view what, std::int64_t block) {
  if (block < 16 || !std::has_single_bit(static_cast<std::uint64_t>(block))) {
    throw std::invalid_argument(
        fmt::format("{}: block {} must be a power of two of at least 16", what, block));
  }
}

void CheckScalars(const Row& row, const KernelArgs& args) {
  const std::int64_t first = args.scalars.i[0];
  if (row.variants > 1 && (first < 0 || first >= row.variants)) {
    throw std::invalid_argument(
        fmt::format("{}: activation {} must be 0 to {}", row.name, first, row.variants - 1));
  }
  if (row.space != "ELEMENT") CheckBlock(row.name, first);
}

bool Overlap(const Matrix& x, const Matrix& y) {
  if (x.buffer != y.buffer) return false;
  const std::int64_t x_end = x.offset + (x.rows - 1) * x.stride + x.cols;
  const std::int64_t y_end = y.offset + (y.rows - 1) * y.stride + y.cols;
  if (x_end <= y.offset || y_end <= x.offset) return false;
  // Two views of one wide matrix overlap only if their columns do.
  if (x.stride != y.stride || x.stride == 0) return true;
  const std::int64_t x_col = x.offset % x.stride;
  const std::int64_t y_col = y.offset % y.stride;
  const bool within_rows = x_col + x.cols <= x.stride && y_col + y.cols <= y.stride;
  return !within_rows || (x_col < y_col + y.cols && y_col < x_col + x.cols);
}

}  // namespace

std::string_view KernelName(Kernel kernel) {
  return RowOf(kernel).name;
}

int KernelOperands(Kernel kernel, std::array<KernelOperand, kMaxKernelMatrices>& out) {
  return Parse(RowOf(kernel).operands, out);
}

bool IsWritten(Kernel kernel, int index) {
  std::array<KernelOperand, kMaxKernelMatrices> operands;
  return index < KernelOperands(kernel, operands) &&
         operands[static_cast<std::size_t>(index)].written;
}

void CheckView(std::string_view what, const Matrix& matrix) {
  if (matrix.buffer == nullptr) throw std::invalid_argument(fmt::format("{} has no buffer", what));
  const auto words = static_cast<std::int64_t>(matrix.buffer->size_bytes() / 4);
  const bool sane = matrix.rows > 0 && matrix.cols > 0 && matrix.offset >= 0 &&
                    matrix.cols <= words && matrix.offset <= words - matrix.cols &&
                    (matrix.rows == 1 || matrix.stride >= matrix.cols);
  if (!sane || (matrix.rows > 1 &&
                matrix.rows - 1 > (words - matrix.cols - matrix.offset) / matrix.stride)) {
    throw std::invalid_argument(fmt::format(
        "{}: view [{}, {}] at word {} with stride {} must lie in its buffer of {} words", what,
        matrix.rows, matrix.cols, matrix.offset, matrix.stride, words));
  }
}

void CheckCopy(const Buffer& buffer, const Matrix& from, const Matrix& to) {
  if (from.buffer != &buffer) throw std::invalid_argument("copy: the view is of another buffer");
  CheckView("source of a copy", from);
  CheckView("destination of a copy", to);
  if (from.rows != to.rows || from.cols != to.cols) {
    throw std::invalid_argument(fmt::format("copy of [{}, {}] to [{}, {}], must be the same shape",
                                            from.rows, from.cols, to.rows, to.cols));
  }
  if (from.buffer == to.buffer) throw std::invalid_argument("copy within one buffer");
}

KernelRegion CheckLaunch(Kernel kernel, const KernelArgs& args) {
  const Row& row = RowOf(kernel);
  CheckScalars(row, args);
  std::array<KernelOperand, kMaxKernelMatrices> operands;
  const int count = Parse(row.operands, operands);
  const Matrix* lead = nullptr;
  for (std::size_t i = 0; i < static_cast<std::size_t>(count) && lead == nullptr; ++i) {
    if (operands[i].shape == 'e' && !operands[i].optional) lead = &args.m[i];
  }
  for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i) {
    const Matrix& matrix = args.m[i];
    if (matrix.buffer == nullptr && operands[i].optional) continue;
    CheckView(fmt::format("{} operand {}", row.name, i), matrix);
    const std::int64_t rows = operands[i].shape == 'v' ? 1 : lead->rows;
    const std::int64_t cols = operands[i].shape == 's' ? 1 : lead->cols;
    if (matrix.rows != rows || matrix.cols != cols) {
      throw std::invalid_argument(fmt::format("{} operand {} is [{}, {}], must be [{}, {}]",
                                              row.name, i, matrix.rows, matrix.cols, rows, cols));
    }
  }
  const KernelSpace space = row.space == "ELEMENT" ? KernelSpace::kElement
                            : row.space == "ROW"   ? KernelSpace::kRow
                                                   : KernelSpace::kColumn;
  return {space, lead->rows, lead->cols};
}

GemmShape CheckGemm(GemmForm form, std::int64_t block, const Matrix& a, const Matrix& b,
                    const Matrix& c) {
  CheckBlock("gemm", block);
  CheckView("gemm operand a", a);
  CheckView("gemm operand b", b);
  CheckView("gemm result c", c);
  const bool a_k_first = form == GemmForm::kGradient;
  const bool b_k_first = form != GemmForm::kForward;
  const GemmShape shape{a_k_first ? a.cols : a.rows, b_k_first ? b.cols : b.rows,
                        a_k_first ? a.rows : a.cols};
  const std::int64_t b_k = b_k_first ? b.rows : b.cols;
  if (b_k != shape.k || c.rows != shape.m || c.cols != shape.n) {
    throw std::invalid_argument(
        fmt::format("gemm form {}: a [{}, {}], b [{}, {}] and c [{}, {}] do not agree",
                    static_cast<int>(form), a.rows, a.cols, b.rows, b.cols, c.rows, c.cols));
  }
  if (Overlap(c, a) || Overlap(c, b)) {
    throw std::invalid_argument("gemm: the result overlaps an operand");
  }
  return shape;
}

}  // namespace acan
