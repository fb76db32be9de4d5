// Jobs with models of every kind, for tests: the text of [model], and what is expected of it.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "acan/manager/job.h"
#include "test_files.h"

namespace acan {

// The section [data] of a job whose files need not exist.
inline constexpr const char* kModelData =
    "[data]\ntrain_inputs = \"x.npy\"\ntrain_labels = \"y.npy\"\n";

inline Job ParseModel(const std::string& model, const std::string& rest = "",
                      const std::vector<std::string>& overrides = {}) {
  return ParseJob("[model]\n" + model + kModelData + rest, "job.toml", "/jobs", overrides);
}

inline void ExpectModelRefused(const std::string& model, const std::vector<std::string>& parts) {
  SCOPED_TRACE(model);
  ExpectError([&] { ParseModel(model); }, parts);
}

struct KindCase {
  std::string kind;
  std::string model;  // of [model]; values differ from the defaults where possible
};

// One model of each kind but "mlp" and "graph".
inline const std::vector<KindCase>& ModelKindCases() {
  static const std::vector<KindCase> kinds = {
      {"gpt",
       "kind = \"gpt\"\nn_layer = 2\nn_head = 4\nn_embd = 16\nblock_size = 8\nvocab_size = 11\n"
       "sequence_length = 6\ndropout = 0.1\nbias = false\nactivation = \"gelu\"\n"
       "label_smoothing = 0.05\n"},
      {"llama",
       "kind = \"llama\"\nvocab_size = 11\nhidden_size = 16\nintermediate_size = 24\n"
       "num_hidden_layers = 2\nnum_attention_heads = 4\nnum_key_value_heads = 2\nhead_dim = 6\n"
       "max_position_embeddings = 8\nsequence_length = 6\nrms_norm_eps = 1e-5\n"
       "rope_theta = 500000\ninitializer_range = 0.03\nattention_dropout = 0.1\n"
       "attention_bias = true\nmlp_bias = true\ntie_word_embeddings = true\n"
       "label_smoothing = 0.05\n"},
      {"bert",
       "kind = \"bert\"\ntask = \"classification\"\nvocab_size = 11\nhidden_size = 16\n"
       "num_hidden_layers = 2\nnum_attention_heads = 4\nintermediate_size = 24\n"
       "hidden_act = \"gelu_tanh\"\nhidden_dropout_prob = 0.2\n"
       "attention_probs_dropout_prob = 0.3\nmax_position_embeddings = 8\ntype_vocab_size = 3\n"
       "initializer_range = 0.03\nlayer_norm_eps = 1e-5\npad_token_id = 1\nnum_labels = 5\n"
       "sequence_length = 6\nlabel_smoothing = 0.05\n"},
      {"vit",
       "kind = \"vit\"\nimage_size = [8, 12]\nchannels = 1\npatch_size = 4\nnum_layers = 2\n"
       "num_heads = 2\nhidden_dim = 8\nmlp_dim = 16\ndropout = 0.1\nattention_dropout = 0.2\n"
       "num_classes = 7\nlabel_smoothing = 0.05\n"},
      {"resnet",
       "kind = \"resnet\"\nimage_size = 32\nchannels = 1\nwidths = [8, 16]\nblocks = [1, 2]\n"
       "block = \"bottleneck\"\nstem = \"small\"\nnorm = \"group\"\nnorm_groups = 4\n"
       "num_classes = 7\nlabel_smoothing = 0.05\n"},
      {"convnext",
       "kind = \"convnext\"\nimage_size = [16, 8]\nchannels = 1\npatch_size = 2\n"
       "widths = [8, 16]\nblocks = [1, 2]\nlayer_scale = 1e-5\nstochastic_depth_prob = 0.2\n"
       "num_classes = 7\nlabel_smoothing = 0.05\n"}};
  return kinds;
}

}  // namespace acan
