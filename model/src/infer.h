// Shape inference: checks a node's operands and computes the shapes of its results.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "acan/model/graph.h"

namespace acan::model {

// The shapes of a node's results. `operands` has an entry for every operand of the table (several
// for a repeated one), kNoValue for those that are left out. Throws Error (usage) that names the
// node, the operand, its shape and what was expected.
std::vector<Shape> InferShapes(const Graph& graph, const std::string& name, const Operator& op,
                               const std::vector<ValueId>& operands);

// A node's operands while its shapes are inferred.
class Operands {
 public:
  Operands(const Graph& graph, const std::string& name, const Operator& op,
           const std::vector<ValueId>& ids);

  int size() const { return static_cast<int>(ids_.size()); }
  bool Has(int operand) const { return ids_[static_cast<std::size_t>(operand)] != kNoValue; }
  // REQUIRES: Has(operand).
  const Shape& operator[](int operand) const;
  std::int64_t rows(int operand) const { return (*this)[operand].rows; }
  std::int64_t features(int operand) const { return (*this)[operand].features; }

  // Checks presence and kind of every operand against the table.
  void CheckAgainstTable() const;

  // Each throws unless its condition holds. `why` ends the sentence: "as the weight has 8 inputs".
  void ExpectRows(int operand, std::int64_t rows, std::string_view why) const;
  void ExpectFeatures(int operand, std::int64_t features, std::string_view why) const;
  // Checks a shared vector or matrix, if it is present.
  void ExpectVector(int operand, std::int64_t features, std::string_view why) const;
  void ExpectSame(int operand, int as) const;
  // If `integers` is an input of the graph, its largest possible value must be below `size`, the
  // number of `what` that operand `owner` has. For a port of lengths it must be at most `size`.
  void ExpectBound(int integers, int owner, std::int64_t size, std::string_view what) const;
  // Checks an attribute: "node 'a' (scale): factor is inf, but must be finite".
  void ExpectAttribute(bool holds, std::string_view attribute, const std::string& value,
                       std::string_view must) const;

  [[noreturn]] void Fail(int operand, const std::string& expected) const;

 private:
  const Port& PortOf(int operand) const;
  const Input* InputOf(int operand) const;  // null if the operand is not an input
  std::string Where() const;

  const Graph& graph_;
  const std::string& name_;
  const GraphOperatorRow& row_;
  const std::vector<ValueId>& ids_;
};

// The two halves of InferShapes: Operator's alternatives before LinearInputGradient, and the rest.
std::vector<Shape> InferForward(const Operator& op, const Operands& in);
std::vector<Shape> InferBackward(const Operator& op, const Operands& in);
bool IsBackward(const Operator& op);

// Checks of attributes that forward operators and their gradients share.
void CheckWindow(const Operands& in, const Window& window);
void CheckGroups(const Operands& in, const Convolution& op, std::int64_t inputs,
                 std::int64_t outputs);
void CheckHeads(const Operands& in, const Attention& op);
void CheckDropout(const Operands& in, std::string_view name, float rate, std::int64_t stream);
void CheckPatches(const Operands& in, const Patches& op);

}  // namespace acan::model
