#include "acan/manager/model_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <type_traits>
#include <vector>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/manager/json_depth.h"
#include "acan/manager/text_file.h"
#include "activation_names.h"
#include "model_keys.h"
#include "nlohmann/json.hpp"

namespace acan {
namespace {

using model::ActivationKind;
using nlohmann::json;

// transformers.activations.ACT2FN
const char* ActivationName(ActivationKind kind) {
  switch (kind) {
    case ActivationKind::kGelu:
      return "gelu";
    case ActivationKind::kGeluTanh:
      return "gelu_new";
    case ActivationKind::kSilu:
      return "silu";
    case ActivationKind::kTanh:
      return "tanh";
    case ActivationKind::kSigmoid:
      return "sigmoid";
    case ActivationKind::kRelu:
    case ActivationKind::kClippedRelu:  // no key of a job names it
      break;
  }
  return "relu";
}

json ConfigOf(const model::GptOptions& o) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"n_layer", o.n_layer},
          {"n_head", o.n_head},
          {"n_embd", o.n_embd},
          {"n_positions", o.block_size},
          {"vocab_size", o.vocab_size},
          {"activation_function", ActivationName(o.activation)},
          {"attn_pdrop", ShortNumber(o.dropout)},
          {"embd_pdrop", ShortNumber(o.dropout)},
          {"resid_pdrop", ShortNumber(o.dropout)},
          {"layer_norm_epsilon", 1e-5},
          // GPT2Config's defaults belong to OpenAI's vocabulary.
          {"bos_token_id", nullptr},
          {"eos_token_id", nullptr}};
}

json ConfigOf(const model::LlamaOptions& o) {
  const std::int64_t heads = o.num_attention_heads;
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"vocab_size", o.vocab_size},
          {"hidden_size", o.hidden_size},
          {"intermediate_size", o.intermediate_size},
          {"num_hidden_layers", o.num_hidden_layers},
          {"num_attention_heads", heads},
          {"num_key_value_heads", o.num_key_value_heads > 0 ? o.num_key_value_heads : heads},
          {"head_dim", o.head_dim > 0 ? o.head_dim : o.hidden_size / heads},
          {"max_position_embeddings", o.max_position_embeddings},
          {"hidden_act", "silu"},
          {"rms_norm_eps", ShortNumber(o.rms_norm_eps)},
          {"rope_theta", ShortNumber(o.rope_theta)},
          {"initializer_range", ShortNumber(o.initializer_range)},
          {"attention_dropout", ShortNumber(o.attention_dropout)},
          {"attention_bias", o.attention_bias},
          {"mlp_bias", o.mlp_bias},
          {"tie_word_embeddings", o.tie_word_embeddings},
          // LlamaConfig's defaults belong to Meta's vocabulary.
          {"bos_token_id", nullptr},
          {"eos_token_id", nullptr}};
}

json ConfigOf(const model::BertOptions& o) {
  const bool classifies = o.task == model::BertTask::kClassification;
  json config = {
      {"architectures", {classifies ? "BertForSequenceClassification" : "BertForMaskedLM"}},
      {"model_type", "bert"},
      {"vocab_size", o.vocab_size},
      {"hidden_size", o.hidden_size},
      {"num_hidden_layers", o.num_hidden_layers},
      {"num_attention_heads", o.num_attention_heads},
      {"intermediate_size", o.intermediate_size},
      {"hidden_act", ActivationName(o.hidden_act)},
      {"hidden_dropout_prob", ShortNumber(o.hidden_dropout_prob)},
      {"attention_probs_dropout_prob", ShortNumber(o.attention_probs_dropout_prob)},
      {"max_position_embeddings", o.max_position_embeddings},
      {"type_vocab_size", o.type_vocab_size},
      {"initializer_range", ShortNumber(o.initializer_range)},
      {"layer_norm_eps", ShortNumber(o.layer_norm_eps)},
      // A negative number would count from the end of the table.
      {"pad_token_id", o.pad_token_id < 0 ? json() : json(o.pad_token_id)}};
  if (!classifies) return config;
  // transformers takes the number of labels from their names.
  for (std::int64_t i = 0; i < o.num_labels; ++i) {
    config["id2label"][fmt::format("{}", i)] = fmt::format("LABEL_{}", i);
    config["label2id"][fmt::format("LABEL_{}", i)] = i;
  }
  return config;
}

// Kinds for which transformers has no class.
template <class Options>
json ConfigOf(const Options&) {
  return {};
}

}  // namespace

std::string NoTransformersConfig(const ModelOptions& options) {
  if (const auto* gpt = std::get_if<model::GptOptions>(&options)) {
    return gpt->bias ? "" : "GPT2LMHeadModel always has biases: it needs model.bias = true";
  }
  if (const auto* llama = std::get_if<model::LlamaOptions>(&options)) {
    if (llama->hidden_size % llama->num_attention_heads != 0) {
      return fmt::format(
          "LlamaForCausalLM takes only a model.hidden_size that is a multiple of "
          "model.num_attention_heads: {} is not a multiple of {}",
          llama->hidden_size, llama->num_attention_heads);
    }
    if (llama->initializer_range <= 1) return "";
    return fmt::format("LlamaForCausalLM takes only a model.initializer_range of at most 1, not {}",
                       llama->initializer_range);
  }
  if (std::holds_alternative<model::BertOptions>(options)) return "";
  return fmt::format(
      "transformers has no class whose tensors have acan's names for kind \"{}\"; it has classes "
      "for gpt, llama and bert",
      KindOf(options));
}

json TransformersConfig(const ModelOptions& options) {
  json config = std::visit([](const auto& of_kind) { return ConfigOf(of_kind); }, options);
  config["torch_dtype"] = "float32";
  return config;
}

namespace {

// The fields of a config.json; fields that are missing or null have their defaults.
class ConfigFields {
 public:
  explicit ConfigFields(const std::string& path) : path_(path) {
    constexpr std::int64_t kMaxBytes = 16 << 20;
    fields_ = ParseJsonOrDiscard(ReadTextFile(path, kMaxBytes, "a config.json of transformers"));
    if (!fields_.is_object()) throw UsageError(fmt::format("{}: is not a JSON object", path));
    if (IsDeeperThan(fields_, kMaxJsonDepth)) {
      throw UsageError(
          fmt::format("{}: nests arrays and objects more than {} deep, which no config.json of "
                      "transformers does",
                      path, kMaxJsonDepth));
    }
  }

  void Integer(const char* key, std::int64_t* value) const {
    if (!Has(key)) return;
    if (!fields_[key].is_number_integer()) Refuse(key, "an integer");
    *value = fields_[key].get<std::int64_t>();
  }
  // null: none. PyTorch counts negative numbers from the end of the table.
  void PaddingToken(std::int64_t vocab_size, std::int64_t* token) const {
    if (!fields_.contains("pad_token_id")) return;
    *token = -1;
    Integer("pad_token_id", token);
    if (Has("pad_token_id") && *token < 0 && vocab_size > 0) *token += vocab_size;
  }
  void Number(const char* key, float* value) const {
    if (!Has(key)) return;
    if (!fields_[key].is_number()) Refuse(key, "a number");
    *value = fields_[key].get<float>();
  }
  // One of `words`; the first one if the field is missing.
  std::string Word(const char* key, const std::vector<std::string>& words) const {
    if (!Has(key)) return words.front();
    if (!fields_[key].is_string()) Refuse(key, "a word");
    auto word = fields_[key].get<std::string>();
    if (std::ranges::find(words, word) == words.end()) {
      Refuse(key, fmt::format("one of {}", fmt::join(words, ", ")));
    }
    return word;
  }

  void False(const char* key) const {
    if (Has(key) && fields_[key] != false) Refuse(key, "false");
  }

 private:
  bool Has(const char* key) const { return fields_.contains(key) && !fields_[key].is_null(); }
  [[noreturn]] void Refuse(const char* key, const std::string& expected) const {
    throw UsageError(
        fmt::format("{}: '{}' is {}, expected {}", path_, key, JsonText(fields_[key]), expected));
  }

  std::string path_;
  json fields_;
};

}  // namespace

model::BertOptions ReadBertConfig(const std::string& path) {
  const ConfigFields fields(path);
  model::BertOptions options;
  fields.Word("model_type", {"bert"});
  fields.Word("position_embedding_type", {"absolute"});
  fields.False("is_decoder");  // a decoder's positions do not see later ones
  fields.Integer("vocab_size", &options.vocab_size);
  fields.Integer("hidden_size", &options.hidden_size);
  fields.Integer("num_hidden_layers", &options.num_hidden_layers);
  fields.Integer("num_attention_heads", &options.num_attention_heads);
  fields.Integer("intermediate_size", &options.intermediate_size);
  fields.Integer("max_position_embeddings", &options.max_position_embeddings);
  fields.Integer("type_vocab_size", &options.type_vocab_size);
  fields.Number("layer_norm_eps", &options.layer_norm_eps);
  fields.PaddingToken(options.vocab_size, &options.pad_token_id);
  // ActivationName's words.
  const std::vector<std::pair<std::string, ActivationKind>> activations = {
      {"gelu", ActivationKind::kGelu}, {"gelu_new", ActivationKind::kGeluTanh},
      {"silu", ActivationKind::kSilu}, {"tanh", ActivationKind::kTanh},
      {"relu", ActivationKind::kRelu}, {"sigmoid", ActivationKind::kSigmoid}};
  std::vector<std::string> names;
  for (const auto& [name, kind] : activations) names.push_back(name);
  for (const auto& synonym : kActivationSynonyms) names.emplace_back(synonym.other);
  const std::string word = OneActivation(fields.Word("hidden_act", names));
  options.hidden_act =
      std::ranges::find(activations, word, [](const auto& row) { return row.first; })->second;
  return options;
}

}  // namespace acan
