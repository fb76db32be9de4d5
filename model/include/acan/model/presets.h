// Standard models, built from options with the names that nanoGPT, Hugging Face or torchvision use.
// Parameters have the names of those frameworks' state dicts; README.md lists which classes load
// them, and how layouts differ.
//
// Every function throws Error (usage) for invalid options; the message names the option, its value
// and what is expected. The training and the evaluation graph of a preset have the same parameters
// in the same order, which is also the order of their Philox numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "acan/model/graph.h"

namespace acan::model {

// Limits of ResNet's and ConvNeXt's stages.
inline constexpr std::int64_t kMaxLayers = 10'000;  // blocks of a stage; layers of any preset
inline constexpr std::int64_t kMaxWidth = kMaxFeatures / 4;

// Training: dropout is active, and batch norm uses the batch's statistics. Evaluation: neither.
enum class Mode : std::uint8_t { kTraining, kEvaluation };

enum class LossKind : std::uint8_t { kCrossEntropy, kSquaredError };

// ---- multi-layer perceptron ----

// layers = inputs, hidden..., outputs. The activation follows every hidden layer; nothing follows
// the last layer. Inputs "x" and, depending on the loss, "labels" or "targets"; output "outputs".
// Parameters: layers.0.weight, layers.0.bias, layers.1.weight, ...
struct MlpOptions {
  std::vector<std::int64_t> layers;
  std::optional<ActivationKind> activation = ActivationKind::kRelu;  // none: identity
  float clip_bound = 6.0f;                                           // kClippedRelu only
  LossKind loss = LossKind::kCrossEntropy;
};
Graph Mlp(const MlpOptions& options, Mode mode);

// ---- decoders. Inputs "tokens" and "labels"; output "logits". ----

// nanoGPT's GPT and Hugging Face's GPT2LMHeadModel.
struct GptOptions {
  std::int64_t n_layer = 12;
  std::int64_t n_head = 12;
  std::int64_t n_embd = 768;
  std::int64_t block_size = 1024;  // rows of the position table
  std::int64_t vocab_size = 50257;
  std::int64_t sequence_length = 0;  // of the samples; 0: block_size
  float dropout = 0.0f;              // after embeddings, on attention weights, after branches
  bool bias = true;                  // of linear operators and layer norms
  ActivationKind activation = ActivationKind::kGeluTanh;  // nanoGPT: kGelu
  float label_smoothing = 0.0f;
};
Graph Gpt(const GptOptions& options, Mode mode);

// Hugging Face's LlamaForCausalLM.
struct LlamaOptions {
  std::int64_t vocab_size = 32000;
  std::int64_t hidden_size = 4096;
  std::int64_t intermediate_size = 11008;
  std::int64_t num_hidden_layers = 32;
  std::int64_t num_attention_heads = 32;
  std::int64_t num_key_value_heads = 0;  // 0: num_attention_heads
  std::int64_t head_dim = 0;             // 0: hidden_size / num_attention_heads
  std::int64_t max_position_embeddings = 2048;
  std::int64_t sequence_length = 0;  // of the samples; 0: max_position_embeddings
  float rms_norm_eps = 1e-6f;
  float rope_theta = 10000.0f;
  float initializer_range = 0.02f;
  float attention_dropout = 0.0f;
  bool attention_bias = false;
  bool mlp_bias = false;
  bool tie_word_embeddings = false;
  float label_smoothing = 0.0f;
};
Graph Llama(const LlamaOptions& options, Mode mode);

// ---- encoders of text ----

enum class BertTask : std::uint8_t {
  // BertModel: outputs "last_hidden_state", "pooler_output" and "sentence_embedding", the mean of
  // the first over the positions below the length; no loss.
  kEncoder,
  kMaskedLanguage,  // BertForMaskedLM: a label per token, ignored where nothing is masked
  kClassification,  // BertForSequenceClassification: one label per sample
};

// Hugging Face's BERT. Inputs "tokens", "token_type_ids", "lengths" and, with a loss, "labels".
struct BertOptions {
  BertTask task = BertTask::kEncoder;
  std::int64_t vocab_size = 30522;
  std::int64_t hidden_size = 768;
  std::int64_t num_hidden_layers = 12;
  std::int64_t num_attention_heads = 12;
  std::int64_t intermediate_size = 3072;
  ActivationKind hidden_act = ActivationKind::kGelu;
  float hidden_dropout_prob = 0.1f;
  float attention_probs_dropout_prob = 0.1f;
  std::int64_t max_position_embeddings = 512;
  std::int64_t type_vocab_size = 2;
  float initializer_range = 0.02f;
  float layer_norm_eps = 1e-12f;
  std::int64_t pad_token_id = 0;     // its look-ups give no gradient; -1: all do
  std::int64_t num_labels = 2;       // kClassification only
  bool add_pooling_layer = true;     // kEncoder only; without it there is no "pooler_output"
  std::int64_t sequence_length = 0;  // of the samples; 0: max_position_embeddings
  float label_smoothing = 0.0f;
};
Graph Bert(const BertOptions& options, Mode mode);

// ---- images: input "images", rows are pixels in scan order and features channels (NHWC); input
// "labels"; output "logits" ----

// torchvision's VisionTransformer; the defaults are vit_b_16's.
struct VitOptions {
  Extent image_size{224, 224};
  std::int64_t channels = 3;
  std::int64_t patch_size = 16;
  std::int64_t num_layers = 12;
  std::int64_t num_heads = 12;
  std::int64_t hidden_dim = 768;
  std::int64_t mlp_dim = 3072;
  float dropout = 0.0f;
  float attention_dropout = 0.0f;
  std::int64_t num_classes = 1000;
  float label_smoothing = 0.0f;
};
Graph Vit(const VitOptions& options, Mode mode);

enum class ResnetBlock : std::uint8_t { kBasic, kBottleneck };
enum class ResnetStem : std::uint8_t {
  kImageNet,  // a 7x7 convolution with stride 2, then 3x3 maximum pooling with stride 2
  kSmall,     // a 3x3 convolution: for images of about 32x32 pixels
};
enum class NormKind : std::uint8_t { kBatch, kGroup };

// torchvision's ResNet; the defaults are resnet18's. Stage i has blocks[i] blocks of widths[i]
// channels (a kBottleneck block outputs four times as many); all but the first begin with stride 2.
struct ResnetOptions {
  Extent image_size{224, 224};
  std::int64_t channels = 3;
  std::vector<std::int64_t> widths{64, 128, 256, 512};
  std::vector<std::int64_t> blocks{2, 2, 2, 2};
  ResnetBlock block = ResnetBlock::kBasic;
  ResnetStem stem = ResnetStem::kImageNet;
  NormKind norm = NormKind::kBatch;
  std::int64_t norm_groups = 32;  // kGroup only
  std::int64_t num_classes = 1000;
  float label_smoothing = 0.0f;
};
Graph Resnet(const ResnetOptions& options, Mode mode);

// torchvision's ConvNeXt; the defaults are convnext_tiny's.
struct ConvnextOptions {
  Extent image_size{224, 224};
  std::int64_t channels = 3;
  std::int64_t patch_size = 4;  // of the stem
  std::vector<std::int64_t> widths{96, 192, 384, 768};
  std::vector<std::int64_t> blocks{3, 3, 9, 3};
  float layer_scale = 1e-6f;
  float stochastic_depth_prob = 0.1f;  // of the last block; the rate grows from 0 with the depth
  std::int64_t num_classes = 1000;
  float label_smoothing = 0.0f;
};
Graph Convnext(const ConvnextOptions& options, Mode mode);

}  // namespace acan::model
