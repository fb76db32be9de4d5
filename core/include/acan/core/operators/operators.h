// What a task can ask of a device: the rows of operators.inc, parsed at compile time. Pure values
// and functions; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "acan/core/operators/kernels.h"
#include "acan/core/operators/operator_shape.h"

namespace acan {

enum class Access : std::uint8_t { kRead, kWrite, kUpdate };
enum class Element : std::uint8_t { kFloat32, kInt32 };
enum class ScalarRule : std::uint8_t { kAny, kVariant, kBlock, kSize, kOffset };

// How the function of a kernel goes over its iteration space. A product is computed element by
// element of its result; a tile, by ACAN_TILE_LANES lanes that are independent of each other.
enum class KernelSpace : std::uint8_t { kElement, kRow, kColumn, kTile };

struct Operand {
  std::string_view name;
  std::string_view text;  // "out[rows, cols]"
  Access access = Access::kRead;
  bool optional = false;
  Element element = Element::kFloat32;
  Expression rows, cols;
  Expression touched;  // elements that the call reads or writes; empty: all
  // Of a written one: the operands that it may be the same matrix as, as bits.
  std::uint32_t may_be = 0;

  constexpr bool reads() const { return access != Access::kWrite; }
  constexpr bool writes() const { return access != Access::kRead; }
};

struct Scalar {
  std::string_view name;
  bool integer = false;  // in i[], else in f[]
  ScalarRule rule = ScalarRule::kAny;
  std::size_t index = 0;  // in i[] or f[]
};

struct OperatorRow {
  std::string_view name;  // "kAdd", "gemm forward"
  KernelSpace space = KernelSpace::kElement;
  std::int64_t variants = 1;
  Expression space_rows, space_cols;
  Few<Operand, ACAN_KERNEL_MATRICES> operands;
  Few<Scalar, ACAN_KERNEL_FLOATS + ACAN_KERNEL_INTEGERS> scalars;
  Few<std::string_view, kMaxDimensions> dimensions;
  Expression flops;
  std::string_view meaning;

  // How dimensions are found: from scalars first, then one by one from an operand's rows or
  // columns.
  struct FromScalar {
    std::size_t dimension = 0, integer = 0;
  };
  struct Defined {
    std::size_t dimension = 0;
    Expression value;
  };
  struct FromOperand {
    std::size_t dimension = 0, operand = 0;
    bool of_cols = false;
    bool plain = false;  // the dimension is that number; else a factor of it
  };
  Few<FromScalar, kMaxDimensions> from_scalars;
  Few<Defined, 4> defined;
  Few<FromOperand, kMaxDimensions> from_operands;
};

// The shape of one operand of a call. Without defaults: checks make arrays of these all the time.
struct OperandShape {
  bool present;
  std::int64_t rows;
  std::int64_t cols;
};

struct CallCost {
  std::uint64_t flops = 0;
  std::uint64_t bytes = 0;  // read and written, each present operand once
};

// ---- the table ---------------------------------------------------------------------------------

// Parses the texts of one row; see operators.inc. Throws, at compile time an error, where they are
// malformed or a dimension cannot be found from the scalars and the operands that are never absent.
constexpr OperatorRow ParseOperator(std::string_view name, std::string_view function_space,
                                    std::int64_t variants, std::string_view space,
                                    std::string_view operands, std::string_view scalars,
                                    std::string_view flops, std::string_view meaning);

// Throw std::invalid_argument where there is no such row.
constexpr const OperatorRow& RowOf(Kernel kernel);
constexpr const OperatorRow& RowOf(GemmForm form);

constexpr std::size_t ElementBytes(Element element);

// The operands of `row` that are written, as bits.
constexpr std::uint32_t WrittenOperands(const OperatorRow& row);

// Whether the sum's index of a product runs down the rows of operand 0 (a) or 1 (b).
constexpr bool SumIndexComesFirst(GemmForm form, std::size_t operand);

// ---- calls -------------------------------------------------------------------------------------

// The dimensions of a call. Where it does not fit its row, some are 0 and nothing else is wrong:
// CheckCall says so. REQUIRES: operands.size() == row.operands.size().
Dimensions DimensionsOf(const OperatorRow& row, std::span<const OperandShape> operands,
                        const KernelScalars& scalars);

// As DimensionsOf, and checks that every operand that must be there is, that it has its shape, and
// the scalars that are dimensions. Throws std::invalid_argument with the operation, the operand,
// what it is and what it must be.
Dimensions CheckCall(const OperatorRow& row, std::span<const OperandShape> operands,
                     const KernelScalars& scalars);

// How the matrices of two operands of a call lie to each other.
enum class Meeting : std::uint8_t { kApart, kSame, kOverlap };
// Checks that what is written overlaps another operand only where the row allows it. `meet` says
// how two operands lie to each other, by their indexes: apart, where one is absent. Throws as
// CheckCall.
template <typename Meet>
void CheckMeetings(const OperatorRow& row, const Meet& meet);

// Checks the scalars with the rules variant and block. Throws as CheckCall.
void CheckScalars(const OperatorRow& row, const KernelScalars& scalars);

// A power of two of at least 16. Throws as CheckCall; `what` names the operation.
void CheckBlock(std::string_view what, std::int64_t block);

// What a call of these operands, which fit the row, costs.
std::uint64_t FlopsOf(const OperatorRow& row, std::span<const OperandShape> operands,
                      const KernelScalars& scalars);
CallCost CostOf(const OperatorRow& row, std::span<const OperandShape> operands,
                const KernelScalars& scalars);

// The shape of an operand in a call of these dimensions, by name; for tests and measurements.
struct NamedDimension {
  std::string_view name;
  std::int64_t value = 0;
};
// Throws std::invalid_argument where a dimension of the row is not among `dimensions`.
Dimensions DimensionsNamed(const OperatorRow& row, std::span<const NamedDimension> dimensions);
OperandShape ShapeOf(const Operand& operand, const Dimensions& dimensions);

}  // namespace acan

#include "acan/core/operators/operators_parse.h"
