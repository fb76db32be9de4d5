#include "gradient_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "acan/model/gradients.h"

namespace acan::model {
namespace {

constexpr double kStep = 1e-6;

// The losses of perceptrons count every label.
bool MayIgnoreLabels(const Graph& graph) {
  return std::none_of(graph.nodes().begin(), graph.nodes().end(), [](const Node& node) {
    const auto* loss = std::get_if<CrossEntropy>(&node.op);
    return loss != nullptr && loss->order == ExponentialOrder::kLeaves;
  });
}

std::int64_t RandomInteger(const Graph& graph, const Input& input, std::int64_t place,
                           Random* random) {
  switch (input.role) {
    case InputRole::kLabels:
      if (place > 0 && MayIgnoreLabels(graph) && Draw(random, 0, 4) == 0)
        return CrossEntropy{}.ignored_label;
      return Draw(random, 0, input.bound - 1);
    case InputRole::kLengths:
      return Draw(random, 1, input.bound);
    default:
      return Draw(random, 0, input.bound - 1);
  }
}

// The loss after one element of one value is changed by `by`.
double LossMoved(Reference* reference, ValueId id, std::size_t element, double by) {
  double& value = reference->Mutable(id).values[element];
  const double before = value;
  value = before + by;
  reference->Run();
  value = before;
  return reference->Loss();
}

}  // namespace

std::int64_t Draw(Random* random, std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(*random);
}

Matrix RandomValue(const Graph& graph, ValueId id, std::int64_t samples, Random* random) {
  const Value& value = graph.value(id);
  Matrix matrix(TotalRows(value.shape, samples), value.shape.features);
  std::normal_distribution<double> normal;
  for (std::size_t i = 0; i < matrix.values.size(); ++i) {
    double drawn = normal(*random);
    if (value.source == Source::kInput) {
      const Input& input = graph.inputs()[static_cast<std::size_t>(value.index)];
      if (value.shape.element == Element::kInteger) {
        drawn =
            static_cast<double>(RandomInteger(graph, input, static_cast<std::int64_t>(i), random));
      }
    } else {
      const Parameter& parameter = graph.parameter(value.index);
      if (parameter.role == Role::kScale) drawn = 1 + 0.3 * drawn;
      if (parameter.role == Role::kStatistic) drawn = 0.5 + std::fabs(drawn);
      if (parameter.role == Role::kMatrix) {
        drawn /= std::sqrt(static_cast<double>(parameter.columns));
      }
    }
    matrix.values[i] = drawn;
  }
  return matrix;
}

std::set<std::string> ExpectGradientsAreRight(const Graph& forward, std::int64_t samples,
                                              Random* random, const CheckLimits& limits) {
  std::vector<ValueId> also;
  for (const Input& input : forward.inputs()) {
    if (input.role == InputRole::kNumbers) also.push_back(input.value);
  }
  const Graph graph = WithGradients(forward, also);
  Validate(graph);
  const Batch batch{samples, 7, 3};
  Reference all(graph, batch);
  Reference only_forward(forward, batch);
  for (ValueId id = 0; id < static_cast<ValueId>(forward.values().size()); ++id) {
    if (forward.value(id).source == Source::kNode) continue;
    const Matrix value = RandomValue(forward, id, samples, random);
    all.Set(id, value);
    only_forward.Set(id, value);
  }
  all.Run();
  for (const Gradient& gradient : graph.gradients()) {
    const Matrix& found = all[gradient.value];
    double most = 0;
    for (const double element : found.values) most = std::max(most, std::fabs(element));
    std::vector<std::size_t> elements(found.values.size());
    for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = i;
    std::shuffle(elements.begin(), elements.end(), *random);
    elements.resize(std::min(elements.size(), static_cast<std::size_t>(limits.elements)));
    for (const std::size_t element : elements) {
      const double up = LossMoved(&only_forward, gradient.of, element, kStep);
      const double down = LossMoved(&only_forward, gradient.of, element, -kStep);
      EXPECT_NEAR(found.values[element], (up - down) / (2 * kStep), limits.tolerance * most + 2e-9)
          << graph.value(gradient.of).name << " " << ToText(graph.value(gradient.of).shape)
          << " element " << element << " of " << samples << " samples";
    }
  }
  std::set<std::string> operators;
  for (const Node& node : graph.nodes()) operators.emplace(RowOf(node.op).name);
  return operators;
}

}  // namespace acan::model
