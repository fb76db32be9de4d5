#include "small_presets.h"

namespace acan::model {

GptOptions SmallGpt() {
  GptOptions o;
  o.n_layer = 2;
  o.n_head = 2;
  o.n_embd = 6;
  o.block_size = 7;
  o.vocab_size = 11;
  o.dropout = 0.2f;
  return o;
}

LlamaOptions SmallLlama() {
  LlamaOptions o;
  o.vocab_size = 11;
  o.hidden_size = 12;
  o.intermediate_size = 7;
  o.num_hidden_layers = 2;
  o.num_attention_heads = 3;
  o.num_key_value_heads = 1;
  o.head_dim = 6;  // not hidden_size / num_attention_heads
  o.max_position_embeddings = 5;
  o.rms_norm_eps = 0.01f;
  o.rope_theta = 100.0f;
  return o;
}

BertOptions SmallBert(BertTask task) {
  BertOptions o;
  o.task = task;
  o.vocab_size = 11;
  o.hidden_size = 6;
  o.num_hidden_layers = 2;
  o.num_attention_heads = 2;
  o.intermediate_size = 5;
  o.hidden_act = ActivationKind::kSilu;
  o.max_position_embeddings = 8;
  o.layer_norm_eps = 0.01f;
  o.sequence_length = 5;
  o.num_labels = 3;
  return o;
}

VitOptions SmallVit() {
  VitOptions o;
  o.image_size = {6, 4};
  o.patch_size = 2;
  o.num_layers = 2;
  o.num_heads = 2;
  o.hidden_dim = 6;
  o.mlp_dim = 5;
  o.num_classes = 3;
  o.dropout = 0.1f;
  return o;
}

ResnetOptions SmallResnet(ResnetBlock block, ResnetStem stem, NormKind norm) {
  ResnetOptions o;
  o.image_size = stem == ResnetStem::kSmall ? Extent{6, 5} : Extent{13, 14};
  o.widths = {4, 6};
  o.blocks = {1, 2};
  o.block = block;
  o.stem = stem;
  o.norm = norm;
  o.norm_groups = 2;
  o.num_classes = 3;
  return o;
}

ConvnextOptions SmallConvnext() {
  ConvnextOptions o;
  o.image_size = {12, 8};
  o.patch_size = 2;
  o.widths = {3, 4};
  o.blocks = {1, 2};
  o.stochastic_depth_prob = 0.4f;
  o.num_classes = 3;
  return o;
}

MlpOptions SmallMlp(std::optional<ActivationKind> activation, LossKind loss) {
  MlpOptions o;
  o.layers = {5, 65, 7, 3};
  o.activation = activation;
  o.loss = loss;
  return o;
}

}  // namespace acan::model
