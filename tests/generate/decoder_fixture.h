// A run's folder with small language models, and a whole evaluation pass over tokens.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "acan/generate/decoder.h"
#include "acan/manager/job.h"
#include "acan/manager/model_file.h"
#include "acan/model/gradients.h"
#include "lowering_runner.h"
#include "test_files.h"

namespace acan::test {

struct SmallModel {
  std::string name;
  std::string keys;  // keys of [model]
  std::int64_t positions = 0;
};
inline void PrintTo(const SmallModel& model, std::ostream* out) {
  *out << model.name;
}

// Models with more positions than one leaf of keys and than two leaves, with shared heads, and with
// rotary positions.
inline const std::vector<SmallModel>& SmallModels() {
  static const std::vector<SmallModel> models = {
      {"gpt", R"(kind = "gpt"
n_layer = 2
n_head = 3
n_embd = 48
block_size = 160
sequence_length = 150
vocab_size = 83
dropout = 0.1
)",
       150},
      {"gpt_without_bias", R"(kind = "gpt"
n_layer = 1
n_head = 2
n_embd = 32
block_size = 40
vocab_size = 50
bias = false
)",
       40},
      {"llama", R"(kind = "llama"
num_hidden_layers = 2
num_attention_heads = 4
num_key_value_heads = 2
hidden_size = 64
intermediate_size = 96
max_position_embeddings = 72
vocab_size = 83
initializer_range = 0.3
)",
       72},
  };
  return models;
}

inline constexpr std::int64_t kSamples = 2;

// A model with its initial weights, as if a run had trained it for zero steps.
class SmallRun {
 public:
  SmallRun(const TestFolder& folder, const std::string& keys, const std::string& training = "",
           const std::string& data = "text = \"t\"\n") {
    run_.folder = folder.path();
    run_.job = ParseJob("[model]\n" + keys + "[data]\n" + data + training, "job.toml", "/jobs", {});
    run_.model = BuildModel(run_.job);
    run_.model_path = folder.Path("model.safetensors");
    lowered_ = std::make_unique<LoweredModel>(
        LoweredModel{LoweredGraph({run_.model, &run_.model->training}),
                     LoweredGraph({run_.model, &run_.model->evaluation})});
    runner_ = std::make_unique<LoweringRunner>(*lowered_, run_.job.training, Cuts());
    runner_->Initialize();
    ModelWriter writer(run_.model_path, *run_.model);
    const std::vector<TensorInfo> tensors = ModelTensors(*run_.model);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      writer.Write(i, 0, 0, tensors[i].rows, tensors[i].cols, Weights(tensors[i].matrix.parameter));
    }
    run_.receipt.weights_sha256 = writer.Finish();
  }

  const FinishedRun& run() const { return run_; }
  const model::Graph& graph() const { return run_.model->evaluation; }
  std::vector<float> Weights(ParameterId parameter) {
    return runner_->ValueOf(static_cast<std::int32_t>(parameter), 0);
  }

  // The logits of kSamples samples, computed by the tasks of an evaluation.
  std::vector<std::vector<float>> WholePass(const std::vector<std::int32_t>& tokens) {
    const std::int64_t positions = std::ssize(tokens) / kSamples;
    model::Matrix matrix(std::ssize(tokens), 1);
    std::copy(tokens.begin(), tokens.end(), matrix.values.begin());
    runner_->Evaluate(0, kSamples, {{"tokens", matrix}, {"labels", matrix}}, std::ssize(tokens));
    std::vector<std::vector<float>> logits;
    for (std::int64_t s = 0; s < kSamples; ++s) {
      logits.push_back(runner_->Evaluated(0, LogitsValue(), {s * positions, (s + 1) * positions}));
    }
    return logits;
  }

  model::ValueId LogitsValue() const {
    const model::Value& loss = graph().value(graph().losses().front());
    return graph().node(loss.index).operands.front();
  }

 private:
  // One segment for each node of the evaluation, so that all values pass between tasks.
  GraphCuts Cuts() const {
    GraphCuts cuts;
    cuts.training = {{{0, std::ssize(lowered_->training.nodes())}, {kSamples, 0}}};
    for (std::int64_t n = 0; n < std::ssize(lowered_->evaluation.nodes()); ++n) {
      cuts.evaluation.push_back({{n, n + 1}, {1, 0}});
    }
    for (const model::Parameter& parameter : graph().parameters()) {
      cuts.parameters.push_back(
          {RootLevel(parameter.rows, cuts.block), RootLevel(parameter.columns, cuts.block)});
    }
    return cuts;
  }

  FinishedRun run_;
  std::unique_ptr<LoweredModel> lowered_;
  std::unique_ptr<LoweringRunner> runner_;
};

// Tokens of consecutive samples.
inline std::vector<std::int32_t> SomeTokens(std::int64_t count, std::int64_t vocabulary) {
  std::vector<std::int32_t> tokens;
  for (std::int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<std::int32_t>((i * i + 7 * i / 3) % vocabulary));
  }
  return tokens;
}

}  // namespace acan::test
