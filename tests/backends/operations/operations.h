// Every operation of a device, each described once: values for its operands, and its definition in
// float64. Operands, shapes and what is written are those of operators.inc.
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
  std::int64_t rows, cols, inner, pad;  // inner: k of products; pad: as of Put (reference.h)
};

struct Doubles {
  std::int64_t rows, cols;
  std::vector<double> v,
      magnitude;  // of the terms that were added up: what rounding is relative to
};

struct Operation {
  std::string name;
  std::variant<GemmForm, Kernel> call;
  KernelScalars scalars;
  // The values of each operand that is read, of the given rows and columns.
  using Values = std::function<Host(const Shape&, std::int64_t rows, std::int64_t cols)>;
  std::vector<Values> values;
  // Of each operand that is written, from those that are read.
  std::function<std::vector<Doubles>(const Shape&, const std::vector<Host>&)> definition;
  // Sets the scalars that depend on the shape, and gives the dimensions that have other names than
  // rows, cols, m, n and k; null: none does.
  using Names = Few<NamedDimension, kMaxDimensions>;
  std::function<Names(const Shape&, KernelScalars&)> sized = {};

  bool product() const { return std::holds_alternative<GemmForm>(call); }  // fast precision too
  const OperatorRow& row() const;
  std::vector<Host> operands(const Shape& shape) const;
  std::vector<std::pair<std::int64_t, std::int64_t>> results(const Shape& shape) const;
  // What is read and written is in `out`.
  void run(Device& device, Precision precision, const Shape& shape, const std::vector<Matrix>& in,
           const std::vector<Matrix>& out) const;
};

const std::vector<Operation>& AllOperations();

// Those of attention; part of them.
void AddAttention(std::vector<Operation>& all);

}  // namespace acan::test
