#include "acan/kernels/launch_check.h"

#include <fmt/format.h>

#include <array>
#include <span>
#include <stdexcept>

namespace acan {
namespace {

// The shapes of the first operands of `m`, as many as `row` has.
class Shapes {
 public:
  Shapes(const OperatorRow& row, std::span<const Matrix> m) : count_(row.operands.size()) {
    for (std::size_t i = 0; i < count_; ++i) {
      shapes_[i] = {m[i].buffer != nullptr, m[i].rows, m[i].cols};
    }
  }
  // NOLINTNEXTLINE(google-explicit-constructor): shapes are what it is
  operator std::span<const OperandShape>() const { return {shapes_.data(), count_}; }

 private:
  std::array<OperandShape, kMaxKernelMatrices> shapes_;  // the first count_ are set
  std::size_t count_;
};

bool LiesInItsBuffer(const Matrix& matrix) {
  const auto words = static_cast<std::int64_t>(matrix.buffer->size_bytes() / 4);
  const bool sane = matrix.rows > 0 && matrix.cols > 0 && matrix.offset >= 0 &&
                    matrix.cols <= words && matrix.offset <= words - matrix.cols &&
                    (matrix.rows == 1 || matrix.stride >= matrix.cols);
  return sane && (matrix.rows == 1 ||
                  matrix.rows - 1 <= (words - matrix.cols - matrix.offset) / matrix.stride);
}

void CheckOperands(const OperatorRow& row, std::span<const Matrix> m) {
  for (std::size_t i = 0; i < row.operands.size(); ++i) {
    const bool absent = m[i].buffer == nullptr;
    if (absent ? row.operands[i].optional : LiesInItsBuffer(m[i])) continue;
    CheckView(fmt::format("{} operand {}", row.name, i), m[i]);
  }
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

bool IsSame(const Matrix& x, const Matrix& y) {
  return x.buffer == y.buffer && x.offset == y.offset && x.rows == y.rows && x.cols == y.cols &&
         (x.rows == 1 || x.stride == y.stride);
}

Meeting MeetingOf(const Matrix& x, const Matrix& y) {
  if (x.buffer == nullptr || y.buffer == nullptr || !Overlap(x, y)) return Meeting::kApart;
  return IsSame(x, y) ? Meeting::kSame : Meeting::kOverlap;
}

}  // namespace

void CheckView(std::string_view what, const Matrix& matrix) {
  if (matrix.buffer == nullptr) throw std::invalid_argument(fmt::format("{} has no buffer", what));
  if (LiesInItsBuffer(matrix)) return;
  throw std::invalid_argument(fmt::format(
      "{}: view [{}, {}] at word {} with stride {} must lie in its buffer of {} words", what,
      matrix.rows, matrix.cols, matrix.offset, matrix.stride, matrix.buffer->size_bytes() / 4));
}

void CheckCopyIn(std::size_t bytes, const Matrix& to) {
  CheckView("destination of a copy", to);
  if (bytes == 4 * static_cast<std::size_t>(to.rows) * static_cast<std::size_t>(to.cols)) return;
  throw std::invalid_argument(
      fmt::format("a payload of {} bytes for a matrix [{}, {}]", bytes, to.rows, to.cols));
}

void CheckDownload(const Buffer& buffer, const Matrix& from) {
  if (from.buffer != &buffer) {
    throw std::invalid_argument("download: the view is of another buffer");
  }
  CheckView("source of a download", from);
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
  const OperatorRow& row = RowOf(kernel);
  CheckScalars(row, args.scalars);
  CheckOperands(row, args.m);
  const Dimensions dimensions = CheckCall(row, Shapes(row, args.m), args.scalars);
  CheckMeetings(row, [&](std::size_t i, std::size_t j) { return MeetingOf(args.m[i], args.m[j]); });
  const std::int64_t rows = row.space_rows.ValueOf(dimensions).value_or(0);
  const std::int64_t cols = row.space_cols.ValueOf(dimensions).value_or(0);
  if (rows <= 0 || cols <= 0) {
    throw std::invalid_argument(
        fmt::format("{}: nothing to do over [{}, {}]", row.name, rows, cols));
  }
  return {row.space, rows, cols};
}

GemmShape CheckGemm(GemmForm form, std::int64_t block, const Matrix& a, const Matrix& b,
                    const Matrix& c) {
  CheckBlock("gemm", block);
  CheckView("gemm operand a", a);
  CheckView("gemm operand b", b);
  CheckView("gemm result c", c);
  const OperatorRow& row = RowOf(form);
  CheckCall(row, Shapes(row, std::array<Matrix, 3>{a, b, c}), {});
  if (Overlap(c, a) || Overlap(c, b)) {
    throw std::invalid_argument("gemm: the result overlaps an operand");
  }
  const bool a_k_first = SumIndexComesFirst(form, 0);
  return {c.rows, c.cols, a_k_first ? a.rows : a.cols, a_k_first, SumIndexComesFirst(form, 1)};
}

}  // namespace acan
