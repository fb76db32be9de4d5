// Compares a job's model with the files beside weights: the job.json of a run of acan, and the
// config.json of transformers.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/manager/json_depth.h"
#include "acan/manager/model_config.h"
#include "acan/manager/output_names.h"
#include "acan/manager/text_file.h"
#include "activation_names.h"
#include "nlohmann/json.hpp"

namespace acan {
namespace {

using nlohmann::json;

constexpr const char* kPaddingToken = "pad_token_id";

// The fields of a config.json that decide what a model computes or trains, but not the shapes of
// its tensors.
constexpr std::array kCompared = {"model_type",
                                  "n_head",
                                  "activation_function",
                                  "layer_norm_epsilon",
                                  "num_attention_heads",
                                  "num_key_value_heads",
                                  "head_dim",
                                  "hidden_act",
                                  "rms_norm_eps",
                                  "rope_theta",
                                  "layer_norm_eps",
                                  "tie_word_embeddings",
                                  "pad_token_id"};

// The same keys of [model] in a job. Fine-tuning may change other keys that no shape shows, such as
// dropout or the number of positions.
constexpr std::array kComparedKeys = {
    "activation", "clip_bound",     "n_head",      "num_attention_heads",
    "num_heads",  "hidden_act",     "norm",        "rms_norm_eps",
    "rope_theta", "layer_norm_eps", "norm_groups", "pad_token_id"};

// The values of fields that a config.json of transformers leaves out.
struct ClassDefault {
  std::string_view model_type;
  std::string_view field;
  const char* value;  // JSON
};
constexpr std::array kClassDefaults = {ClassDefault{"gpt2", "n_head", "12"},
                                       ClassDefault{"gpt2", "activation_function", "\"gelu_new\""},
                                       ClassDefault{"gpt2", "layer_norm_epsilon", "1e-5"},
                                       ClassDefault{"gpt2", "bos_token_id", "50256"},
                                       ClassDefault{"gpt2", "eos_token_id", "50256"},
                                       ClassDefault{"llama", "num_attention_heads", "32"},
                                       ClassDefault{"llama", "hidden_act", "\"silu\""},
                                       ClassDefault{"llama", "rms_norm_eps", "1e-6"},
                                       ClassDefault{"llama", "rope_theta", "10000"},
                                       ClassDefault{"llama", "tie_word_embeddings", "false"},
                                       ClassDefault{"llama", "bos_token_id", "1"},
                                       ClassDefault{"llama", "eos_token_id", "2"},
                                       ClassDefault{"bert", "num_attention_heads", "12"},
                                       ClassDefault{"bert", "hidden_act", "\"gelu\""},
                                       ClassDefault{"bert", "layer_norm_eps", "1e-12"},
                                       ClassDefault{"bert", "pad_token_id", "0"}};

// Fields of functions that acan does not have, and the values with which they have no effect.
struct WithoutEffect {
  const char* field;
  const char* value;  // JSON
  const char* own;    // what acan does
};
constexpr std::array kWithoutEffect = {
    WithoutEffect{"rope_scaling", "null", "acan does not scale rotary positions"},
    WithoutEffect{"sliding_window", "null", "acan's attention has no window"},
    WithoutEffect{"is_decoder", "false", "acan's BERT is not a decoder"},
    WithoutEffect{"position_embedding_type", "\"absolute\"", "acan's BERT has absolute positions"},
    WithoutEffect{"scale_attn_weights", "true", "acan's attention scales its weights"},
    WithoutEffect{"scale_attn_by_inverse_layer_idx", "false",
                  "acan scales attention in all layers alike"}};

// Both may have been written as float or as double.
bool SameValue(const json& a, const json& b) {
  if (a.is_number() && b.is_number()) return a.get<float>() == b.get<float>();
  if (a.is_string() && b.is_string()) {
    return OneActivation(a.get<std::string>()) == OneActivation(b.get<std::string>());
  }
  return a == b;
}

// Why `value` is not what a file beside weights has; empty if it is.
std::string ProblemOf(const json& value) {
  if (value.is_discarded()) return "is not JSON";
  if (!value.is_object()) return fmt::format("is a JSON {}, not an object", value.type_name());
  if (!IsDeeperThan(value, kMaxJsonDepth)) return "";
  return fmt::format("nests arrays and objects more than {} deep", kMaxJsonDepth);
}

// Throws Error (usage) for a file that has no such object, for example after an interrupted copy:
// then nobody knows whether the weights are those of the job's model.
json ReadObject(const std::string& path, std::int64_t max_bytes, const char* what) {
  json object = ParseJsonOrDiscard(ReadTextFile(path, max_bytes, what));
  const std::string problem = ProblemOf(object);
  if (problem.empty()) return object;
  throw UsageError(
      fmt::format("{}: describes the weights, but {}; restore the file, or keep the weights in a "
                  "folder without it",
                  path, problem));
}

// The fields of rotary positions that transformers uses: those of the first of these objects that
// is not empty. Releases before 5 write the first one. An empty object if there is none.
json RotaryFields(const json& config) {
  for (const char* name : {"rope_scaling", "rope_parameters"}) {
    const auto fields = config.find(name);
    if (fields != config.end() && fields->is_object() && !fields->empty()) return *fields;
  }
  return json::object();
}

// The fields of rotary positions are those of the releases before 5: rope_theta, and rope_scaling,
// which is null if it has no effect. Throws as ReadObject.
json ReadConfig(const std::string& path) {
  constexpr std::int64_t kMaxBytes = 16 << 20;
  json config = ReadObject(path, kMaxBytes, "a config.json of transformers");
  // GPT2Config has a second name for the heads, which counts if a file has both. (It has others for
  // the sizes that the shapes of tensors show.)
  if (config.value("model_type", json()) == "gpt2" && config.contains("num_attention_heads")) {
    config["n_head"] = config["num_attention_heads"];
  }
  const auto scaling = config.find("rope_scaling");
  const bool is_known = scaling == config.end() || scaling->is_null() || scaling->is_object();
  if (!is_known) return config;  // has an effect that acan does not know
  const json rotary = RotaryFields(config);
  // "type" is the older name.
  const json type = rotary.value("rope_type", rotary.value("type", json("default")));
  config["rope_scaling"] = nullptr;
  if (type != "default") config["rope_scaling"] = rotary;
  if (rotary.contains("rope_theta")) config["rope_theta"] = rotary["rope_theta"];
  return config;
}

// The number with which a job names the token that does not train BERT's embedding; -1: there is
// none. `value` is that of a config.json, where null means none and PyTorch counts negative numbers
// from the end of the table. Other values stay as they are.
json PaddingToken(const json& value, std::int64_t vocab_size) {
  if (value.is_null()) return -1;
  if (!value.is_number_integer() || value.is_number_unsigned()) return value;
  const auto token = value.get<std::int64_t>();
  return token < 0 && token >= -vocab_size ? json(token + vocab_size) : value;
}

// Throws for a file that says `found` of the weights.
[[noreturn]] void Refuse(const std::string& path, const std::string& found,
                         const std::string& instead) {
  throw UsageError(fmt::format(
      "{}: describes the weights and has {}, but {}; if the difference is intended, keep the "
      "weights in a folder without this file",
      path, found, instead));
}

// The value that transformers uses for a field that the file leaves out; discarded: unknown.
json DefaultOf(const json& config, std::string_view field) {
  const auto row = std::ranges::find_if(kClassDefaults, [&](const ClassDefault& known) {
    return known.field == field && config.value("model_type", json()) == known.model_type;
  });
  return row == kClassDefaults.end() ? json(json::value_t::discarded) : json::parse(row->value);
}

// The config.json of the job's model, but with the padding token as the job names it.
json OwnConfig(const ModelOptions& options) {
  json config = TransformersConfig(options);
  if (const auto* bert = std::get_if<model::BertOptions>(&options)) {
    config[kPaddingToken] = bert->pad_token_id;
  }
  return config;
}

void RequireConfig(const ModelOptions& options, const std::string& path) {
  const json config = ReadConfig(path);
  const json own = OwnConfig(options);
  for (const std::string_view field : kCompared) {
    const bool given = config.contains(field);
    const json said = given ? config[field] : DefaultOf(config, field);
    if (!own.contains(field) || said.is_discarded()) continue;
    // Only that of BERT is in its own config.
    const json value =
        field == kPaddingToken ? PaddingToken(said, own["vocab_size"].get<std::int64_t>()) : said;
    if (value.is_null() || SameValue(value, own[field])) continue;
    const std::string in_job =
        value == said ? "" : fmt::format(", which is {} in a job", JsonText(value));
    Refuse(path,
           given ? fmt::format("{} = {}{}", field, JsonText(said), in_job)
                 : fmt::format("no {}, which means {}", field, JsonText(value)),
           fmt::format("the job's model has {}", JsonText(own[field])));
  }
  for (const auto& [field, value, what] : kWithoutEffect) {
    if (!config.contains(field) || config[field].is_null()) continue;
    if (config[field] == json::parse(value)) continue;
    Refuse(path, fmt::format("{} = {}", field, JsonText(config[field])),
           fmt::format("{} (only {})", what, value));
  }
}

// Earlier releases did not write the kind of an MLP.
json KindIn(const json& model) {
  return model.value("kind", json("mlp"));
}

void RequireJob(const Job& job, const std::string& path) {
  const json kept = ReadObject(path, kMaxJobBytes, "the job that a run keeps");
  const auto model = kept.find("model");
  if (model == kept.end() || !model->is_object()) return;
  const json own = JobToJson(job)["model"];
  if (KindIn(*model) != KindIn(own)) return;
  const auto compare = [&](const char* key) {
    if (!model->contains(key) || !own.contains(key) || SameValue((*model)[key], own[key])) return;
    Refuse(path, fmt::format("model.{} = {}", key, JsonText((*model)[key])),
           fmt::format("the job's model has {}", JsonText(own[key])));
  };
  for (const char* key : kComparedKeys) compare(key);
  // The table of positions shows how many patches an image has, but not its sides.
  if (KindIn(own) == "vit") compare("image_size");
}

// Whether a class of transformers has the tensors of the model. That of Llama has them even for
// options that its configuration refuses.
bool HasClass(const ModelOptions& options) {
  return std::holds_alternative<model::LlamaOptions>(options) ||
         NoTransformersConfig(options).empty();
}

}  // namespace

void RequireModelOfWeights(const Job& job, const std::string& weights) {
  if (const std::string path = FileOfWeights(weights, kJobName); !path.empty()) {
    RequireJob(job, path);
  }
  if (!HasClass(job.model)) return;
  if (const std::string path = FileOfWeights(weights, kConfigName); !path.empty()) {
    RequireConfig(job.model, path);
  }
}

void TakeNamesOf(const std::string& path, json* config) {
  json pretrained;
  try {
    pretrained = ReadConfig(path);
  } catch (const Error&) {
    return;
  }
  for (const char* token : {"bos_token_id", "eos_token_id"}) {
    const json known =
        pretrained.contains(token) ? pretrained[token] : DefaultOf(pretrained, token);
    if (!known.is_discarded()) (*config)[token] = known;
  }
  // BERT's is that of the job.
  if (config->value("model_type", json()) != "bert" && pretrained.contains(kPaddingToken)) {
    (*config)[kPaddingToken] = pretrained[kPaddingToken];
  }
  for (const char* labels : {"id2label", "label2id"}) {
    const bool as_many = config->contains(labels) && pretrained.contains(labels) &&
                         pretrained[labels].size() == (*config)[labels].size();
    if (as_many) (*config)[labels] = pretrained[labels];
  }
}

}  // namespace acan
