// Small graphs, and jobs with data for them.
#pragma once

#include <string>

#include "acan/model/presets.h"
#include "data_jobs.h"

namespace acan {

inline std::vector<WantedInput> GptInputs(std::int64_t length, std::int64_t vocabulary) {
  model::GptOptions options;
  options.n_layer = 1;
  options.n_head = 1;
  options.n_embd = 4;
  options.block_size = length;
  options.vocab_size = vocabulary;
  return WantedInputs(model::Gpt(options, model::Mode::kTraining));
}

inline std::vector<WantedInput> BertInputs(model::BertTask task, std::int64_t length,
                                           std::int64_t vocabulary, std::int64_t classes) {
  model::BertOptions options;
  options.task = task;
  options.num_hidden_layers = 1;
  options.num_attention_heads = 1;
  options.hidden_size = 4;
  options.intermediate_size = 4;
  options.max_position_embeddings = length;
  options.vocab_size = vocabulary;
  options.num_labels = classes;
  return WantedInputs(model::Bert(options, model::Mode::kTraining));
}

inline std::vector<WantedInput> ImageInputs(std::int64_t height, std::int64_t width,
                                            std::int64_t channels, std::int64_t classes) {
  model::VitOptions options;
  options.image_size = {height, width};
  options.channels = channels;
  options.patch_size = 1;
  options.num_layers = 1;
  options.num_heads = 1;
  options.hidden_dim = 4;
  options.mlp_dim = 4;
  options.num_classes = classes;
  return WantedInputs(model::Vit(options, model::Mode::kTraining));
}

// `data` is the section [data] of a job file; its paths are relative to the folder.
inline Data LoadFrom(const TestFolder& folder, const std::string& data,
                     const std::vector<WantedInput>& wanted, std::uint64_t seed = 5) {
  const Job job = ParseJob(
      "[model]\nlayers = [1, 2]\n[train]\nseed = " + std::to_string(seed) + "\n[data]\n" + data,
      "job", folder.path(), {});
  return LoadData(job, wanted);
}

}  // namespace acan
