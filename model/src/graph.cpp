#include "acan/model/graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "acan/core/error.h"
#include "infer.h"
#include "words.h"

namespace acan::model {
namespace {

void CheckLimits(const std::string& what, const Shape& shape) {
  if (shape.rows < 1 || shape.features < 1 || shape.rows > kMaxRows ||
      shape.features > kMaxFeatures || shape.rows > kMaxElements / shape.features) {
    throw UsageError(
        fmt::format("{} has the shape {}; rows and features must be at least 1, at most {}, and "
                    "their product at most {}",
                    what, ToText(shape), kMaxRows, kMaxElements));
  }
}

bool IsInteger(InputRole role) {
  return role == InputRole::kTokens || role == InputRole::kLabels || role == InputRole::kLengths;
}

std::int64_t Elements(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) {
    if (size < 1 || size > kMaxElements / elements) return -1;
    elements *= size;
  }
  return elements;
}

}  // namespace

ValueId Graph::AddValue(const std::string& name, const Shape& shape, Source source,
                        std::int32_t index, std::int32_t result) {
  if (name.empty()) throw UsageError("graph: a value has an empty name; every value needs one");
  CheckLimits(fmt::format("value '{}'", name), shape);
  if (!names_.insert(name).second) {
    throw UsageError(
        fmt::format("graph: there are two values named '{}'; names must differ", name));
  }
  values_.push_back({name, shape, source, index, result});
  return static_cast<ValueId>(values_.size() - 1);
}

ValueId Graph::AddInput(const std::string& name, InputRole role, std::int64_t rows,
                        std::int64_t features, std::int64_t bound) {
  Shape shape = PerSample(rows, features);
  if (IsInteger(role)) {
    shape.element = Element::kInteger;
    if (features != 1 || bound < 1 || (role == InputRole::kLengths && rows != 1)) {
      throw UsageError(
          fmt::format("input '{}' ({}) has {} rows, {} features and the bound {}; integers have "
                      "one feature, lengths one row, and their bound is at least 1",
                      name, Word(role), rows, features, bound));
    }
  }
  const auto index = static_cast<std::int32_t>(inputs_.size());
  const ValueId value = AddValue(name, shape, Source::kInput, index, 0);
  inputs_.push_back({name, role, bound, value});
  return value;
}

ValueId Graph::AddParameter(Parameter parameter) {
  const auto index = static_cast<std::int32_t>(parameters_.size());
  const Shape shape = Shared(parameter.rows, parameter.columns);
  CheckLimits(fmt::format("parameter '{}'", parameter.name), shape);
  if (Elements(parameter.file_shape) != parameter.elements()) {
    throw UsageError(fmt::format(
        "parameter '{}': its shape in files has {} elements, but the parameter has {} x {}",
        parameter.name, Elements(parameter.file_shape), parameter.rows, parameter.columns));
  }
  const ValueId value = AddValue(parameter.name, shape, Source::kParameter, index, 0);
  parameters_.push_back(std::move(parameter));
  parameter_values_.push_back(value);
  assigned_.push_back(kNoValue);
  return value;
}

NodeId Graph::AddNode(const std::string& name, Operator op, std::vector<ValueId> operands,
                      NodeId gradient_of) {
  const GraphOperatorRow& row = RowOf(op);
  if (static_cast<std::int64_t>(nodes_.size()) >= kMaxNodes) {
    throw UsageError(
        fmt::format("node '{}' ({}): a graph has at most {} nodes", name, row.name, kMaxNodes));
  }
  if (operands.size() < row.operands.size()) operands.resize(row.operands.size(), kNoValue);
  for (const ValueId operand : operands) {
    if (operand < kNoValue || operand >= static_cast<ValueId>(values_.size())) {
      throw UsageError(
          fmt::format("node '{}' ({}): its operands include value {}, but the graph "
                      "has {} values so far",
                      name, row.name, operand, values_.size()));
    }
  }
  const std::vector<Shape> shapes = InferShapes(*this, name, op, operands);
  assert(shapes.size() == row.results.size());
  const auto id = static_cast<NodeId>(nodes_.size());
  Node node{name, std::move(op), std::move(operands), {}, gradient_of};
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const std::string result = i == 0 ? name : fmt::format("{}:{}", name, row.results[i].name);
    node.results.push_back(
        AddValue(result, shapes[i], Source::kNode, id, static_cast<std::int32_t>(i)));
  }
  nodes_.push_back(std::move(node));
  return id;
}

ValueId Graph::Add(const std::string& name, Operator op, std::vector<ValueId> operands) {
  return node(AddNode(name, std::move(op), std::move(operands))).results.front();
}

void Graph::AddOutput(const std::string& name, ValueId output) {
  const Value& v = value(output);
  for (const GraphOutput& other : outputs_) {
    if (other.name != name) continue;
    throw UsageError(fmt::format("output '{}' is '{}' and cannot be '{}' too; names must differ",
                                 name, value(other.value).name, v.name));
  }
  outputs_.push_back({name, output});
}

void Graph::AddLoss(ValueId loss) {
  const Value& v = value(loss);
  const bool is_loss = v.source == Source::kNode && v.result == 0 &&
                       (std::holds_alternative<CrossEntropy>(node(v.index).op) ||
                        std::holds_alternative<SquaredError>(node(v.index).op));
  if (!is_loss) {
    throw UsageError(
        fmt::format("loss: '{}' of shape {} is not a loss; expected the first result of "
                    "cross_entropy or squared_error",
                    v.name, ToText(v.shape)));
  }
  if (std::find(losses_.begin(), losses_.end(), loss) != losses_.end()) {
    throw UsageError(fmt::format("loss: '{}' is a loss already; each counts once", v.name));
  }
  losses_.push_back(loss);
}

void Graph::AddAssignment(ParameterIndex id, ValueId new_value) {
  const Parameter& to = parameter(id);
  if (to.role != Role::kStatistic || value(ValueOf(id)).shape != value(new_value).shape) {
    throw UsageError(fmt::format(
        "parameter '{}' ({}, {}) cannot be assigned '{}' of shape {}; it must be a statistic of "
        "the same shape",
        to.name, Word(to.role), ToText(value(ValueOf(id)).shape), value(new_value).name,
        ToText(value(new_value).shape)));
  }
  ValueId& assigned = assigned_.at(static_cast<std::size_t>(id));
  if (assigned != kNoValue) {
    throw UsageError(fmt::format("parameter '{}' is assigned '{}' and cannot be assigned '{}' too",
                                 to.name, value(assigned).name, value(new_value).name));
  }
  assigned = new_value;
  assignments_.push_back({id, new_value});
}

void Graph::AddGradient(ValueId of, ValueId gradient) {
  assert(value(of).shape == value(gradient).shape);
  gradients_.push_back({of, gradient});
}

void Graph::AddStepCounter(const std::string& name) {
  step_counters_.push_back(name);
}

void Graph::AddTiedName(const std::string& name, ValueId parameter) {
  assert(value(parameter).source == Source::kParameter);
  tied_names_.push_back({name, value(parameter).index});
}

void Graph::SetFrozen(ParameterIndex id, bool frozen) {
  parameters_.at(static_cast<std::size_t>(id)).frozen = frozen;
}

void Graph::SetDecayed(ParameterIndex id, bool decayed) {
  parameters_.at(static_cast<std::size_t>(id)).decayed = decayed;
}

}  // namespace acan::model
