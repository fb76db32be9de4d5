#include "reference.h"

#include <stdexcept>

namespace acan::model {

void Reference::Set(ValueId id, const Matrix& value) {
  const Shape& shape = graph_.value(id).shape;
  if (value.rows != TotalRows(shape, batch_.samples) || value.columns != shape.features) {
    throw std::logic_error("reference: '" + graph_.value(id).name + "' has another shape");
  }
  values_[id] = value;
}

void Reference::Run() {
  for (const Node& node : graph_.nodes()) {
    std::vector<Matrix> results;
    for (const ValueId id : node.results) {
      const Shape& shape = graph_.value(id).shape;
      results.emplace_back(TotalRows(shape, batch_.samples), shape.features);
    }
    std::vector<const Matrix*> operands;
    for (const ValueId id : node.operands) {
      operands.push_back(id == kNoValue ? nullptr : &values_.at(id));
    }
    const Call call{batch_, operands, results};
    if (node.gradient_of == kNoNode) {
      ComputeForward(node.op, call);
    } else {
      ComputeBackward(node.op, call);
    }
    for (std::size_t i = 0; i < results.size(); ++i) {
      values_[node.results[i]] = std::move(results[i]);
    }
  }
}

double Reference::Loss() const {
  double loss = 0;
  for (const ValueId id : graph_.losses()) {
    const Node& node = graph_.node(graph_.value(id).index);
    double sum = 0;
    for (const double row : values_.at(id).values) sum += row;
    if (const auto* op = std::get_if<CrossEntropy>(&node.op)) {
      loss += sum / CountedLabels(*op, values_.at(node.operands[1]));
    } else {
      loss += sum / static_cast<double>(values_.at(node.operands[0]).values.size());
    }
  }
  return loss;
}

}  // namespace acan::model
