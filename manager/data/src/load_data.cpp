#include "acan/manager/load_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "acan/core/error.h"
#include "acan/core/system_error_text.h"
#include "acan/manager/dataset.h"
#include "generated.h"
#include "value_files.h"

namespace acan {
namespace {

using model::InputRole;

std::shared_ptr<const SampleSet> InMemory(SampleValues values, const WantedValues& wanted) {
  std::string sha256 = HashOf(values);
  return std::make_shared<DataSet>(std::move(values), wanted.labels ? wanted.outputs : 0,
                                   std::move(sha256));
}

// Rows of numbers, each with a label or targets.
Data LoadValues(const Job& job, const WantedValues& wanted) {
  Data data;
  if (!job.data.generated.empty()) {
    GeneratedValues made = GenerateRegression(job.data.generated_samples, wanted.inputs,
                                              wanted.outputs, job.training.seed);
    data.train = InMemory(std::move(made.train), wanted);
    data.test = InMemory(std::move(made.test), wanted);
    return data;
  }
  data.train =
      InMemory(ReadValueFiles(job.data.train_inputs, job.data.train_targets, wanted), wanted);
  if (!job.data.test_inputs.empty()) {
    data.test =
        InMemory(ReadValueFiles(job.data.test_inputs, job.data.test_targets, wanted), wanted);
  }
  return data;
}

Data Load(const Job& job, const std::vector<WantedInput>& wanted) {
  const WantedInput* x = FindInput(wanted, "x");
  const WantedInput* labels = FindInput(wanted, "labels");
  const WantedInput* targets = FindInput(wanted, "targets");
  if (wanted.size() != 2 || x == nullptr || (labels == nullptr) == (targets == nullptr)) {
    throw UsageError("data: no kind of data has the inputs of this model");
  }
  return LoadValues(job,
                    {x->features, labels ? labels->bound : targets->features, labels != nullptr});
}

}  // namespace

const WantedInput* FindInput(const std::vector<WantedInput>& inputs, std::string_view name) {
  const auto found = std::ranges::find(inputs, name, &WantedInput::name);
  return found == inputs.end() ? nullptr : &*found;
}

std::vector<WantedInput> WantedInputs(const Model& model) {
  std::vector<WantedInput> wanted = {{"x", InputRole::kNumbers, 1, model.layers.front()}};
  if (model.loss == Loss::kCrossEntropy) {
    wanted.push_back({"labels", InputRole::kLabels, 1, 1, model.layers.back()});
  } else {
    wanted.push_back({"targets", InputRole::kTargets, 1, model.layers.back()});
  }
  return wanted;
}

std::vector<WantedInput> WantedInputs(const model::Graph& graph) {
  std::vector<WantedInput> wanted;
  const std::vector<std::vector<model::Use>> uses = UsesOf(graph);
  for (const model::Input& input : graph.inputs()) {
    const model::Shape& shape = graph.value(input.value).shape;
    wanted.push_back({input.name, input.role, shape.rows, shape.features, input.bound});
    for (const model::Use& use : uses[static_cast<std::size_t>(input.value)]) {
      const auto* loss = std::get_if<model::CrossEntropy>(&graph.node(use.node).op);
      if (loss != nullptr) wanted.back().ignored_label = loss->ignored_label;
    }
  }
  return wanted;
}

Data LoadData(const Job& job, const std::vector<WantedInput>& wanted) {
  try {
    return Load(job, wanted);
  } catch (const std::bad_alloc&) {
    throw FailureError(fmt::format(
        "{}: the data does not fit into this machine's memory: {}",
        job.data.generated.empty()
            ? job.data.train_inputs
            : fmt::format("data.generated, data.samples = {}", job.data.generated_samples),
        SystemErrorText(ENOMEM)));
  }
}

Data LoadData(const Job& job) {
  return LoadData(job, WantedInputs(job.model));
}

}  // namespace acan
