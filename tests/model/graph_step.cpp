// graph_step FOLDER: computes one training step of a small model of each preset in float64 with the
// tests' interpreter of graphs, and writes FOLDER/NAME.json for torch_test.py: the inputs, every
// parameter as a file would store it, the loss, every gradient, and the new running statistics.
// There is no dropout, because frameworks draw it differently.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "acan/model/gradients.h"
#include "gradient_check.h"
#include "nlohmann/json.hpp"
#include "reference.h"
#include "small_presets.h"

namespace acan::model {
namespace {

using nlohmann::json;

constexpr std::int64_t kSamples = 3;

// The elements of `matrix`, which belongs to `parameter`, in the order of the tensor in a file.
std::vector<double> InFileOrder(const Parameter& parameter, const Matrix& matrix) {
  if (parameter.file_layout == FileLayout::kSame) return matrix.values;
  std::vector<double> values;
  values.reserve(matrix.values.size());
  if (parameter.file_layout == FileLayout::kTransposed) {
    for (std::int64_t c = 0; c < matrix.columns; ++c) {
      for (std::int64_t r = 0; r < matrix.rows; ++r) values.push_back(matrix.at(r, c));
    }
    return values;
  }
  const std::int64_t inputs = parameter.file_shape.at(1);
  const std::int64_t window = parameter.file_shape.at(2) * parameter.file_shape.at(3);
  for (std::int64_t output = 0; output < matrix.rows; ++output) {
    for (std::int64_t input = 0; input < inputs; ++input) {
      for (std::int64_t tap = 0; tap < window; ++tap) {
        values.push_back(matrix.at(output, tap * inputs + input));
      }
    }
  }
  return values;
}

json StepOf(const Graph& forward, Random* random) {
  const Graph graph = WithGradients(forward);
  Reference reference(graph, {kSamples, 7, 3});
  json step{{"samples", kSamples}};
  for (ValueId id = 0; id < static_cast<ValueId>(forward.values().size()); ++id) {
    if (forward.value(id).source != Source::kNode) {
      reference.Set(id, RandomValue(forward, id, kSamples, random));
    }
  }
  reference.Run();
  for (const Input& input : graph.inputs())
    step["inputs"][input.name] = reference[input.value].values;
  for (ParameterIndex id = 0; id < static_cast<ParameterIndex>(graph.parameters().size()); ++id) {
    const Parameter& parameter = graph.parameter(id);
    step["parameters"][parameter.name] = {
        {"shape", parameter.file_shape},
        {"values", InFileOrder(parameter, reference[graph.ValueOf(id)])}};
  }
  step["loss"] = reference.Loss();
  for (const Gradient& gradient : graph.gradients()) {
    const Parameter& parameter = graph.parameter(graph.value(gradient.of).index);
    step["gradients"][parameter.name] = InFileOrder(parameter, reference[gradient.value]);
  }
  for (const Assignment& assignment : graph.assignments()) {
    step["statistics"][graph.parameter(assignment.parameter).name] =
        reference[assignment.value].values;
  }
  return step;
}

std::vector<std::pair<std::string, Graph>> Models() {
  GptOptions gpt = SmallGpt();
  gpt.dropout = 0;
  GptOptions smooth = gpt;
  smooth.sequence_length = 4;
  smooth.activation = ActivationKind::kGelu;
  smooth.label_smoothing = 0.1f;
  LlamaOptions tied = SmallLlama();
  tied.tie_word_embeddings = true;
  tied.attention_bias = true;
  tied.mlp_bias = true;
  const auto bert = [](BertTask task) {
    BertOptions options = SmallBert(task);
    options.hidden_dropout_prob = 0;
    options.attention_probs_dropout_prob = 0;
    return Bert(options, Mode::kTraining);
  };
  VitOptions vit = SmallVit();
  vit.image_size = {6, 6};  // torchvision supports only square images
  vit.dropout = 0;
  const auto resnet = [](ResnetBlock block, NormKind norm) {
    return Resnet(SmallResnet(block, ResnetStem::kImageNet, norm), Mode::kTraining);
  };
  ConvnextOptions convnext = SmallConvnext();
  convnext.stochastic_depth_prob = 0;
  return {
      {"gpt", Gpt(gpt, Mode::kTraining)},
      {"gpt_smooth", Gpt(smooth, Mode::kTraining)},
      {"llama", Llama(SmallLlama(), Mode::kTraining)},
      {"llama_tied", Llama(tied, Mode::kTraining)},
      {"bert_masked", bert(BertTask::kMaskedLanguage)},
      {"bert_classification", bert(BertTask::kClassification)},
      {"vit", Vit(vit, Mode::kTraining)},
      {"resnet_basic", resnet(ResnetBlock::kBasic, NormKind::kBatch)},
      {"resnet_bottleneck", resnet(ResnetBlock::kBottleneck, NormKind::kBatch)},
      {"resnet_group_norm", resnet(ResnetBlock::kBasic, NormKind::kGroup)},
      {"resnet_small_stem",
       Resnet(SmallResnet(ResnetBlock::kBasic, ResnetStem::kSmall, NormKind::kBatch),
              Mode::kTraining)},
      {"convnext", Convnext(convnext, Mode::kTraining)},
  };
}

void Write(const std::filesystem::path& folder) {
  Random random(1);
  for (const auto& model : Models()) {
    std::ofstream file(folder / (model.first + ".json"));
    file << StepOf(model.second, &random) << "\n";
    if (!file.flush()) throw std::runtime_error("cannot write into " + folder.string());
  }
}

}  // namespace
}  // namespace acan::model

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fputs("usage: graph_step FOLDER\n", stderr);
    return 2;
  }
  try {
    acan::model::Write(argv[1]);
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "graph_step: %s\n", error.what());
    return 1;
  }
}
