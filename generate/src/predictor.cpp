#include "acan/generate/predictor.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

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

OutputGraph GraphOfOutput(const model::Graph& graph, const std::string& name) {
  OutputGraph made = MakeOutputGraph(graph, FindOutput(graph, name).value);
  for (const model::Input& input : made.lowered.graph().inputs()) {
    if (input.name != "labels" && input.name != "targets") continue;
    throw UsageError(
        fmt::format("the output \"{}\" is computed from the input \"{}\", which samples to predict "
                    "do not have; expected an output that needs no labels and no targets",
                    name, input.name));
  }
  return made;
}

// Limits for the samples that are computed at once. With 64 samples, reading the weights costs
// little beside the arithmetic, so more samples would mainly need more memory.
constexpr std::int64_t kMostSamples = 64;
constexpr std::int64_t kMostElements = std::int64_t{1} << 24;  // of a value: 64 MiB

std::int64_t SamplesAtOnce(const OutputGraph& of) {
  const LoweredGraph& graph = of.lowered;
  std::int64_t largest = 1;  // elements per sample
  const auto look = [&](int id) {
    if (id < 0 || !graph.value(id).IsOfSamples()) return;
    largest = std::max(largest, graph.value(id).rows * graph.value(id).columns);
  };
  for (int id = 0; id <= of.last_node; ++id) {
    std::ranges::for_each(graph.node(id).operands, look);
    std::ranges::for_each(graph.node(id).results, look);
  }
  return std::clamp<std::int64_t>(kMostElements / largest, 1, kMostSamples);
}

Training InExactPrecision(Training training) {
  training.precision = Precision::kExact;
  return training;
}

}  // namespace

Predictor::Predictor(std::unique_ptr<Device> device, const model::Graph& graph,
                     const ModelReader& weights, const std::string& output, Training training)
    : device_(std::move(device)),
      training_(InExactPrecision(training)),
      graph_(GraphOfOutput(graph, output)) {
  const model::Shape& shape = graph.value(FindOutput(graph, output).value).shape;
  rows_ = shape.rows;
  features_ = shape.features;
  of_parameters_ = UploadWeights(*device_, weights);
  of_tables_ = UploadTables(*device_, graph_.lowered);
  samples_at_once_ = SamplesAtOnce(graph_);
}

const Predictor::Calls& Predictor::CallsFor(std::int64_t samples) {
  const auto [at, is_new] = calls_.try_emplace(samples);
  Calls& calls = at->second;
  if (!is_new) return calls;
  calls.rows = CallsOfSamples(graph_.lowered, training_, graph_.last_node, samples);
  calls.buffers.resize(calls.rows.task.buffers.size());
  for (const RowCalls::TaskInput& input : calls.rows.inputs) {
    if (input.source == RowCalls::Source::kInput) continue;
    const bool is_table = input.source == RowCalls::Source::kTable;
    calls.buffers[input.buffer] =
        (is_table ? of_tables_ : of_parameters_)[static_cast<std::size_t>(input.index)];
  }
  return calls;
}

std::vector<float> Predictor::Compute(const SampleSet& samples, const Range& of) {
  const Calls& calls = CallsFor(of.size());
  std::vector<BufferPtr> buffers = calls.buffers;
  for (const RowCalls::TaskInput& input : calls.rows.inputs) {
    if (input.source != RowCalls::Source::kInput) continue;
    const model::Graph& graph = graph_.lowered.graph();
    const model::Input& from = graph.inputs()[static_cast<std::size_t>(input.index)];
    const model::Shape& shape = graph.value(from.value).shape;
    const auto words_of_sample = static_cast<std::size_t>(shape.rows * shape.features);
    std::vector<std::uint32_t> words(static_cast<std::size_t>(of.size()) * words_of_sample);
    std::span<std::uint32_t> rest = words;
    for (std::int64_t sample = of.begin; sample < of.end; ++sample) {
      samples.Copy({from.name, sample, 0, {0, shape.rows}, {0, shape.features}},
                   rest.first(words_of_sample));
      rest = rest.subspan(words_of_sample);
    }
    buffers[input.buffer] = UploadWords(*device_, words.data(), words.size());
  }
  return RunRows(*device_, calls.rows, std::move(buffers));
}

std::vector<float> Predictor::Predict(const SampleSet& samples, const Range& of) {
  std::vector<float> outputs;
  for (std::int64_t first = of.begin; first < of.end;) {
    const std::int64_t end = std::min(first + samples_at_once_, of.end);
    try {
      const std::vector<float> some = Compute(samples, {first, end});
      outputs.insert(outputs.end(), some.begin(), some.end());
      first = end;
    } catch (const OutOfMemory&) {
      if (end - first == 1) throw;
      samples_at_once_ = (end - first) / 2;
    }
  }
  return outputs;
}

}  // namespace acan
