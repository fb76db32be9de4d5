// The operations that a task can ask of a device: the rows of operators.inc, parsed at compile
// time. Pure values and functions; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "acan/core/operators/kernels.h"
#include "acan/core/operators/operator_shape.h"

namespace acan {

enum class Access : std::uint8_t { kRead, kWrite, kUpdate };
enum class Element : std::uint8_t { kFloat32, kInt32 };
enum class ScalarRule : std::uint8_t { kAny, kVariant, kBlock, kSize, kOffset };

// How a kernel's function iterates over its space. A product is computed for each element of its
// result. A tile is computed by ACAN_TILE_LANES independent lanes.
enum class KernelSpace : std::uint8_t { kElement, kRow, kColumn, kTile };

struct Operand {
  std::string_view name;
  std::string_view text;  // "out[rows, cols]"
  Access access = Access::kRead;
  bool optional = false;
  Element element = Element::kFloat32;
  Expression rows, cols;
  Expression touched;  // elements that the call reads or writes; empty: all
  // For a written operand: bit mask of the operands that may be the same matrix.
  std::uint32_t may_be = 0;
  // At element (r, c) of its space, the kernel reads and writes at most element (r, c) of this
  // operand: it iterates by ELEMENT, and the shapes of the operand and of the space are the same
  // expressions.
  bool at_element = false;

  constexpr bool reads() const { return access != Access::kWrite; }
  constexpr bool writes() const { return access != Access::kRead; }
};

struct Scalar {
  std::string_view name;
  bool integer = false;  // it is in i[], otherwise in f[]
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

  // How to find the dimensions: first from scalars, then one by one from the rows or columns of an
  // operand.
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
    bool plain = false;  // the dimension is that number; otherwise it is a factor of it
  };
  Few<FromScalar, kMaxDimensions> from_scalars;
  Few<Defined, 4> defined;
  Few<FromOperand, kMaxDimensions> from_operands;
};

// The shape of one operand of a call. It has no default values, because checks create arrays of
// these all the time.
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

// Parses the texts of one row; see operators.inc. Throws (an error at compile time) if they are
// malformed, or if the scalars and the non-optional operands do not determine every dimension.
constexpr OperatorRow ParseOperator(std::string_view name, std::string_view function_space,
                                    std::int64_t variants, std::string_view space,
                                    std::string_view operands, std::string_view scalars,
                                    std::string_view flops, std::string_view meaning);

// Throw std::invalid_argument if there is no such row.
constexpr const OperatorRow& RowOf(Kernel kernel);
constexpr const OperatorRow& RowOf(GemmForm form);

constexpr std::size_t ElementBytes(Element element);

// Whether the summation index of a product runs along the rows of operand 0 (a) or 1 (b).
constexpr bool SumIndexComesFirst(GemmForm form, std::size_t operand);

// ---- calls -------------------------------------------------------------------------------------

// The dimensions of a call. If the call does not fit its row, some dimensions are 0; only CheckCall
// reports this. REQUIRES: operands.size() == row.operands.size().
Dimensions DimensionsOf(const OperatorRow& row, std::span<const OperandShape> operands,
                        const KernelScalars& scalars);

// As DimensionsOf. Also checks that every required operand is present and has its shape, and checks
// the scalars that are dimensions. Throws std::invalid_argument that names the operation, the
// operand, its shape and the expected shape.
Dimensions CheckCall(const OperatorRow& row, std::span<const OperandShape> operands,
                     const KernelScalars& scalars);

// How the matrices of two operands of a call overlap.
enum class Meeting : std::uint8_t { kApart, kSame, kOverlap };
// Checks that written operands overlap other operands only where the row allows it. `meet` takes
// the indexes of two operands and returns how they overlap; kApart if one is absent. Throws as
// CheckCall.
template <typename Meet>
void CheckMeetings(const OperatorRow& row, const Meet& meet);

// Checks the scalars that have the rule variant or block. Throws as CheckCall.
void CheckScalars(const OperatorRow& row, const KernelScalars& scalars);

// Checks that `block` is a power of two and at least 16. Throws as CheckCall; `what` names the
// operation.
void CheckBlock(std::string_view what, std::int64_t block);

// The cost of a call with these operands; at most INT64_MAX operations. REQUIRES: they fit the row.
std::uint64_t FlopsOf(const OperatorRow& row, std::span<const OperandShape> operands,
                      const KernelScalars& scalars);
CallCost CostOf(const OperatorRow& row, std::span<const OperandShape> operands,
                const KernelScalars& scalars);

// The value of a dimension, by name; for tests and measurements.
struct NamedDimension {
  std::string_view name;
  std::int64_t value = 0;
};
// Throws std::invalid_argument if a dimension of the row is missing from `dimensions`.
Dimensions DimensionsNamed(const OperatorRow& row, std::span<const NamedDimension> dimensions);
OperandShape ShapeOf(const Operand& operand, const Dimensions& dimensions);

}  // namespace acan

#include "acan/core/operators/operators_parse.h"
