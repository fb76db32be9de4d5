// The keys of [model] for every kind of model except "mlp", whose keys job.cpp reads. One table per
// kind serves reading, writing, and the list of known keys. A key has the name of its option.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "acan/manager/job.h"
#include "job_reader.h"
#include "nlohmann/json_fwd.hpp"

namespace acan {

// Calls visit(key, field) for each key of a kind, in the order in which they are documented.
template <class Visit>
void ForEachKey(model::GptOptions& o, const Visit& visit) {
  visit("n_layer", o.n_layer);
  visit("n_head", o.n_head);
  visit("n_embd", o.n_embd);
  visit("block_size", o.block_size);
  visit("vocab_size", o.vocab_size);
  visit("sequence_length", o.sequence_length);
  visit("dropout", o.dropout);
  visit("bias", o.bias);
  visit("activation", o.activation);
  visit("label_smoothing", o.label_smoothing);
}

template <class Visit>
void ForEachKey(model::LlamaOptions& o, const Visit& visit) {
  visit("vocab_size", o.vocab_size);
  visit("hidden_size", o.hidden_size);
  visit("intermediate_size", o.intermediate_size);
  visit("num_hidden_layers", o.num_hidden_layers);
  visit("num_attention_heads", o.num_attention_heads);
  visit("num_key_value_heads", o.num_key_value_heads);
  visit("head_dim", o.head_dim);
  visit("max_position_embeddings", o.max_position_embeddings);
  visit("sequence_length", o.sequence_length);
  visit("rms_norm_eps", o.rms_norm_eps);
  visit("rope_theta", o.rope_theta);
  visit("initializer_range", o.initializer_range);
  visit("attention_dropout", o.attention_dropout);
  visit("attention_bias", o.attention_bias);
  visit("mlp_bias", o.mlp_bias);
  visit("tie_word_embeddings", o.tie_word_embeddings);
  visit("label_smoothing", o.label_smoothing);
}

template <class Visit>
void ForEachKey(model::BertOptions& o, const Visit& visit) {
  visit("task", o.task);
  visit("vocab_size", o.vocab_size);
  visit("hidden_size", o.hidden_size);
  visit("num_hidden_layers", o.num_hidden_layers);
  visit("num_attention_heads", o.num_attention_heads);
  visit("intermediate_size", o.intermediate_size);
  visit("hidden_act", o.hidden_act);
  visit("hidden_dropout_prob", o.hidden_dropout_prob);
  visit("attention_probs_dropout_prob", o.attention_probs_dropout_prob);
  visit("max_position_embeddings", o.max_position_embeddings);
  visit("type_vocab_size", o.type_vocab_size);
  visit("initializer_range", o.initializer_range);
  visit("layer_norm_eps", o.layer_norm_eps);
  visit("pad_token_id", o.pad_token_id);
  if (o.task == model::BertTask::kClassification) visit("num_labels", o.num_labels);
  visit("sequence_length", o.sequence_length);
  visit("label_smoothing", o.label_smoothing);
}

template <class Visit>
void ForEachKey(model::VitOptions& o, const Visit& visit) {
  visit("image_size", o.image_size);
  visit("channels", o.channels);
  visit("patch_size", o.patch_size);
  visit("num_layers", o.num_layers);
  visit("num_heads", o.num_heads);
  visit("hidden_dim", o.hidden_dim);
  visit("mlp_dim", o.mlp_dim);
  visit("dropout", o.dropout);
  visit("attention_dropout", o.attention_dropout);
  visit("num_classes", o.num_classes);
  visit("label_smoothing", o.label_smoothing);
}

template <class Visit>
void ForEachKey(model::ResnetOptions& o, const Visit& visit) {
  visit("image_size", o.image_size);
  visit("channels", o.channels);
  visit("widths", o.widths);
  visit("blocks", o.blocks);
  visit("block", o.block);
  visit("stem", o.stem);
  visit("norm", o.norm);
  if (o.norm == model::NormKind::kGroup) visit("norm_groups", o.norm_groups);
  visit("num_classes", o.num_classes);
  visit("label_smoothing", o.label_smoothing);
}

template <class Visit>
void ForEachKey(model::ConvnextOptions& o, const Visit& visit) {
  visit("image_size", o.image_size);
  visit("channels", o.channels);
  visit("patch_size", o.patch_size);
  visit("widths", o.widths);
  visit("blocks", o.blocks);
  visit("layer_scale", o.layer_scale);
  visit("stochastic_depth_prob", o.stochastic_depth_prob);
  visit("num_classes", o.num_classes);
  visit("label_smoothing", o.label_smoothing);
}

template <class Visit>
void ForEachKey(GraphFile&, const Visit&) {}  // ReadGraphFile reads them

// The double with the shortest text that gives the same float, so that 1e-6 is 1e-06 in JSON.
double ShortNumber(float value);

// The default options of a kind. REQUIRES: it is a word of kModelKinds.
ModelOptions DefaultsOf(std::string_view kind);

// The keys of one kind, without those that all kinds have (kind, initial_weights).
std::vector<std::string> KeysOfKind(std::string_view kind);
// The keys of all kinds, each once.
const std::vector<std::string>& KeysOfAllKinds();

// Reads the keys that are set. Throws Error (usage) for values of another type, and for keys that
// only another choice of `task` or `norm` uses. REQUIRES: not an MLP.
void ReadModelKeys(const Section& section, ModelOptions* options);
// Reads and checks the graph file at `path`. Throws Error (usage) that names the file and the node
// or other problem; also if its hash is not `sha256` (empty: any).
GraphFile ReadGraphFile(const std::string& path, const std::string& sha256);

// All keys that the options use. REQUIRES: not an MLP.
nlohmann::json ModelKeysToJson(const ModelOptions& options);

}  // namespace acan
