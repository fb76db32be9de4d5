#include <algorithm>
#include <cassert>
#include <utility>

#include "acan/core/text/json_text.h"
#include "acan/model/graph_text.h"
#include "attribute_text.h"

namespace acan::model {
namespace {

struct WriteInitial {
  json operator()(const Constant& c) const { return {{"constant", ShortNumber(c.value)}}; }
  json operator()(const Uniform& u) const {
    return {{"uniform", {ShortNumber(u.low), ShortNumber(u.high)}}};
  }
  json operator()(const Normal& n) const {
    return {{"normal", {ShortNumber(n.mean), ShortNumber(n.deviation)}}};
  }
  json operator()(const TruncatedNormal& n) const {
    return {
        {"truncated_normal",
         {ShortNumber(n.mean), ShortNumber(n.deviation), ShortNumber(n.low), ShortNumber(n.high)}}};
  }
};

json InputToJson(const Graph& graph, const Input& input) {
  const Shape& shape = graph.value(input.value).shape;
  json out = {{"name", input.name}, {"role", Word(input.role)}, {"rows", shape.rows}};
  if (shape.element == Element::kInteger) {
    out["bound"] = input.bound;
  } else {
    out["features"] = shape.features;
  }
  return out;
}

json ParameterToJson(const Graph& graph, ParameterIndex id) {
  const Parameter& parameter = graph.parameter(id);
  json out = {{"name", parameter.name},
              {"role", Word(parameter.role)},
              {"columns", parameter.columns},
              {"initial", std::visit(WriteInitial(), parameter.initial)}};
  const bool is_vector = parameter.role != Role::kMatrix && parameter.role != Role::kEmbedding;
  if (!is_vector) out["rows"] = parameter.rows;
  const std::vector<std::int64_t> usual =
      is_vector ? std::vector<std::int64_t>{parameter.columns}
                : std::vector<std::int64_t>{parameter.rows, parameter.columns};
  if (parameter.file_layout != FileLayout::kSame) out["file_layout"] = Word(parameter.file_layout);
  if (parameter.file_shape != usual && parameter.file_layout != FileLayout::kTransposed) {
    out["file_shape"] = parameter.file_shape;
  }
  for (const TiedName& tied : graph.tied_names()) {
    if (tied.parameter == id) out["tied_names"].push_back(tied.name);
  }
  return out;
}

// The running average that reads a result of a batch norm; its first operand is the statistic.
const Node& AverageOf(const Graph& graph, ValueId result) {
  const auto found = std::ranges::find_if(graph.nodes(), [&](const Node& node) {
    return std::holds_alternative<RunningAverage>(node.op) && node.operands[1] == result;
  });
  assert(found != graph.nodes().end());
  return *found;
}

json NodeToJson(const Graph& graph, const Node& node) {
  json attributes = json::object(), inputs = json::array();
  std::visit(
      [&attributes](const auto& op) {
        std::decay_t<decltype(op)>::Attributes(op, WriteAttribute{attributes});
      },
      node.op);
  std::vector<ValueId> operands = node.operands;
  while (!operands.empty() && operands.back() == kNoValue) operands.pop_back();
  if (std::holds_alternative<BatchNorm>(node.op)) {
    for (const std::size_t statistic : {1, 2}) {
      const Node& average = AverageOf(graph, node.results[statistic]);
      attributes["momentum"] = ShortNumber(std::get<RunningAverage>(average.op).momentum);
      operands.push_back(average.operands[0]);
    }
  }
  for (const ValueId operand : operands) {
    inputs.push_back(operand == kNoValue ? json(nullptr) : json(graph.value(operand).name));
  }
  json out = {{"name", node.name}, {"operator", RowOf(node.op).name}, {"inputs", inputs}};
  if (!attributes.empty()) out["attributes"] = std::move(attributes);
  return out;
}

// On one line, in a readable order: the name first.
std::string Line(const json& entry) {
  constexpr const char* kOrder[] = {
      "name",   "operator", "role",        "rows",       "columns",    "features",  "bound",
      "inputs", "initial",  "file_layout", "file_shape", "tied_names", "attributes"};
  std::string text;
  for (const char* key : kOrder) {
    if (!entry.contains(key)) continue;
    text += (text.empty() ? "\"" : ", \"") + std::string(key) + "\": " + JsonText(entry.at(key));
  }
  return "{" + text + "}";
}

// One line per entry.
std::string Lines(const std::vector<json>& entries) {
  std::string text;
  for (const json& entry : entries) {
    text += (text.empty() ? "\n    " : ",\n    ") + Line(entry);
  }
  return "[" + text + "\n  ]";
}

}  // namespace

std::string WriteGraph(const Graph& training) {
  assert(training.gradients().empty() && training.losses().size() == 1);
  std::vector<json> inputs, parameters, nodes;
  for (const Input& input : training.inputs()) inputs.push_back(InputToJson(training, input));
  for (ParameterIndex id = 0; id < static_cast<ParameterIndex>(training.parameters().size());
       ++id) {
    parameters.push_back(ParameterToJson(training, id));
  }
  for (const Node& node : training.nodes()) {
    if (std::holds_alternative<RunningAverage>(node.op)) continue;
    nodes.push_back(NodeToJson(training, node));
  }
  json outputs = json::object();
  for (const GraphOutput& output : training.outputs()) {
    outputs[output.name] = training.value(output.value).name;
  }
  return "{\n  \"format\": " + JsonText(kGraphFormat) + ",\n  \"inputs\": " + Lines(inputs) +
         ",\n  \"parameters\": " + Lines(parameters) + ",\n  \"nodes\": " + Lines(nodes) +
         ",\n  \"outputs\": " + JsonText(outputs) +
         ",\n  \"loss\": " + JsonText(training.value(training.losses().front()).name) + "\n}\n";
}

}  // namespace acan::model
