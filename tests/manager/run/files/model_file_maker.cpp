// model_file_maker FOLDER: writes files of small models for transformers_test.py. Each model gets a
// folder with model.safetensors and, if transformers has a class for it, config.json. Element (row,
// col) of a parameter's matrix is ValueAt(its number, row, col). The sizes of the matrices go to
// standard output as JSON.
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "acan/core/text/json_text.h"
#include "acan/manager/model_config.h"
#include "acan/manager/model_file.h"
#include "nlohmann/json.hpp"

namespace acan {
namespace {

struct Made {
  std::string name;
  std::string model;  // keys of [model]
};

const std::vector<Made>& Models() {
  static const std::vector<Made> models = {
      {"gpt",
       "kind = \"gpt\"\nn_layer = 2\nn_head = 2\nn_embd = 8\nblock_size = 6\nvocab_size = 11\n"},
      {"llama",
       "kind = \"llama\"\nvocab_size = 11\nhidden_size = 8\nintermediate_size = 10\n"
       "num_hidden_layers = 2\nnum_attention_heads = 4\nnum_key_value_heads = 2\n"
       "max_position_embeddings = 6\nattention_bias = true\nmlp_bias = true\n"},
      {"llama_tied",
       "kind = \"llama\"\nvocab_size = 11\nhidden_size = 8\nintermediate_size = 10\n"
       "num_hidden_layers = 1\nnum_attention_heads = 2\nhead_dim = 6\n"
       "max_position_embeddings = 6\ntie_word_embeddings = true\n"},
      {"bert_masked",
       "kind = \"bert\"\ntask = \"masked_language\"\nvocab_size = 11\nhidden_size = 8\n"
       "num_hidden_layers = 1\nnum_attention_heads = 2\nintermediate_size = 10\n"
       "max_position_embeddings = 6\n"},
      {"bert_classes",
       "kind = \"bert\"\ntask = \"classification\"\nnum_labels = 3\nvocab_size = 11\n"
       "hidden_size = 8\nnum_hidden_layers = 1\nnum_attention_heads = 2\n"
       "intermediate_size = 10\nmax_position_embeddings = 6\n"},
      {"resnet18", "kind = \"resnet\"\nnum_classes = 5\n"},
      {"convnext_tiny", "kind = \"convnext\"\nnum_classes = 5\n"},
      {"vit_b_32", "kind = \"vit\"\npatch_size = 32\nnum_classes = 5\n"},
  };
  return models;
}

float ValueAt(std::int64_t number, std::int64_t row, std::int64_t col) {
  return static_cast<float>((number * 7919 + row * 613 + col * 31) % 65537) / 65536.0f;
}

void Write(const std::string& folder, const TrainedModel& model) {
  ModelWriter writer(folder + "/model.safetensors", model, 42);
  const std::vector<TensorInfo> tensors = ModelTensors(model);
  constexpr std::int64_t kTile = 192;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (std::int64_t row = 0; row < tensors[i].rows; row += kTile) {
      const std::int64_t rows = std::min(kTile, tensors[i].rows - row);
      for (std::int64_t col = 0; col < tensors[i].cols; col += kTile) {
        const std::int64_t cols = std::min(kTile, tensors[i].cols - col);
        std::vector<float> values;
        for (std::int64_t r = row; r < row + rows; ++r) {
          for (std::int64_t c = col; c < col + cols; ++c) {
            values.push_back(ValueAt(static_cast<std::int64_t>(tensors[i].matrix.parameter), r, c));
          }
        }
        writer.Write(i, row, col, rows, cols, values);
      }
    }
  }
  writer.Finish();
}

int Run(const std::string& folder) {
  nlohmann::json all;
  for (const auto& [name, text] : Models()) {
    const Job job =
        ParseJob("[model]\n" + text + "[data]\ntrain_inputs = \"x\"\n" + "train_labels = \"y\"\n",
                 name, "/", {});
    const auto model = BuildModel(job);
    std::filesystem::create_directories(folder + "/" + name);
    Write(folder + "/" + name, *model);
    if (NoTransformersConfig(job.model).empty()) {
      std::ofstream(folder + "/" + name + "/config.json")
          << JsonText(TransformersConfig(job.model), 2);
    }
    const std::vector<model::Parameter>& parameters = model->training.parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      all[name][parameters[i].name] = {
          {"number", i}, {"rows", parameters[i].rows}, {"columns", parameters[i].columns}};
    }
  }
  std::puts(JsonText(all).c_str());
  return 0;
}

}  // namespace
}  // namespace acan

int main(int count, char** words) {
  if (count != 2) {
    std::fputs("usage: model_file_maker FOLDER\n", stderr);
    return 2;
  }
  return acan::Run(words[1]);
}
