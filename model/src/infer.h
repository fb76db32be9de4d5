// Shape inference: what a node's operands must be, and what its results are.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "acan/model/graph.h"

namespace acan::model {

// The shapes of a node's results. `operands` has an entry for every operand of the table (more for
// a repeated one), kNoValue for those that are left out. Throws Error (usage) that names the node,
// the operand, its shape and what was expected.
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

  // Presence and kind of every operand, as the table has them.
  void CheckAgainstTable() const;

  // Each throws unless its condition holds. `why` ends the sentence: "as the weight has 8 inputs".
  void ExpectRows(int operand, std::int64_t rows, std::string_view why) const;
  void ExpectFeatures(int operand, std::int64_t features, std::string_view why) const;
  // A shared vector or matrix, where it is there.
  void ExpectVector(int operand, std::int64_t features, std::string_view why) const;
  void ExpectSame(int operand, int as) const;
  // Where the integers of `integers` are an input of the graph: the largest that it may hold must
  // be below `size`, of which operand `owner` has so many `what`. Of a port of lengths: it must be
  // at most `size`.
  void ExpectBound(int integers, int owner, std::int64_t size, std::string_view what) const;
  // Of the attribute `attribute`: "node 'a' (scale): factor is inf, but must be finite".
  void ExpectAttribute(bool holds, std::string_view attribute, const std::string& value,
                       std::string_view must) const;

  [[noreturn]] void Fail(int operand, const std::string& expected) const;

 private:
  const Port& PortOf(int operand) const;
  const Input* InputOf(int operand) const;  // null if the operand is no input
  std::string Where() const;

  const Graph& graph_;
  const std::string& name_;
  const GraphOperatorRow& row_;
  const std::vector<ValueId>& ids_;
};

// The two halves of InferShapes: alternatives before LinearInputGradient, and from it on.
std::vector<Shape> InferForward(const Operator& op, const Operands& in);
std::vector<Shape> InferBackward(const Operator& op, const Operands& in);
bool IsBackward(const Operator& op);

// Attributes that forward operators and their gradients share.
void CheckWindow(const Operands& in, const Window& window);
void CheckGroups(const Operands& in, const Convolution& op, std::int64_t inputs,
                 std::int64_t outputs);
void CheckHeads(const Operands& in, const Attention& op);
void CheckDropout(const Operands& in, std::string_view name, float rate, std::int64_t stream);
void CheckPatches(const Operands& in, const Patches& op);

}  // namespace acan::model
