// Compares the config.json of pretrained weights with a job's model.
#include <fmt/format.h>

#include <array>
#include <string>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/manager/json_depth.h"
#include "acan/manager/model_config.h"
#include "acan/manager/text_file.h"
#include "nlohmann/json.hpp"

namespace acan {
namespace {

using nlohmann::json;

// The fields that decide what a model computes, but not the shapes of its tensors.
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
                                  "layer_norm_eps"};

// Fields of functions that acan does not have, and the values with which they have no effect.
struct WithoutEffect {
  const char* field;
  const char* value;  // JSON
};
constexpr std::array kWithoutEffect = {WithoutEffect{"rope_scaling", "null"},
                                       WithoutEffect{"sliding_window", "null"},
                                       WithoutEffect{"is_decoder", "false"},
                                       WithoutEffect{"position_embedding_type", "\"absolute\""},
                                       WithoutEffect{"scale_attn_weights", "true"},
                                       WithoutEffect{"scale_attn_by_inverse_layer_idx", "false"}};

// transformers has several names for one function.
std::string OneName(const std::string& word) {
  if (word == "gelu_pytorch_tanh" || word == "gelu_fast") return "gelu_new";
  return word == "swish" ? "silu" : word;
}

// Both may have been written as float or as double.
bool SameValue(const json& a, const json& b) {
  if (a.is_number() && b.is_number()) return a.get<float>() == b.get<float>();
  if (a.is_string() && b.is_string()) {
    return OneName(a.get<std::string>()) == OneName(b.get<std::string>());
  }
  return a == b;
}

// An empty object for a file that is none of transformers.
json ReadConfig(const std::string& path) {
  constexpr std::int64_t kMaxBytes = 16 << 20;
  json config = ParseJsonOrDiscard(ReadTextFile(path, kMaxBytes, "a config.json of transformers"));
  if (!config.is_object() || IsDeeperThan(config, kMaxJsonDepth)) return json::object();
  // transformers 5 has the fields of rotary positions in an object of their own.
  const auto rope = config.find("rope_parameters");
  if (rope == config.end() || !rope->is_object()) return config;
  const json parameters = *rope;
  if (parameters.contains("rope_theta")) config["rope_theta"] = parameters["rope_theta"];
  if (parameters.value("rope_type", json("default")) != "default") {
    config["rope_scaling"] = parameters;
  }
  return config;
}

}  // namespace

void RequireConfigOf(const ModelOptions& options, const std::string& path) {
  const json config = ReadConfig(path);
  const json own = TransformersConfig(options);
  const auto refuse = [&](const char* field, const std::string& instead) {
    throw UsageError(fmt::format(
        "{}: describes the pretrained weights and has {} = {}, but {}; if the difference is "
        "intended, keep the weights in a folder without this file",
        path, field, JsonText(config[field]), instead));
  };
  for (const char* field : kCompared) {
    if (!config.contains(field) || !own.contains(field) || config[field].is_null()) continue;
    if (SameValue(config[field], own[field])) continue;
    refuse(field, fmt::format("the job's model has {}", JsonText(own[field])));
  }
  for (const auto& [field, value] : kWithoutEffect) {
    if (!config.contains(field) || config[field].is_null()) continue;
    if (config[field] != json::parse(value)) {
      refuse(field, fmt::format("acan's model is that of {}", value));
    }
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
    if (config->contains(token) && pretrained.contains(token)) (*config)[token] = pretrained[token];
  }
  for (const char* labels : {"id2label", "label2id"}) {
    const bool as_many = config->contains(labels) && pretrained.contains(labels) &&
                         pretrained[labels].size() == (*config)[labels].size();
    if (as_many) (*config)[labels] = pretrained[labels];
  }
}

}  // namespace acan
