#include "acan/generate/output_graph.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <variant>

namespace acan {
namespace {

std::string FreeName(const model::Graph& graph, std::string name) {
  const auto is_taken = [&] {
    return std::ranges::any_of(graph.values(), [&](const auto& v) { return v.name == name; });
  };
  while (is_taken()) name += "'";
  return name;
}

// By ValueId: whether a slice of features that is needed reads it.
std::vector<bool> SlicedValues(const model::Graph& graph, const std::vector<bool>& needed) {
  std::vector<bool> is_sliced(graph.values().size());
  for (const model::Node& node : graph.nodes()) {
    const auto* slice = std::get_if<model::Slice>(&node.op);
    if (slice == nullptr || slice->axis != model::SliceAxis::kFeatures) continue;
    if (!needed[static_cast<std::size_t>(node.results.front())]) continue;
    is_sliced[static_cast<std::size_t>(node.operands.front())] = true;
  }
  return is_sliced;
}

// Copies to `to` what `value` depends on, and all parameters. Returns the copy of `value`.
model::ValueId CopyAncestors(const model::Graph& from, model::ValueId value, model::Graph* to) {
  const std::vector<bool> needed = AncestorsOf(from, value);
  const std::vector<bool> is_sliced = SlicedValues(from, needed);
  std::vector<model::ValueId> copies(from.values().size(), model::kNoValue);
  const auto copy_of = [&copies](model::ValueId id) -> model::ValueId& {
    return copies[static_cast<std::size_t>(id)];
  };
  std::vector<model::ValueId> sliced;
  for (const model::Input& input : from.inputs()) {
    if (!needed[static_cast<std::size_t>(input.value)]) continue;
    const model::Shape& shape = from.value(input.value).shape;
    copy_of(input.value) =
        to->AddInput(input.name, input.role, shape.rows, shape.features, input.bound);
    if (is_sliced[static_cast<std::size_t>(input.value)]) sliced.push_back(input.value);
  }
  for (std::size_t id = 0; id < from.parameters().size(); ++id) {
    const auto index = static_cast<model::ParameterIndex>(id);
    copy_of(from.ValueOf(index)) = to->AddParameter(from.parameter(index));
  }
  // An input is uploaded whole, so slices are parts of a value that is computed from it.
  for (const model::ValueId id : sliced) {
    const std::string name = FreeName(from, from.value(id).name + ".whole");
    copy_of(id) = to->Add(name, model::Scale{1.0f}, {copy_of(id)});
  }
  for (const model::Node& node : from.nodes()) {
    const bool is_needed = std::ranges::any_of(
        node.results, [&](model::ValueId id) { return needed[static_cast<std::size_t>(id)]; });
    if (!is_needed) continue;
    std::vector<model::ValueId> operands;
    for (const model::ValueId operand : node.operands) {
      operands.push_back(operand == model::kNoValue ? operand : copy_of(operand));
    }
    const model::NodeId copy = to->AddNode(node.name, node.op, std::move(operands));
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      copy_of(node.results[i]) = to->node(copy).results[i];
    }
  }
  return copy_of(value);
}

}  // namespace

std::vector<bool> AncestorsOf(const model::Graph& graph, model::ValueId value) {
  std::vector<bool> is_ancestor(graph.values().size());
  is_ancestor[static_cast<std::size_t>(value)] = true;
  // A node reads only values that precede it.
  for (auto node = graph.nodes().rbegin(); node != graph.nodes().rend(); ++node) {
    const bool is_needed = std::ranges::any_of(node->results, [&](model::ValueId id) {
      return is_ancestor[static_cast<std::size_t>(id)];
    });
    if (!is_needed) continue;
    for (const model::ValueId operand : node->operands) {
      if (operand != model::kNoValue) is_ancestor[static_cast<std::size_t>(operand)] = true;
    }
  }
  return is_ancestor;
}

OutputGraph MakeOutputGraph(const model::Graph& graph, model::ValueId value) {
  auto only = std::make_shared<model::Graph>();
  const model::ValueId output = CopyAncestors(graph, value, only.get());
  // A task keeps only values that a later node reads, so these nodes read the output and its copy.
  const model::ValueId copy = only->Add(FreeName(*only, "predicted"), model::Scale{1.0f}, {output});
  only->Add(FreeName(*only, "reader"), model::Scale{1.0f}, {copy});
  OutputGraph made{LoweredGraph(std::move(only))};
  made.last_node = made.lowered.value(output).producer;
  // The columns of a slice or a concatenation are those of a value that other nodes may make or
  // read in parts; its copy is whole.
  if (made.lowered.node(made.last_node).is_view) {
    made.last_node = made.lowered.value(copy).producer;
  }
  return made;
}

}  // namespace acan
