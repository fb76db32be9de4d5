#include "acan/manager/lowered_graph.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "operator_kind.h"
#include "recompute.h"

namespace acan {
namespace {

// A value made only of sums becomes kShared when its node is added.
ValueKind KindOf(const model::Value& value) {
  switch (value.source) {
    case model::Source::kInput:
      return ValueKind::kInput;
    case model::Source::kParameter:
      return ValueKind::kParameter;
    case model::Source::kNode:
      break;
  }
  return value.shape.rows_of == model::RowsOf::kSample ? ValueKind::kRows : ValueKind::kSum;
}

}  // namespace

LoweredGraph::LoweredGraph(std::shared_ptr<const model::Graph> graph, Recompute recompute)
    : graph_(std::move(graph)) {
  for (const model::Value& value : graph_->values()) {
    LoweredValue lowered;
    lowered.name = value.name;
    lowered.rows = value.shape.rows;
    lowered.columns = value.shape.features;
    lowered.kind = KindOf(value);
    lowered.index = value.source == model::Source::kNode ? -1 : value.index;
    AddValue(std::move(lowered));
  }
  for (const model::Node& node : graph_->nodes()) AddNode(node);
  LeaveOutUnreadNorms();
  MakeViews();
  ComputeAgain(recompute);
  FindGradients();
}

int LoweredGraph::AddValue(LoweredValue value) {
  value.root = static_cast<int>(values_.size());
  values_.push_back(std::move(value));
  return values_.back().root;
}

void LoweredGraph::AddNode(const model::Node& node) {
  if (std::holds_alternative<model::BatchNorm>(node.op)) return AddBatchNorm(node);
  LoweredNode lowered;
  lowered.node = &node;
  lowered.operands.assign(node.operands.begin(), node.operands.end());
  lowered.results.assign(node.results.begin(), node.results.end());
  lowered.is_backward = node.gradient_of != model::kNoNode;
  lowered.is_shared =
      std::all_of(lowered.operands.begin(), lowered.operands.end(),
                  [&](int operand) { return operand < 0 || !value(operand).IsOfSamples(); }) &&
      graph_->value(node.results.front()).shape.rows_of == model::RowsOf::kAll;
  if (IsOneOf<model::BatchNormSums, model::BatchNormGradient>(node.op)) {
    // Replaces the mean and the variance by the sums from which they are computed.
    for (int& operand : lowered.operands) {
      const int sum = SumOfStatistic(operand);
      if (sum >= 0) operand = sum;
    }
  }
  if (lowered.is_shared) {
    for (const int result : lowered.results) {
      values_[static_cast<std::size_t>(result)].kind = ValueKind::kShared;
    }
  }
  AddHidden(&lowered);
  node_of_.push_back(AddPart(std::move(lowered)));
}

int LoweredGraph::AddPart(LoweredNode lowered) {
  const auto id = static_cast<std::int32_t>(nodes_.size());
  for (const int result : lowered.results) {
    values_[static_cast<std::size_t>(result)].producer = id;
  }
  nodes_.push_back(std::move(lowered));
  return id;
}

void LoweredGraph::AddBatchNorm(const model::Node& node) {
  const int x = node.operands[0];
  const auto sum = [&] {
    LoweredValue hidden;
    hidden.name = node.name;
    hidden.kind = ValueKind::kSum;
    hidden.rows = 1;
    hidden.columns = value(x).columns;
    return AddValue(std::move(hidden));
  };
  const auto part = [&](NodePart of, std::vector<int> operands, std::vector<int> results) {
    LoweredNode lowered;
    lowered.node = &node;
    lowered.part = of;
    lowered.operands = std::move(operands);
    lowered.results = std::move(results);
    return AddPart(std::move(lowered));
  };
  const int sums = sum(), squares = sum();
  part(NodePart::kBatchSums, {x}, {sums});
  part(NodePart::kBatchSquares, {sums, x}, {squares});
  std::vector<int> operands(node.operands.begin(), node.operands.end());
  operands.insert(operands.end(), {sums, squares});
  const int id = part(NodePart::kBatchNorm, std::move(operands), {node.results[0]});
  // Every reader of the mean and the variance computes them from the sums.
  for (const std::size_t statistic : {1, 2}) {
    LoweredValue& made = values_[static_cast<std::size_t>(node.results[statistic])];
    made.kind = ValueKind::kShared;
    made.producer = id;
  }
  node_of_.push_back(id);
}

int LoweredGraph::SumOfStatistic(int value) const {
  const LoweredValue& v = this->value(value);
  if (v.kind != ValueKind::kShared || v.producer < 0) return -1;
  const LoweredNode& made_by = node(v.producer);
  if (made_by.part != NodePart::kBatchNorm) return -1;
  const bool is_mean = made_by.node->results[1] == value;
  return made_by.operands[made_by.operands.size() - (is_mean ? 2 : 1)];
}

// Adds the hidden results that a forward operator leaves for its gradient.
void LoweredGraph::AddHidden(LoweredNode* lowered) {
  const model::Operator& op = lowered->node->op;
  const auto make = [&](std::int64_t columns, bool one_row = false) {
    LoweredValue hidden;
    hidden.name = lowered->node->name;
    hidden.rows = one_row ? 1 : value(lowered->operands.front()).rows;
    hidden.columns = columns;
    lowered->results.push_back(AddValue(std::move(hidden)));
  };
  // The hidden results of the forward node follow those that the graph names.
  const auto take = [&](std::size_t known) {
    assert(lowered->node->gradient_of != model::kNoNode);
    const LoweredNode& forward =
        node(node_of_[static_cast<std::size_t>(lowered->node->gradient_of)]);
    for (std::size_t i = known; i < forward.results.size(); ++i) {
      lowered->operands.push_back(forward.results[i]);
    }
  };
  if (IsOneOf<model::LayerNorm, model::RmsNorm>(op)) make(2);
  if (const auto* norm = std::get_if<model::GroupNorm>(&op)) make(2 * norm->groups, true);
  if (IsOneOf<model::LayerNormGradient, model::LayerNormScaleGradient, model::RmsNormGradient,
              model::RmsNormScaleGradient, model::GroupNormGradient, model::GroupNormScaleGradient>(
          op)) {
    take(1);
  }
  if (const auto* loss = std::get_if<model::CrossEntropy>(&op);
      loss != nullptr && loss->order == model::ExponentialOrder::kLanes) {
    make(1);  // each row's largest logit
    make(3);  // and sums
  }
  if (IsOneOf<model::CrossEntropyGradient>(op)) take(2);
  if (const auto* rotary = std::get_if<model::Rotary>(&op)) {
    const int cosines = TableOf({value(lowered->operands.front()).rows, rotary->head_size,
                                 static_cast<double>(rotary->base)});
    lowered->operands.push_back(cosines);
    lowered->operands.push_back(cosines + 1);
  }
}

int LoweredGraph::TableOf(const RotaryTable& table) {
  const auto at = std::find(tables_.begin(), tables_.end(), table);
  if (at != tables_.end()) return table_values_[static_cast<std::size_t>(at - tables_.begin())];
  tables_.push_back(table);
  for (int i = 0; i < 2; ++i) {
    LoweredValue value;
    value.name = i == 0 ? "cosines" : "sines";
    value.kind = ValueKind::kTable;
    value.rows = table.positions;
    value.columns = table.head_size / 2;
    value.index = static_cast<std::int32_t>(2 * tables_.size()) - 2 + i;
    const int id = AddValue(std::move(value));
    if (i == 0) table_values_.push_back(id);
  }
  return table_values_.back();
}

// A batch norm of which only the running statistics are wanted has nothing to compute for each row.
void LoweredGraph::LeaveOutUnreadNorms() {
  std::vector<bool> is_read(values_.size());
  const auto mark = [&](int id) {
    if (id >= 0) is_read[static_cast<std::size_t>(id)] = true;
  };
  for (const model::GraphOutput& output : graph_->outputs()) mark(output.value);
  for (const LoweredNode& node : nodes_) std::ranges::for_each(node.operands, mark);
  for (LoweredNode& node : nodes_) {
    if (node.part != NodePart::kBatchNorm) continue;
    node.is_shared = !is_read[static_cast<std::size_t>(node.results.front())];
  }
}

// ---- views -------------------------------------------------------------------------------------

void LoweredGraph::MakeViews() {
  for (LoweredNode& node : nodes_) {
    const auto* concat = std::get_if<model::Concat>(&node.node->op);
    if (concat != nullptr && concat->axis == model::SliceAxis::kFeatures) ViewConcat(&node);
  }
  for (LoweredNode& node : nodes_) {
    const auto* slice = std::get_if<model::Slice>(&node.node->op);
    if (slice != nullptr && slice->axis == model::SliceAxis::kFeatures) ViewSlice(&node);
  }
}

void LoweredGraph::ViewSlice(LoweredNode* node) {
  const auto& slice = std::get<model::Slice>(node->node->op);
  const LoweredValue& x = value(node->operands.front());
  LoweredValue& y = values_[static_cast<std::size_t>(node->results.front())];
  if (y.root != node->results.front()) return;  // it is a part of a concatenation: copied
  y.root = x.root;
  y.first_column = x.first_column + slice.begin;
  node->is_view = true;
}

// Makes operands views of the result, where a node makes each of them for no other reader.
void LoweredGraph::ViewConcat(LoweredNode* node) {
  const int whole = node->results.front();
  std::vector<int> seen;
  const bool possible = std::all_of(node->operands.begin(), node->operands.end(), [&](int operand) {
    const LoweredValue& x = value(operand);
    const bool is_new = std::find(seen.begin(), seen.end(), operand) == seen.end();
    seen.push_back(operand);
    return is_new && x.kind == ValueKind::kRows && x.root == operand &&
           !std::holds_alternative<model::Slice>(this->node(x.producer).node->op) &&
           !this->node(x.producer).is_view;  // otherwise its own parts would have to move with it
  });
  if (!possible || value(whole).root != whole) return;
  std::int64_t first = 0;
  for (const int operand : node->operands) {
    LoweredValue& x = values_[static_cast<std::size_t>(operand)];
    x.root = whole;
    x.first_column = first;
    first += x.columns;
  }
  node->is_view = true;
}

void LoweredGraph::ComputeAgain(Recompute recompute) {
  if (recompute == Recompute::kNothing) return;
  Recomputation(recompute, &nodes_, &values_).Run();
}

// ---- gradients ---------------------------------------------------------------------------------

void LoweredGraph::FindGradients() {
  gradients_.assign(graph_->parameters().size(), -1);
  parameter_of_sum_.assign(values_.size(), -1);
  for (const model::Assignment& assignment : graph_->assignments()) {
    const int sum = SumForUpdate(*this, assignment.parameter);
    parameter_of_sum_[static_cast<std::size_t>(sum)] = assignment.parameter;
  }
  for (const model::Gradient& gradient : graph_->gradients()) {
    const model::Value& of = graph_->value(gradient.of);
    if (of.source != model::Source::kParameter) continue;
    gradients_[static_cast<std::size_t>(of.index)] = gradient.value;
    // All sums that contribute to it have its shape.
    std::vector<int> open{gradient.value};
    while (!open.empty()) {
      const int id = open.back();
      open.pop_back();
      parameter_of_sum_[static_cast<std::size_t>(id)] = of.index;
      if (value(id).kind != ValueKind::kShared) continue;
      for (const int operand : node(value(id).producer).operands) open.push_back(operand);
    }
  }
}

std::int64_t SumsOfGradient(const LoweredGraph& graph, std::int32_t parameter) {
  std::vector<int> open{graph.GradientOf(parameter)};
  std::int64_t sums = 0;
  while (!open.empty()) {
    const int id = open.back();
    open.pop_back();
    if (id < 0) continue;
    if (graph.value(id).kind == ValueKind::kSum) {
      ++sums;
      continue;
    }
    for (const int operand : graph.node(graph.value(id).producer).operands) open.push_back(operand);
  }
  return sums;
}

int SumForUpdate(const LoweredGraph& graph, std::int32_t parameter) {
  const model::ValueId assigned = graph.graph().AssignedTo(parameter);
  if (assigned == model::kNoValue) return graph.GradientOf(parameter);
  const LoweredNode& average = graph.node(graph.value(assigned).producer);
  return graph.SumOfStatistic(average.operands[1]);
}

bool ReducesRows(const LoweredGraph& graph, int node) {
  const LoweredNode& lowered = graph.node(node);
  return graph.value(lowered.results.front()).kind == ValueKind::kSum ||
         IsOneOf<model::CrossEntropy, model::SquaredError>(lowered.node->op);
}

bool IsPositionsGradient(const LoweredGraph& graph, int node) {
  return std::holds_alternative<model::LearnedPositionsGradient>(graph.node(node).node->op);
}

// ---- columns -----------------------------------------------------------------------------------

namespace {

std::int64_t HeadsOf(const LoweredGraph& graph, const LoweredNode& node) {
  const model::Operator& op = node.node->op;
  if (const auto* a = std::get_if<model::Attention>(&op)) return a->key_value_heads;
  if (const auto* a = std::get_if<model::AttentionGradient>(&op)) return a->forward.key_value_heads;
  const auto& rotary = std::get<model::Rotary>(op);
  return graph.value(node.operands.front()).columns / rotary.head_size;
}

// Axes along which calls can be cut for the rows of one task.
bool IsCutByColumns(model::Axis axis) {
  return axis == model::Axis::kColumns || axis == model::Axis::kHeads;
}

}  // namespace

std::int64_t ColumnUnits(const LoweredGraph& graph, int node) {
  const LoweredNode& lowered = graph.node(node);
  if (IsOneOf<model::CrossEntropy, model::Concat, model::Slice, model::BatchNorm,
              model::BatchNormSums, model::BatchNormGradient, model::BatchNormInference,
              model::BatchNormInferenceGradient>(lowered.node->op)) {
    return 1;  // classes are cut in phases; vectors that belong to columns are read whole
  }
  if (const auto* loss = std::get_if<model::CrossEntropyGradient>(&lowered.node->op);
      loss != nullptr && loss->forward.order != model::ExponentialOrder::kLanes) {
    return 1;
  }
  const model::GraphOperatorRow& row = model::RowOf(lowered.node->op);
  for (const model::Cut& cut : row.cuts) {
    if (cut.axis == model::Axis::kHeads) return HeadsOf(graph, lowered);
    if (cut.axis == model::Axis::kColumns) return graph.value(lowered.results.front()).columns;
  }
  return 1;
}

Range ColumnsOf(const LoweredGraph& graph, int node, bool is_result, std::size_t port, int part,
                const ColumnParts& parts) {
  const LoweredNode& lowered = graph.node(node);
  const std::vector<int>& ids = is_result ? lowered.results : lowered.operands;
  const std::int64_t columns = graph.value(ids[port]).columns;
  if (parts.count == 1) return {0, columns};
  const model::GraphOperatorRow& row = model::RowOf(lowered.node->op);
  const std::vector<model::Port>& ports = is_result ? row.results : row.operands;
  if (port >= ports.size() || !IsCutByColumns(ports[port].columns)) return {0, columns};
  if (parts.span > 0) {
    return {parts.span * part, std::min(parts.span * (part + 1), columns)};
  }
  const std::int64_t units = ColumnUnits(graph, node), width = columns / units;
  return {units * part / parts.count * width, units * (part + 1) / parts.count * width};
}

}  // namespace acan
