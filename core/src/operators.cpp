#include "acan/core/operators/operators.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>
#include <string>

#include "fmt/format.h"

namespace acan {
namespace {

constexpr std::int64_t kMaxSize = std::numeric_limits<std::int32_t>::max();

[[noreturn]] void Refuse(const std::string& what) {
  throw std::invalid_argument(what);
}

// 0 if the expression has no value: no matrix has that size.
std::int64_t ValueOf(const Expression& expression, const Dimensions& dimensions) {
  return expression.ValueOf(dimensions).value_or(0);
}

std::uint64_t CountOf(const Expression& expression, const Dimensions& dimensions) {
  return static_cast<std::uint64_t>(std::max<std::int64_t>(0, ValueOf(expression, dimensions)));
}

// INT64_MAX if there are more than that.
std::uint64_t FlopsAt(const OperatorRow& row, const Dimensions& dimensions) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  return static_cast<std::uint64_t>(
      std::max<std::int64_t>(0, row.flops.ValueOf(dimensions).value_or(kMost)));
}

std::int64_t SizeOf(const OperandShape& shape, bool of_cols) {
  return of_cols ? shape.cols : shape.rows;
}

// Sets all dimensions of the row; those that come from operands become 0. Other entries of `out`
// stay as they are, because clearing them would take as long as everything else.
void TakeFromScalars(const OperatorRow& row, const KernelScalars& scalars, Dimensions& out) {
  for (std::size_t i = 0; i < row.dimensions.size(); ++i) out[i] = 0;
  for (const OperatorRow::FromScalar& from : row.from_scalars) {
    out[from.dimension] = scalars.i[from.integer];
  }
  for (const OperatorRow::Defined& each : row.defined) {
    out[each.dimension] = ValueOf(each.value, out);
  }
}

// The size that makes `product` equal `actual`, or 0 if `actual` is not a multiple of the other
// factors.
std::int64_t Solve(const Expression& product, std::size_t dimension, std::int64_t actual,
                   const Dimensions& known) {
  Dimensions dimensions = known;
  dimensions[dimension] = 1;
  const std::int64_t others = ValueOf(product, dimensions);
  return others > 0 && actual % others == 0 ? actual / others : 0;
}

inline void TakeFromOperand(const OperatorRow& row, const OperatorRow::FromOperand& from,
                            std::span<const OperandShape> operands, Dimensions& out) {
  const std::int64_t actual = SizeOf(operands[from.operand], from.of_cols);
  if (from.plain) {
    out[from.dimension] = actual;
    return;
  }
  const Operand& operand = row.operands[from.operand];
  out[from.dimension] =
      Solve(from.of_cols ? operand.cols : operand.rows, from.dimension, actual, out);
}

// The dimensions from which an operand's expressions were computed, such as "rows = 4, cols = 5".
std::string Values(const OperatorRow& row, const Operand& operand, const Dimensions& dimensions) {
  std::string text;
  for (std::size_t i = 0; i < row.dimensions.size(); ++i) {
    if (((operand.rows.uses | operand.cols.uses) >> i & 1) == 0) continue;
    text +=
        fmt::format("{}{} = {}", text.empty() ? " with " : ", ", row.dimensions[i], dimensions[i]);
  }
  return text;
}

void CheckSizes(const OperatorRow& row, const KernelScalars& scalars) {
  if (row.from_scalars.empty()) return;
  for (const Scalar& scalar : row.scalars) {
    if (scalar.rule != ScalarRule::kSize && scalar.rule != ScalarRule::kOffset) continue;
    const std::int64_t least = scalar.rule == ScalarRule::kSize ? 1 : 0;
    const std::int64_t value = scalars.i[scalar.index];
    if (value < least || value > kMaxSize) {
      Refuse(fmt::format("{}: {} is {}, must be {} to {}", row.name, scalar.name, value, least,
                         kMaxSize));
    }
  }
}

void CheckDefined(const OperatorRow& row, const Dimensions& dimensions) {
  for (const OperatorRow::Defined& each : row.defined) {
    if (dimensions[each.dimension] > 0) continue;
    Refuse(fmt::format("{}: its scalars make {} {}, must be at least 1", row.name,
                       row.dimensions[each.dimension], dimensions[each.dimension]));
  }
}

void CheckPresence(const OperatorRow& row, std::span<const OperandShape> operands) {
  if (operands.size() != row.operands.size()) {
    Refuse(fmt::format("{} with {} operands, needs {}", row.name, operands.size(),
                       row.operands.size()));
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].present || row.operands[i].optional) continue;
    Refuse(fmt::format("{} operand {} is absent, must be {}", row.name, i, row.operands[i].text));
  }
}

void CheckShape(const OperatorRow& row, std::size_t index, const OperandShape& shape,
                const Dimensions& dimensions) {
  const Operand& operand = row.operands[index];
  const std::int64_t rows = ValueOf(operand.rows, dimensions);
  const std::int64_t cols = ValueOf(operand.cols, dimensions);
  if (shape.rows == rows && shape.cols == cols) return;
  Refuse(fmt::format("{} operand {} is [{}, {}], must be [{}, {}]: {}{}", row.name, index,
                     shape.rows, shape.cols, rows, cols, operand.text,
                     Values(row, operand, dimensions)));
}

}  // namespace

void operators_parse::RefuseNumber(std::string_view what, std::size_t number, std::size_t rows) {
  Refuse(fmt::format("{} number {} is unknown; the table has {}", what, number, rows));
}

void operators_parse::RefuseMeeting(const OperatorRow& row, std::size_t written,
                                    std::size_t other) {
  const Operand& operand = row.operands[written];
  const bool may_be = (operand.may_be >> other & 1) != 0;
  Refuse(fmt::format("{}: operand {}, which is written, overlaps operand {}: {} must {} {}",
                     row.name, written, other, operand.text,
                     may_be ? "be the same matrix as, or lie apart from," : "not overlap",
                     row.operands[other].text));
}

Dimensions DimensionsOf(const OperatorRow& row, std::span<const OperandShape> operands,
                        const KernelScalars& scalars) {
  Dimensions dimensions;
  TakeFromScalars(row, scalars, dimensions);
  for (const OperatorRow::FromOperand& from : row.from_operands) {
    TakeFromOperand(row, from, operands, dimensions);
  }
  return dimensions;
}

Dimensions CheckCall(const OperatorRow& row, std::span<const OperandShape> operands,
                     const KernelScalars& scalars) {
  CheckPresence(row, operands);
  CheckSizes(row, scalars);
  Dimensions dimensions;
  TakeFromScalars(row, scalars, dimensions);
  CheckDefined(row, dimensions);
  for (const OperatorRow::FromOperand& from : row.from_operands) {
    TakeFromOperand(row, from, operands, dimensions);
    if (dimensions[from.dimension] > 0) continue;
    const OperandShape& shape = operands[from.operand];
    Refuse(fmt::format("{} operand {} is [{}, {}], which is no {}{}", row.name, from.operand,
                       shape.rows, shape.cols, row.operands[from.operand].text,
                       Values(row, row.operands[from.operand], dimensions)));
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].present) CheckShape(row, i, operands[i], dimensions);
  }
  return dimensions;
}

void CheckBlock(std::string_view what, std::int64_t block) {
  if (block < 16 || !std::has_single_bit(static_cast<std::uint64_t>(block))) {
    Refuse(fmt::format("{}: block {} must be a power of two of at least 16", what, block));
  }
}

void CheckScalars(const OperatorRow& row, const KernelScalars& scalars) {
  for (const Scalar& scalar : row.scalars) {
    if (scalar.rule == ScalarRule::kBlock) CheckBlock(row.name, scalars.i[scalar.index]);
    if (scalar.rule != ScalarRule::kVariant) continue;
    const std::int64_t value = scalars.i[scalar.index];
    if (value < 0 || value >= row.variants) {
      Refuse(
          fmt::format("{}: {} {} must be 0 to {}", row.name, scalar.name, value, row.variants - 1));
    }
  }
}

std::uint64_t FlopsOf(const OperatorRow& row, std::span<const OperandShape> operands,
                      const KernelScalars& scalars) {
  return FlopsAt(row, DimensionsOf(row, operands, scalars));
}

CallCost CostOf(const OperatorRow& row, std::span<const OperandShape> operands,
                const KernelScalars& scalars) {
  const Dimensions dimensions = DimensionsOf(row, operands, scalars);
  CallCost cost;
  cost.flops = FlopsAt(row, dimensions);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    const Operand& operand = row.operands[i];
    if (!operands[i].present) continue;
    const std::uint64_t elements = operand.touched.steps.empty()
                                       ? static_cast<std::uint64_t>(operands[i].rows) *
                                             static_cast<std::uint64_t>(operands[i].cols)
                                       : CountOf(operand.touched, dimensions);
    cost.bytes +=
        elements * ElementBytes(operand.element) * (operand.access == Access::kUpdate ? 2 : 1);
  }
  return cost;
}

Dimensions DimensionsNamed(const OperatorRow& row, std::span<const NamedDimension> dimensions) {
  Dimensions out{};
  for (std::size_t i = 0; i < row.dimensions.size(); ++i) {
    bool found = false;
    for (const NamedDimension& each : dimensions) {
      if (each.name != row.dimensions[i]) continue;
      out[i] = each.value;
      found = true;
    }
    if (!found) Refuse(fmt::format("{}: the dimension {} is missing", row.name, row.dimensions[i]));
  }
  return out;
}

OperandShape ShapeOf(const Operand& operand, const Dimensions& dimensions) {
  return {true, ValueOf(operand.rows, dimensions), ValueOf(operand.cols, dimensions)};
}

}  // namespace acan
