#include <fmt/format.h>

#include "acan/core/error.h"
#include "composer.h"

namespace acan::model {

Graph Mlp(const MlpOptions& options, Mode mode) {
  const std::vector<std::int64_t>& layers = options.layers;
  if (layers.size() < 2) {
    throw UsageError(
        fmt::format("model: layers has {} entries; it needs the inputs, any number of "
                    "hidden sizes, and the outputs",
                    layers.size()));
  }
  CheckCount("the number of layers", static_cast<std::int64_t>(layers.size()) - 1, 1, kMaxLayers);
  for (std::size_t i = 0; i < layers.size(); ++i) {
    CheckCount(fmt::format("layers[{}]", i), layers[i]);
  }
  Composer composer(mode);
  Graph& graph = composer.graph();
  ValueId x = graph.AddInput("x", InputRole::kNumbers, 1, layers.front());
  for (std::size_t i = 1; i < layers.size(); ++i) {
    const std::string name = fmt::format("layers.{}", i - 1);
    const Initial initial = UniformByInputs(layers[i - 1]);
    x = composer.Linear(name, x, layers[i], {initial, initial});
    if (i + 1 < layers.size() && options.activation) {
      x = graph.Add(name + ".activation", Activation{*options.activation, options.clip_bound}, {x});
    }
  }
  graph.AddOutput("outputs", x);
  if (options.loss == LossKind::kCrossEntropy) {
    if (layers.back() < 2) {
      throw UsageError(fmt::format(
          "model: layers ends with {}, but cross entropy needs at least 2 classes", layers.back()));
    }
    const ValueId labels = graph.AddInput("labels", InputRole::kLabels, 1, 1, layers.back());
    CrossEntropy loss;
    loss.order = ExponentialOrder::kLeaves;
    graph.AddLoss(graph.Add("loss", loss, {x, labels}));
  } else {
    const ValueId targets = graph.AddInput("targets", InputRole::kTargets, 1, layers.back());
    graph.AddLoss(graph.Add("loss", SquaredError{}, {x, targets}));
  }
  return std::move(composer).Take();
}

}  // namespace acan::model
