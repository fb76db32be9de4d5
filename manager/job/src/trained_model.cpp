#include "acan/manager/trained_model.h"

#include <utility>

#include "acan/core/error.h"
#include "acan/core/exact_math.h"
#include "acan/core/schedule.h"
#include "acan/model/gradients.h"
#include "acan/model/graph_text.h"
#include "fmt/format.h"

namespace acan {
namespace {

using model::Mode;

std::optional<model::ActivationKind> KindOf(Activation activation) {
  switch (activation) {
    case Activation::kIdentity:
      return std::nullopt;
    case Activation::kRelu:
      return model::ActivationKind::kRelu;
    case Activation::kClippedRelu:
      return model::ActivationKind::kClippedRelu;
    case Activation::kTanh:
      return model::ActivationKind::kTanh;
    case Activation::kSigmoid:
      return model::ActivationKind::kSigmoid;
    case Activation::kGelu:
      return model::ActivationKind::kGelu;
    case Activation::kGeluTanh:
      return model::ActivationKind::kGeluTanh;
    case Activation::kSilu:
      return model::ActivationKind::kSilu;
  }
  return std::nullopt;
}

// The preset's graph.
struct Build {
  Mode mode;

  model::Graph operator()(const Perceptron& options) const {
    return model::Mlp({options.layers, KindOf(options.activation), options.clip_bound,
                       options.loss == Loss::kCrossEntropy ? model::LossKind::kCrossEntropy
                                                           : model::LossKind::kSquaredError},
                      mode);
  }
  model::Graph operator()(const GraphFile& o) const {
    return model::ReadGraph(*o.text, o.path, mode);
  }
  model::Graph operator()(const model::GptOptions& o) const { return model::Gpt(o, mode); }
  model::Graph operator()(const model::LlamaOptions& o) const { return model::Llama(o, mode); }
  model::Graph operator()(const model::BertOptions& o) const { return model::Bert(o, mode); }
  model::Graph operator()(const model::VitOptions& o) const { return model::Vit(o, mode); }
  model::Graph operator()(const model::ResnetOptions& o) const { return model::Resnet(o, mode); }
  model::Graph operator()(const model::ConvnextOptions& o) const {
    return model::Convnext(o, mode);
  }
};

// Plans count the rows of a whole batch in 31 bits.
void CheckRowsOfBatch(const model::Graph& graph, std::int64_t batch) {
  for (const model::Value& value : graph.values()) {
    if (value.shape.rows_of != model::RowsOf::kSample) continue;
    const std::int64_t most = model::kMaxRows / value.shape.rows;
    if (batch <= most) continue;
    throw UsageError(
        fmt::format("train.batch = {}: must be from 1 to {} for this model, as '{}' has {} rows "
                    "for each sample, and a batch has at most {} rows",
                    batch, most, value.name, value.shape.rows, model::kMaxRows));
  }
}

// A graph file may have parts that cannot be trained. Which parameters are frozen is in the job, so
// the file's reader cannot know that.
model::Graph WithGradients(const model::Graph& forward, const Job& job) {
  const auto* file = std::get_if<GraphFile>(&job.model);
  if (file == nullptr) return model::WithGradients(forward);
  try {
    return model::WithGradients(forward);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: {}", file->path, error.what()));
  }
}

}  // namespace

std::shared_ptr<const TrainedModel> BuildModel(const Job& job) {
  const auto graph = [&job](Mode mode) {
    model::Graph built = std::visit(Build{mode}, job.model);
    model::Freeze(&built, job.freeze);
    model::SetDecay(&built, job.decay);
    return built;
  };
  auto built = std::make_shared<TrainedModel>();
  built->kind = KindOf(job.model);
  built->training = WithGradients(graph(Mode::kTraining), job);
  if (built->training.gradients().empty()) {
    throw UsageError(job.freeze.empty() ? "the model has no parameter to train"
                                        : "train.freeze leaves no parameter to train");
  }
  built->evaluation = graph(Mode::kEvaluation);
  CheckRowsOfBatch(built->training, job.training.batch);
  return built;
}

std::shared_ptr<const TrainedModel> BuildModel(const Perceptron& perceptron) {
  Job job;
  job.model = perceptron;
  return BuildModel(job);
}

std::string NormProblem(const TrainedModel& model, const Training& training, std::int64_t samples) {
  const std::int64_t steps = TotalSteps(training, samples);
  if (steps == 0) return "";
  const std::int64_t batch = training.batch;
  // The last batch of the first epoch is the smallest.
  const bool has_last = steps >= StepsPerEpoch(samples, batch) && samples % batch > 0;
  const std::int64_t least = has_last ? samples % batch : batch;
  for (const model::Node& node : model.training.nodes()) {
    const auto* group = std::get_if<model::GroupNorm>(&node.op);
    if (group == nullptr && !std::holds_alternative<model::BatchNorm>(node.op)) continue;
    const model::Shape& x = model.training.value(node.operands.front()).shape;
    if (group != nullptr && x.rows * x.features == group->groups) {
      return fmt::format(
          "group norm '{}' gets one value per group, so its output is its bias for every sample: "
          "use fewer groups or larger images",
          node.name);
    }
    if (group != nullptr || x.rows * least != 1) continue;
    return fmt::format(
        "batch norm '{}' gets one value per channel from a batch of one sample, which {} samples "
        "in batches of {} produce: its output there is its bias, and a 0 enters the running "
        "variance",
        node.name, samples, batch);
  }
  return "";
}

std::string GraphTextOf(const Job& job) {
  return model::WriteGraph(std::visit(Build{Mode::kTraining}, job.model));
}

std::optional<double> PerplexityOf(const TrainedModel& model, double mean_loss) {
  constexpr double kMaxLoss = 700;  // the limit of Exponential
  const model::Graph& graph = model.evaluation;
  if (graph.losses().size() != 1 || !(mean_loss >= 0 && mean_loss <= kMaxLoss)) {
    return std::nullopt;
  }
  const model::Node& loss = graph.node(graph.value(graph.losses().front()).index);
  const auto* classes = std::get_if<model::CrossEntropy>(&loss.op);
  if (classes == nullptr || classes->label_smoothing != 0) return std::nullopt;
  const model::Value& logits = graph.value(loss.operands.front());
  for (const model::Input& input : graph.inputs()) {
    const bool is_predicted = input.name == "tokens" && input.role == model::InputRole::kTokens &&
                              input.bound == logits.shape.features &&
                              graph.value(input.value).shape.rows == logits.shape.rows;
    if (is_predicted) return Exponential(mean_loss);
  }
  return std::nullopt;
}

// Only functions that support just perceptrons ask for one.
[[noreturn]] static void RefuseOtherKind(std::string_view kind) {
  throw UsageError(
      fmt::format("model.kind = \"{}\": this takes only models of kind \"mlp\"", kind));
}

const Perceptron& Job::perceptron() const {
  const auto* perceptron = std::get_if<Perceptron>(&model);
  if (perceptron == nullptr) RefuseOtherKind(KindOf(model));
  return *perceptron;
}

Perceptron& Job::perceptron() {
  auto* perceptron = std::get_if<Perceptron>(&model);
  if (perceptron == nullptr) RefuseOtherKind(KindOf(model));
  return *perceptron;
}

Loss Job::loss() const {
  if (const auto* perceptron = std::get_if<Perceptron>(&model)) return perceptron->loss;
  if (const auto* file = std::get_if<GraphFile>(&model)) return file->loss;
  return Loss::kCrossEntropy;
}

}  // namespace acan
