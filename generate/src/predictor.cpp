#include "acan/generate/predictor.h"

#include <fmt/format.h>

#include <algorithm>

#include "acan/core/error.h"
#include "acan/core/model.h"
#include "uploads.h"

namespace acan {
namespace {

const model::GraphOutput& FindOutput(const model::Graph& graph, const std::string& name) {
  std::string names;
  for (const model::GraphOutput& output : graph.outputs()) {
    if (output.name == name) return output;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", output.name);
  }
  throw UsageError(fmt::format("the model has no output \"{}\"; it has {}", name,
                               names.empty() ? "none" : names));
}

// A task keeps only values that a later node reads, so this adds a node that reads the output.
model::Graph WithReader(model::Graph graph, model::ValueId output) {
  std::string name = "predicted";
  const auto is_taken = [&] {
    return std::ranges::any_of(graph.values(), [&](const auto& v) { return v.name == name; }) ||
           std::ranges::any_of(graph.outputs(), [&](const auto& o) { return o.name == name; });
  };
  while (is_taken()) name += "'";
  graph.AddOutput(name, graph.Add(name, model::Scale{1.0f}, {output}));
  return graph;
}

}  // namespace

Predictor::Predictor(std::unique_ptr<Device> device, const model::Graph& graph,
                     const ModelReader& weights, const std::string& output, Training training)
    : device_(std::move(device)) {
  const model::ValueId value = FindOutput(graph, output).value;
  rows_ = graph.value(value).shape.rows;
  features_ = graph.value(value).shape.features;
  graph_ = std::make_unique<const LoweredGraph>(
      std::make_shared<const model::Graph>(WithReader(graph, value)));
  training.precision = Precision::kExact;
  calls_ = CallsOfSample(*graph_, training, graph_->value(value).producer);
  const std::vector<BufferPtr> of_parameters = UploadWeights(*device_, weights);
  const std::vector<BufferPtr> of_tables = UploadTables(*device_, *graph_);
  buffers_.resize(calls_.task.buffers.size());
  for (const RowCalls::TaskInput& input : calls_.inputs) {
    if (input.source == RowCalls::Source::kInput) continue;
    const bool is_table = input.source == RowCalls::Source::kTable;
    buffers_[input.buffer] =
        (is_table ? of_tables : of_parameters)[static_cast<std::size_t>(input.index)];
  }
}

std::vector<float> Predictor::Predict(const SampleSet& samples, std::int64_t sample) const {
  std::vector<BufferPtr> buffers = buffers_;
  for (const RowCalls::TaskInput& input : calls_.inputs) {
    if (input.source != RowCalls::Source::kInput) continue;
    const model::Graph& graph = graph_->graph();
    const model::Input& of = graph.inputs()[static_cast<std::size_t>(input.index)];
    const model::Shape& shape = graph.value(of.value).shape;
    std::vector<std::uint32_t> words(static_cast<std::size_t>(shape.rows * shape.features));
    samples.Copy({of.name, sample, 0, {0, shape.rows}, {0, shape.features}}, words);
    buffers[input.buffer] = UploadWords(*device_, words.data(), words.size());
  }
  return RunRows(*device_, calls_, std::move(buffers));
}

}  // namespace acan
