// Functions that examine a whole graph.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "acan/core/error.h"
#include "acan/core/parameter.h"
#include "acan/model/graph.h"
#include "words.h"

namespace acan::model {
namespace {

bool HasAny(const Node& node, const std::vector<bool>& values) {
  return std::any_of(node.results.begin(), node.results.end(),
                     [&](ValueId id) { return values[static_cast<std::size_t>(id)]; });
}

// Which values serve an output (of `outputs`), a loss, an assignment or a gradient, by ValueId.
std::vector<bool> Serving(const Graph& graph, const std::vector<GraphOutput>& outputs) {
  std::vector<bool> serves(graph.values().size());
  const auto mark = [&](ValueId id) { serves[static_cast<std::size_t>(id)] = true; };
  for (const GraphOutput& output : outputs) mark(output.value);
  for (const ValueId loss : graph.losses()) mark(loss);
  for (const Assignment& assignment : graph.assignments()) {
    mark(assignment.value);
    mark(graph.ValueOf(assignment.parameter));
  }
  for (const Gradient& gradient : graph.gradients()) mark(gradient.value);
  for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node) {
    if (!HasAny(*node, serves)) continue;
    for (const ValueId operand : node->operands) {
      if (operand != kNoValue) mark(operand);
    }
  }
  return serves;
}

std::string_view SourceName(Source source) {
  switch (source) {
    case Source::kInput:
      return "input";
    case Source::kParameter:
      return "parameter";
    case Source::kNode:
      break;
  }
  return "node";
}

// '*' stands for any characters.
bool Matches(std::string_view pattern, std::string_view text) {
  std::size_t p = 0, t = 0;
  std::size_t star = std::string_view::npos, after_star = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      after_star = t;
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      t = ++after_star;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

std::string ParameterLine(const Parameter& p) {
  std::string sizes;
  for (const std::int64_t size : p.file_shape) {
    sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", size);
  }
  return fmt::format("parameter {} [{}, {}]: {}, {}, file [{}] {}{}{}\n", p.name, p.rows, p.columns,
                     Word(p.role), ToText(p.initial), sizes, Word(p.file_layout),
                     p.frozen ? ", frozen" : "", p.decayed ? "" : ", not decayed");
}

std::string NodeLine(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  const GraphOperatorRow& row = RowOf(node.op);
  std::string operands;
  for (std::size_t i = 0; i < node.operands.size(); ++i) {
    const Port& port = row.operands[std::min(i, row.operands.size() - 1)];
    if (node.operands[i] == kNoValue) continue;
    operands += fmt::format("{}{}={}", operands.empty() ? "" : ", ", port.name,
                            graph.value(node.operands[i]).name);
  }
  std::string results;
  for (const ValueId result : node.results) {
    results += fmt::format("{}{}", results.empty() ? "" : ", ", ToText(graph.value(result).shape));
  }
  return fmt::format(
      "node {} {}: {} of {} -> {}{}\n", id, node.name, ToText(node.op), operands, results,
      node.gradient_of == kNoNode ? "" : fmt::format(", gradient of node {}", node.gradient_of));
}

// The name of the parameter whose optimizer state has this name in files; empty if there is none.
std::string_view ParameterOfState(std::string_view name) {
  for (const ParameterState state : StatesOf(kMaxOptimizerStates).subspan(1)) {
    const std::string suffix = StateSuffix(state);
    if (name.ends_with(suffix)) return name.substr(0, name.size() - suffix.size());
  }
  return "";
}

// Files of models and snapshots hold tensors by name, so names must be unique.
void CheckNamesInFiles(const Graph& graph) {
  std::unordered_set<std::string_view> parameters;
  for (const Parameter& parameter : graph.parameters()) parameters.insert(parameter.name);
  std::unordered_map<std::string_view, std::string> owners = {
      {"__metadata__", "the header of the file"}};
  const auto take = [&](std::string_view name, const std::string& owner) {
    const auto [at, is_new] = owners.emplace(name, owner);
    const std::string_view parameter = ParameterOfState(name);
    const bool is_state = parameters.contains(parameter);
    if (is_new && !is_state) return;
    throw UsageError(fmt::format(
        "graph: {} and {} would both be '{}' in files of the model; rename one", owner,
        is_new ? fmt::format("the optimizer's state of parameter '{}'", parameter) : at->second,
        name));
  };
  for (const Parameter& parameter : graph.parameters()) {
    take(parameter.name, fmt::format("parameter '{}'", parameter.name));
  }
  for (const std::string& counter : graph.step_counters()) {
    take(counter, "the step counter of a batch_norm");
  }
  for (const TiedName& tied : graph.tied_names()) {
    take(tied.name,
         fmt::format("a tied name of parameter '{}'", graph.parameter(tied.parameter).name));
  }
}

// No parameter has a name that matches `pattern`.
[[noreturn]] void NothingToFreeze(const Graph& graph, const std::string& pattern) {
  const std::string problem =
      fmt::format("train.freeze: no parameter's name matches '{}'; ", pattern);
  for (const TiedName& tied : graph.tied_names()) {
    if (!Matches(pattern, tied.name)) continue;
    throw UsageError(fmt::format("{}'{}' is the tensor of '{}'", problem, tied.name,
                                 graph.parameter(tied.parameter).name));
  }
  const std::vector<Parameter>& all = graph.parameters();
  throw UsageError(fmt::format("{}the {} parameters are '{}' to '{}'", problem, all.size(),
                               all.empty() ? "" : all.front().name,
                               all.empty() ? "" : all.back().name));
}

}  // namespace

void Validate(const Graph& graph) {
  if (graph.outputs().empty() && graph.losses().empty()) {
    throw UsageError("graph: it has neither an output nor a loss; add one");
  }
  const std::vector<bool> serves = Serving(graph, graph.outputs());
  for (const Value& value : graph.values()) {
    // A node may leave some of its results unread.
    if (value.source == Source::kNode) continue;
    if (!serves[static_cast<std::size_t>(&value - graph.values().data())]) {
      throw UsageError(fmt::format(
          "graph: {} '{}' of shape {} serves no output and no loss; remove it or use it",
          SourceName(value.source), value.name, ToText(value.shape)));
    }
  }
  for (const Node& node : graph.nodes()) {
    if (!HasAny(node, serves)) {
      throw UsageError(
          fmt::format("node '{}' ({}): none of its results serves an output or a loss; remove it "
                      "or use it",
                      node.name, RowOf(node.op).name));
    }
  }
  CheckNamesInFiles(graph);
}

bool HasDropout(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    if (const auto* attention = std::get_if<Attention>(&node.op)) return attention->dropout > 0;
    if (const auto* gradient = std::get_if<AttentionGradient>(&node.op)) {
      return gradient->forward.dropout > 0;
    }
    return std::holds_alternative<Dropout>(node.op);
  });
}

Graph WithoutOutputs(const Graph& graph) {
  const std::vector<bool> serves = Serving(graph, {});
  Graph kept;
  std::vector<ValueId> values(graph.values().size(), kNoValue);
  std::vector<NodeId> nodes(graph.nodes().size(), kNoNode);
  const auto kept_value = [&](ValueId id) {
    return id == kNoValue ? kNoValue : values[static_cast<std::size_t>(id)];
  };
  const auto add_node = [&](NodeId id) {
    const Node& node = graph.node(id);
    if (!HasAny(node, serves)) return;
    std::vector<ValueId> operands;
    for (const ValueId operand : node.operands) operands.push_back(kept_value(operand));
    const NodeId forward =
        node.gradient_of == kNoNode ? kNoNode : nodes[static_cast<std::size_t>(node.gradient_of)];
    const NodeId added = kept.AddNode(node.name, node.op, std::move(operands), forward);
    nodes[static_cast<std::size_t>(id)] = added;
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      values[static_cast<std::size_t>(node.results[i])] = kept.node(added).results[i];
    }
  };
  for (ValueId id = 0; id < static_cast<ValueId>(graph.values().size()); ++id) {
    const Value& value = graph.value(id);
    ValueId& added = values[static_cast<std::size_t>(id)];
    if (value.source == Source::kInput) {
      const Input& input = graph.inputs()[static_cast<std::size_t>(value.index)];
      added = kept.AddInput(input.name, input.role, value.shape.rows, value.shape.features,
                            input.bound);
    } else if (value.source == Source::kParameter) {
      added = kept.AddParameter(graph.parameter(value.index));
    } else if (value.result == 0) {
      add_node(value.index);
    }
  }
  for (const ValueId loss : graph.losses()) kept.AddLoss(kept_value(loss));
  for (const Assignment& of : graph.assignments()) {
    kept.AddAssignment(of.parameter, kept_value(of.value));
  }
  for (const Gradient& gradient : graph.gradients()) {
    kept.AddGradient(kept_value(gradient.of), kept_value(gradient.value));
  }
  for (const std::string& counter : graph.step_counters()) kept.AddStepCounter(counter);
  for (const TiedName& tied : graph.tied_names()) {
    kept.AddTiedName(tied.name, kept.ValueOf(tied.parameter));
  }
  return kept;
}

std::vector<std::vector<Use>> UsesOf(const Graph& graph) {
  std::vector<std::vector<Use>> uses(graph.values().size());
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    const std::vector<ValueId>& operands = graph.node(id).operands;
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] == kNoValue) continue;
      uses[static_cast<std::size_t>(operands[i])].push_back({id, static_cast<std::int32_t>(i)});
    }
  }
  return uses;
}

std::optional<Extent> ImageSizeOf(const Graph& graph, ValueId input) {
  // Row p of these values of samples belongs to pixel p. An operator that moves rows also changes
  // their number, except for windows, which declare the size.
  std::vector<bool> has_pixels(graph.values().size());
  has_pixels[static_cast<std::size_t>(input)] = true;
  const std::int64_t pixels = graph.value(input).shape.rows;
  for (const Node& node : graph.nodes()) {
    const auto reads_pixels = [&](ValueId id) {
      return id != kNoValue && has_pixels[static_cast<std::size_t>(id)];
    };
    if (std::ranges::none_of(node.operands, reads_pixels)) continue;
    if (reads_pixels(node.operands.front())) {
      if (const auto* op = std::get_if<Convolution>(&node.op)) return op->window.input;
      if (const auto* op = std::get_if<Pooling>(&node.op)) return op->window.input;
      if (const auto* op = std::get_if<Patches>(&node.op)) return op->input;
    }
    for (const ValueId result : node.results) {
      const Shape& shape = graph.value(result).shape;
      if (shape.rows_of != RowsOf::kSample || shape.rows != pixels) continue;
      has_pixels[static_cast<std::size_t>(result)] = true;
    }
  }
  return std::nullopt;
}

std::int64_t ParameterCount(const Graph& graph) {
  std::int64_t count = 0;
  for (const Parameter& parameter : graph.parameters()) {
    if (parameter.role != Role::kStatistic) count += parameter.elements();
  }
  return count;
}

void Freeze(Graph* graph, const std::vector<std::string>& patterns) {
  for (const std::string& pattern : patterns) {
    bool matched = false;
    for (ParameterIndex id = 0; id < static_cast<ParameterIndex>(graph->parameters().size());
         ++id) {
      const Parameter& parameter = graph->parameter(id);
      if (parameter.role == Role::kStatistic || !Matches(pattern, parameter.name)) continue;
      graph->SetFrozen(id, true);
      matched = true;
    }
    if (!matched) NothingToFreeze(*graph, pattern);
  }
}

void SetDecay(Graph* graph, DecayRule rule) {
  for (ParameterIndex id = 0; id < static_cast<ParameterIndex>(graph->parameters().size()); ++id) {
    const Role role = graph->parameter(id).role;
    const bool matrix = role == Role::kMatrix || role == Role::kEmbedding;
    graph->SetDecayed(id, role != Role::kStatistic && (rule == DecayRule::kEverything || matrix));
  }
}

std::string Dump(const Graph& graph) {
  std::string text;
  for (const Input& input : graph.inputs()) {
    text += fmt::format("input {} {}: {}{}\n", input.name, ToText(graph.value(input.value).shape),
                        Word(input.role),
                        input.bound > 0 ? fmt::format(", bound {}", input.bound) : "");
  }
  for (const Parameter& parameter : graph.parameters()) text += ParameterLine(parameter);
  for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes().size()); ++id) {
    text += NodeLine(graph, id);
  }
  for (const GraphOutput& output : graph.outputs()) {
    text += fmt::format("output {} = {}\n", output.name, graph.value(output.value).name);
  }
  for (const ValueId loss : graph.losses()) {
    text += fmt::format("loss {}\n", graph.value(loss).name);
  }
  for (const Assignment& assignment : graph.assignments()) {
    text += fmt::format("assign {} = {}\n", graph.parameter(assignment.parameter).name,
                        graph.value(assignment.value).name);
  }
  for (const Gradient& gradient : graph.gradients()) {
    text += fmt::format("gradient of {} = {}\n", graph.value(gradient.of).name,
                        graph.value(gradient.value).name);
  }
  for (const std::string& counter : graph.step_counters()) {
    text += fmt::format("step counter {}\n", counter);
  }
  for (const TiedName& tied : graph.tied_names()) {
    text += fmt::format("tied {} = {}\n", tied.name, graph.parameter(tied.parameter).name);
  }
  return text;
}

}  // namespace acan::model
