// Every operation of a device, each described once: values for its operands and its definition in
// float64. Operands, shapes and written results are those of operators.inc.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "acan/core/operators/operators.h"
#include "reference.h"

namespace acan::test {

struct Shape {
  std::int64_t rows, cols, inner, pad;  // inner: k of products; pad: as for Put (reference.h)
};

struct Doubles {
  std::int64_t rows, cols;
  std::vector<double> v,
      magnitude;  // sum of the terms' magnitudes: rounding errors are relative to it
};

struct Operation {
  std::string name;
  std::variant<GemmForm, Kernel> call;
  KernelScalars scalars;
  // Makes the values of one input operand with the given rows and columns.
  using Values = std::function<Host(const Shape&, std::int64_t rows, std::int64_t cols)>;
  std::vector<Values> values;
  // Computes each output operand from the input operands.
  std::function<std::vector<Doubles>(const Shape&, const std::vector<Host>&)> definition;
  // Sets the scalars that depend on the shape, and returns the dimensions whose names are not rows,
  // cols, m, n or k. Null: there are none.
  using Names = Few<NamedDimension, kMaxDimensions>;
  std::function<Names(const Shape&, KernelScalars&)> sized = {};

  bool product() const { return std::holds_alternative<GemmForm>(call); }  // fast precision too
  const OperatorRow& row() const;
  std::vector<Host> operands(const Shape& shape) const;
  std::vector<std::pair<std::int64_t, std::int64_t>> results(const Shape& shape) const;
  // Operands that are both read and written are in `out`.
  void run(Device& device, Precision precision, const Shape& shape, const std::vector<Matrix>& in,
           const std::vector<Matrix>& out) const;
};

const std::vector<Operation>& AllOperations();

// Adds the operations of attention; a part of AllOperations().
void AddAttention(std::vector<Operation>& all);

}  // namespace acan::test
