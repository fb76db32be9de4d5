// GradientBuilder: walks a graph backwards and appends the nodes that each node's rule requests.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "acan/model/graph.h"

namespace acan::model {

class GradientBuilder {
 public:
  GradientBuilder(Graph* graph, const std::vector<ValueId>& also);
  void Run();

  // ---- for the current node's rule (gradient_rules.cpp) ----

  const Node& node() const { return node_; }
  ValueId operand(int i) const { return node_.operands[static_cast<std::size_t>(i)]; }
  ValueId result(int i) const { return node_.results[static_cast<std::size_t>(i)]; }
  const Shape& ShapeOf(ValueId id) const { return graph_->value(id).shape; }
  // The gradient of the first result; kNoValue at a loss.
  ValueId dy() const { return dy_; }
  // Whether the gradient of this operand is needed; false for an operand that is left out.
  bool Needs(int operand) const;
  bool NeedsAny(int first, int last) const;

  // Appends a node named after the current node and `suffix`; returns its first result.
  ValueId Emit(const std::string& suffix, Operator op, std::vector<ValueId> operands);
  std::vector<ValueId> EmitAll(const std::string& suffix, Operator op,
                               std::vector<ValueId> operands);
  // REQUIRES: Needs(operand).
  void Give(int operand, ValueId gradient);
  // The operand's gradient is dy in the slice's range and 0 elsewhere.
  void GiveSlice(int operand, const Slice& slice);

 private:
  struct Contribution {
    Use use;
    ValueId gradient = kNoValue;
    std::optional<Slice> slice;
  };

  void FindNeeds(const std::vector<ValueId>& also);
  void Visit(NodeId id, bool is_loss);
  void FinishOperands(NodeId id);
  void FinishRest();
  // The sum of the gradients given to the value, in ascending order of the consumers; kNoValue if
  // none.
  ValueId Finish(ValueId id, NodeId belongs_to);
  // If the contributions are slices that partition the value, their gradients in ascending order.
  std::vector<ValueId> PartsOf(ValueId id) const;

  Graph* graph_;
  NodeId forward_nodes_;
  std::vector<bool> needs_;        // by value
  std::vector<NodeId> first_use_;  // by value; kNoNode if no node reads it
  std::map<ValueId, std::vector<Contribution>> given_;
  std::map<ValueId, ValueId> finished_;  // parameters and inputs
  Node node_;
  NodeId node_id_ = kNoNode;
  ValueId dy_ = kNoValue;
};

// Emits the gradients of the operands of builder->node() that are needed. Throws Error (usage) for
// operators that have no gradient.
void ApplyGradientRule(GradientBuilder* builder);

}  // namespace acan::model
