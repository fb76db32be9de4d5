#include "recompute.h"

#include <algorithm>
#include <utility>

#include "operator_kind.h"

namespace acan {
namespace {

bool IsCheap(const model::Operator& op) {
  if (const auto* activation = std::get_if<model::Activation>(&op)) {
    // Otherwise the gradient reads the result, and recomputing it would require keeping the
    // operand.
    return model::ReadsFor(activation->kind) == model::GradientReads::kOperand;
  }
  return IsOneOf<model::SwiGlu, model::LayerNorm, model::RmsNorm, model::Dropout, model::Rotary,
                 model::Multiply, model::Scale, model::ScaleColumns>(op);
}

bool IsOfBranch(const model::Operator& op) {
  return IsCheap(op) || IsOneOf<model::Activation, model::Linear, model::Attention,
                                model::Convolution, model::GroupNorm>(op);
}

}  // namespace

Recomputation::Recomputation(Recompute recompute, std::vector<LoweredNode>* nodes,
                             std::vector<LoweredValue>* values)
    : recompute_(recompute),
      nodes_(*nodes),
      values_(*values),
      before_(*nodes),
      again_(values->size(), -1) {
  const auto has = [&](auto is) { return std::any_of(before_.begin(), before_.end(), is); };
  const bool has_branches = has([](const LoweredNode& n) {
    return !n.is_backward && std::holds_alternative<model::Add>(n.node->op);
  });
  // With batch norm, the backward pass waits within each branch for sums over all rows, and would
  // have to keep over this wait what it recomputed before.
  const bool waits = has([](const LoweredNode& n) { return n.part == NodePart::kBatchSums; });
  if (recompute_ == Recompute::kBranches && (!has_branches || waits)) {
    recompute_ = Recompute::kElements;
  }
}

void Recomputation::Run() {
  std::vector<std::int32_t> place(before_.size());
  for (std::size_t id = 0; id < before_.size(); ++id) {
    LoweredNode node = before_[id];
    if (node.is_backward && !node.is_shared) {
      for (int& operand : node.operands) operand = Again(operand);
    }
    place[id] = static_cast<std::int32_t>(after_.size());
    after_.push_back(std::move(node));
  }
  // Existing values name their producer by its old number.
  for (std::size_t value = 0; value < again_.size(); ++value) {
    std::int32_t& producer = values_[value].producer;
    if (producer >= 0) producer = place[static_cast<std::size_t>(producer)];
  }
  nodes_ = std::move(after_);
}

bool Recomputation::IsAgain(const LoweredNode& node) const {
  if (node.is_backward || node.is_view || node.is_shared || node.part != NodePart::kAll) {
    return false;
  }
  const bool own_results = std::all_of(node.results.begin(), node.results.end(), [&](int result) {
    const LoweredValue& value = values_[static_cast<std::size_t>(result)];
    return value.kind == ValueKind::kRows && value.root == result;
  });
  const model::Operator& op = node.node->op;
  return own_results && (recompute_ == Recompute::kBranches ? IsOfBranch(op) : IsCheap(op));
}

// The value that a backward node reads instead of this one.
int Recomputation::Again(int id) {
  // Copies are read directly.
  if (id < 0 || id >= static_cast<int>(again_.size())) return id;
  if (again_[static_cast<std::size_t>(id)] >= 0) return again_[static_cast<std::size_t>(id)];
  LoweredValue value = values_[static_cast<std::size_t>(id)];
  int again = id;
  if (value.root != id) {
    const int root = Again(value.root);
    if (root != value.root) {
      again = static_cast<int>(values_.size());
      value.root = root;
      value.producer = values_[static_cast<std::size_t>(root)].producer;
      values_.push_back(std::move(value));
    }
  } else if (value.kind == ValueKind::kRows && value.producer >= 0 &&
             IsAgain(before_[static_cast<std::size_t>(value.producer)])) {
    Copy(value.producer);
    return again_[static_cast<std::size_t>(id)];
  }
  return again_[static_cast<std::size_t>(id)] = again;
}

void Recomputation::Copy(int producer) {
  LoweredNode copy = before_[static_cast<std::size_t>(producer)];
  for (int& operand : copy.operands) operand = Again(operand);
  copy.is_backward = true;
  const auto at = static_cast<std::int32_t>(after_.size());
  for (int& result : copy.results) {
    LoweredValue value = values_[static_cast<std::size_t>(result)];
    const int id = static_cast<int>(values_.size());
    value.root = id;
    value.producer = at;
    values_.push_back(std::move(value));
    again_[static_cast<std::size_t>(std::exchange(result, id))] = id;
  }
  after_.push_back(std::move(copy));
}

}  // namespace acan
