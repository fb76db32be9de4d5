#include "acan/model/gradients.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "acan/core/error.h"
#include "gradient_builder.h"

namespace acan::model {

GradientBuilder::GradientBuilder(Graph* graph, const std::vector<ValueId>& also)
    : graph_(graph),
      forward_nodes_(static_cast<NodeId>(graph->nodes().size())),
      first_use_(graph->values().size(), kNoNode) {
  const std::vector<std::vector<Use>> uses = UsesOf(*graph);
  for (std::size_t i = 0; i < uses.size(); ++i) {
    if (!uses[i].empty()) first_use_[i] = uses[i].front().node;
  }
  FindNeeds(also);
}

void GradientBuilder::FindNeeds(const std::vector<ValueId>& also) {
  needs_.resize(graph_->values().size());
  for (const ValueId id : also) {
    const Value& value = graph_->value(id);
    if (value.source != Source::kInput || value.shape.element != Element::kFloat) {
      throw UsageError(fmt::format(
          "gradients: '{}' is not an input of floats, so it has no gradient", value.name));
    }
    needs_[static_cast<std::size_t>(id)] = true;
  }
  for (ParameterIndex p = 0; p < static_cast<ParameterIndex>(graph_->parameters().size()); ++p) {
    if (graph_->parameter(p).trained()) {
      needs_[static_cast<std::size_t>(graph_->ValueOf(p))] = true;
    }
  }
  for (const Node& node : graph_->nodes()) {
    const bool any = std::any_of(node.operands.begin(), node.operands.end(), [&](ValueId id) {
      return id != kNoValue && needs_[static_cast<std::size_t>(id)];
    });
    for (const ValueId result : node.results) needs_[static_cast<std::size_t>(result)] = any;
  }
}

bool GradientBuilder::Needs(int operand) const {
  const ValueId id = this->operand(operand);
  return id != kNoValue && needs_[static_cast<std::size_t>(id)];
}

bool GradientBuilder::NeedsAny(int first, int last) const {
  for (int i = first; i <= last; ++i) {
    if (Needs(i)) return true;
  }
  return false;
}

std::vector<ValueId> GradientBuilder::EmitAll(const std::string& suffix, Operator op,
                                              std::vector<ValueId> operands) {
  const NodeId id = graph_->AddNode(fmt::format("{}.gradient.{}", node_.name, suffix),
                                    std::move(op), std::move(operands), node_id_);
  return graph_->node(id).results;
}

ValueId GradientBuilder::Emit(const std::string& suffix, Operator op,
                              std::vector<ValueId> operands) {
  return EmitAll(suffix, std::move(op), std::move(operands)).front();
}

void GradientBuilder::Give(int operand, ValueId gradient) {
  assert(Needs(operand));
  given_[this->operand(operand)].push_back({{node_id_, operand}, gradient, std::nullopt});
}

void GradientBuilder::GiveSlice(int operand, const Slice& slice) {
  assert(Needs(operand));
  given_[this->operand(operand)].push_back({{node_id_, operand}, dy_, slice});
}

std::vector<ValueId> GradientBuilder::PartsOf(ValueId id) const {
  std::vector<Contribution> parts = given_.at(id);
  const Shape& shape = graph_->value(id).shape;
  for (const Contribution& part : parts) {
    if (!part.slice || part.slice->axis != parts.front().slice->axis) return {};
  }
  std::sort(parts.begin(), parts.end(), [](const Contribution& a, const Contribution& b) {
    return a.slice->begin < b.slice->begin;
  });
  std::vector<ValueId> values;
  std::int64_t end = 0;
  for (const Contribution& part : parts) {
    if (part.slice->begin != end) return {};
    end = part.slice->end;
    values.push_back(part.gradient);
  }
  const bool positions = parts.front().slice->axis == SliceAxis::kPositions;
  if (end != (positions ? shape.rows : shape.features)) return {};
  return values;
}

ValueId GradientBuilder::Finish(ValueId id, NodeId belongs_to) {
  const auto given = given_.find(id);
  if (given == given_.end()) return kNoValue;
  const std::string name = graph_->value(id).name + ".gradient";
  const auto add = [&](const std::string& suffix, Operator op, std::vector<ValueId> operands,
                       NodeId of) {
    const NodeId node = graph_->AddNode(name + suffix, std::move(op), std::move(operands), of);
    return graph_->node(node).results.front();
  };
  std::vector<Contribution>& all = given->second;
  if (const std::vector<ValueId> parts = PartsOf(id); parts.size() > 1) {
    return add(".concat", Concat{all.front().slice->axis}, parts, belongs_to);
  }
  std::sort(all.begin(), all.end(),
            [](const Contribution& a, const Contribution& b) { return a.use < b.use; });
  const Shape shape = graph_->value(id).shape;
  ValueId sum = kNoValue;
  for (std::size_t i = 0; i < all.size(); ++i) {
    ValueId gradient = all[i].gradient;
    if (const std::optional<Slice>& slice = all[i].slice) {
      const bool positions = slice->axis == SliceAxis::kPositions;
      const std::int64_t size = positions ? shape.rows : shape.features;
      gradient = add(fmt::format(".slice{}", i), SliceGradient{slice->axis, slice->begin, size},
                     {gradient}, all[i].use.node);
    }
    sum = i == 0 ? gradient : add(fmt::format(".sum{}", i), Add{}, {sum, gradient}, belongs_to);
  }
  return sum;
}

void GradientBuilder::Visit(NodeId id, bool is_loss) {
  node_ = graph_->node(id);
  node_id_ = id;
  for (std::size_t i = 1; i < node_.results.size(); ++i) {
    if (!given_.contains(node_.results[i])) continue;
    throw UsageError(
        fmt::format("node '{}' ({}): its result '{}' has no gradient, but the loss depends on it",
                    node_.name, RowOf(node_.op).name, RowOf(node_.op).results[i].name));
  }
  const ValueId y = node_.results.front();
  if (!needs_[static_cast<std::size_t>(y)]) return;
  if (is_loss && given_.contains(y)) {
    throw UsageError(fmt::format("node '{}' ({}): it is a loss, so no other loss can depend on it",
                                 node_.name, RowOf(node_.op).name));
  }
  dy_ = is_loss ? kNoValue : Finish(y, id);
  if (is_loss || dy_ != kNoValue) ApplyGradientRule(this);
}

// A parameter's gradient is complete once its first consumer has been visited.
void GradientBuilder::FinishOperands(NodeId id) {
  const std::vector<ValueId> operands = graph_->node(id).operands;
  for (const ValueId operand : operands) {
    if (operand == kNoValue || finished_.contains(operand)) continue;
    const Source source = graph_->value(operand).source;
    const auto place = static_cast<std::size_t>(operand);
    if (source == Source::kNode || !needs_[place] || first_use_[place] != id) continue;
    if (const ValueId gradient = Finish(operand, id); gradient != kNoValue) {
      finished_[operand] = gradient;
    }
  }
}

void GradientBuilder::FinishRest() {
  const auto values = static_cast<ValueId>(needs_.size());
  for (ValueId id = 0; id < values; ++id) {
    const Value value = graph_->value(id);
    if (value.source == Source::kNode || !needs_[static_cast<std::size_t>(id)]) continue;
    if (!finished_.contains(id)) {
      const bool is_input = value.source == Source::kInput;
      throw UsageError(fmt::format(
          "{} '{}': the loss does not depend on it, so it has no gradient; {}leave it out",
          is_input ? "input" : "parameter", value.name,
          is_input ? "" : "freeze it (train.freeze), or "));
    }
    graph_->AddGradient(id, finished_[id]);
  }
}

void GradientBuilder::Run() {
  std::vector<bool> is_loss(static_cast<std::size_t>(forward_nodes_));
  for (const ValueId loss : graph_->losses()) {
    is_loss[static_cast<std::size_t>(graph_->value(loss).index)] = true;
  }
  for (NodeId id = forward_nodes_ - 1; id >= 0; --id) {
    Visit(id, is_loss[static_cast<std::size_t>(id)]);
    FinishOperands(id);
  }
  FinishRest();
}

Graph WithGradients(const Graph& forward, const std::vector<ValueId>& also) {
  if (forward.losses().empty()) {
    throw UsageError("gradients: the graph has no loss; add one to train it");
  }
  if (!forward.gradients().empty()) {
    throw UsageError("gradients: the graph has its gradients already");
  }
  Graph graph = forward;
  GradientBuilder(&graph, also).Run();
  return graph;
}

}  // namespace acan::model
