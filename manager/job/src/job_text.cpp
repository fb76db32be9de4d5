// Converts a job to text: JSON for receipts, TOML for printing.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <system_error>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/manager/closest_word.h"
#include "acan/manager/job.h"
#include "acan/manager/json_depth.h"
#include "acan/manager/output_names.h"
#include "acan/manager/sha256.h"
#include "acan/manager/text_file.h"
#include "acan/model/graph_text.h"
#include "job_words.h"
#include "model_keys.h"
#include "nlohmann/json.hpp"

namespace acan {
namespace {

using nlohmann::json;

template <typename T>
json OrAuto(const std::optional<T>& value) {
  return value ? json(*value) : json("auto");
}

// Without the kind, which earlier releases did not write, because training ids are hashes of this
// text.
json PerceptronToJson(const Perceptron& perceptron) {
  json model = {{"layers", perceptron.layers},
                {"activation", WordOf(ActivationWords(), perceptron.activation)},
                {"loss", WordOf(LossWords(), perceptron.loss)}};
  if (perceptron.activation == Activation::kClippedRelu) {
    model["clip_bound"] = static_cast<double>(perceptron.clip_bound);
  }
  return model;
}

json ModelToJson(const Job& job) {
  json model;
  if (const auto* perceptron = std::get_if<Perceptron>(&job.model)) {
    model = PerceptronToJson(*perceptron);
  } else {
    model = ModelKeysToJson(job.model);
    model["kind"] = KindOf(job.model);
  }
  if (!job.initial_weights.empty()) model["initial_weights"] = job.initial_weights;
  if (!job.initial_weights_sha256.empty()) {
    model["initial_weights_sha256"] = job.initial_weights_sha256;
  }
  return model;
}

void SetIfAny(const char* key, const std::string& path, json* data) {
  if (!path.empty()) (*data)[key] = path;
}

void TextToJson(const TextData& text, json* data) {
  SetIfAny("text", text.text, data);
  SetIfAny("train_text", text.train_text, data);
  SetIfAny("test_text", text.test_text, data);
  if (!text.text.empty()) (*data)["test_fraction"] = text.test_fraction;
  (*data)["tokenizer"] = text.tokenizer;
}

void TokensToJson(const DataFiles& files, json* data) {
  SetIfAny("train_tokens", files.tokens.train, data);
  SetIfAny("test_tokens", files.tokens.test, data);
  SetIfAny("tokens_type", files.tokens.type, data);
  SetIfAny("train_labels", files.train_targets, data);
  SetIfAny("test_labels", files.test_targets, data);
  SetIfAny("train_lengths", files.tokens.train_lengths, data);
  SetIfAny("test_lengths", files.tokens.test_lengths, data);
  SetIfAny("train_token_types", files.tokens.train_types, data);
  SetIfAny("test_token_types", files.tokens.test_types, data);
}

// Writes only what was chosen, so that jobs without images keep their ids.
void ImagesToJson(const ImageData& images, json* data) {
  SetIfAny("layout", images.layout, data);
  if (!images.mean.empty()) (*data)["mean"] = images.mean;
  if (!images.deviation.empty()) (*data)["std"] = images.deviation;
  if (images.crop_padding > 0) (*data)["crop_padding"] = images.crop_padding;
  if (images.flip) (*data)["flip"] = true;
}

json DataToJson(const Job& job) {
  json data = {{"shuffle", job.training.shuffle}};
  if (!job.data.generated.empty()) {
    data["generated"] = job.data.generated;
    data["samples"] = job.data.generated_samples;
    return data;
  }
  if (job.data.text.used()) {
    TextToJson(job.data.text, &data);
    return data;
  }
  if (job.data.tokens.used()) {
    TokensToJson(job.data, &data);
    if (job.data.ignore_label) data["ignore_label"] = *job.data.ignore_label;
    return data;
  }
  ImagesToJson(job.data.images, &data);
  const std::string kind = job.loss() == Loss::kCrossEntropy ? "labels" : "targets";
  data["train_inputs"] = job.data.train_inputs;
  data["train_" + kind] = job.data.train_targets;
  if (!job.data.test_inputs.empty()) {
    data["test_inputs"] = job.data.test_inputs;
    data["test_" + kind] = job.data.test_targets;
  }
  if (job.data.ignore_label) data["ignore_label"] = *job.data.ignore_label;
  return data;
}

json TrainingToJson(const Training& training) {
  json train = {{"batch", training.batch},
                {"epochs", training.epochs},
                {"optimizer", WordOf(OptimizerWords(), training.optimizer)},
                {"seed", training.seed},
                {"precision", WordOf(PrecisionWords(), training.precision)},
                {"block", training.block},
                {"schedule", WordOf(ScheduleWords(), training.schedule.kind)},
                {"warmup_steps", training.schedule.warmup_steps}};
  for (const OptimizerKey& key : kOptimizerKeys) {
    if (FindKey(RowOf(training.optimizer), key.name) == nullptr) continue;
    train[std::string(key.name)] = training.*key.value;
  }
  if (training.schedule.kind == ScheduleKind::kStep) {
    train["step_every"] = training.schedule.step_every;
    train["step_factor"] = training.schedule.step_factor;
  }
  if (training.schedule.kind == ScheduleKind::kCosine) {
    train["final_fraction"] = training.schedule.final_fraction;
  }
  // Keys that earlier releases did not know are written only if they are set, so that ids stay the
  // same.
  if (training.steps) {
    train.erase("epochs");
    train["steps"] = *training.steps;
  }
  if (training.evaluate_every) train["evaluate_every"] = *training.evaluate_every;
  if (training.clip_norm > 0) train["clip_norm"] = training.clip_norm;
  return train;
}

}  // namespace

json JobToJson(const Job& job) {
  json train = TrainingToJson(job.training);
  train["stop_if_not_finite"] = job.stop_if_not_finite;
  if (job.decay != model::DecayRule::kEverything) train["decay"] = WordOf(DecayWords(), job.decay);
  if (!job.freeze.empty()) train["freeze"] = job.freeze;
  json all = {{"model", ModelToJson(job)},
              {"data", DataToJson(job)},
              {"train", std::move(train)},
              {"tasks",
               {{"size_bytes", OrAuto(job.tasks.size_bytes)},
                {"batch_rows", OrAuto(job.tasks.batch_rows)},
                {"pouch", OrAuto(job.tasks.pouch)},
                {"timeout_ms", OrAuto(job.tasks.timeout_ms)},
                {"policy", WordOf(PolicyWords(), job.tasks.policy)},
                {"audit", job.tasks.audit},
                {"resident_steps", job.tasks.resident_steps},
                {"recompute", WordOf(RecomputeWords(), job.tasks.recompute)},
                {"leave_out_slow", job.tasks.leave_out_slow}}},
              {"snapshots", {{"every_steps", OrAuto(job.snapshots.every_steps)}}}};
  if (job.output_config != OutputConfig::kNone) {
    all["output"]["config"] = WordOf(OutputConfigWords(), job.output_config);
  }
  return all;
}

namespace {

constexpr std::array<const char*, 6> kSections = {"model", "data",      "train",
                                                  "tasks", "snapshots", "output"};

// JSON's texts of scalars and of arrays of integers are valid TOML, and strings are escaped in the
// same way, except that TOML also wants DEL escaped. No other character has this byte in UTF-8.
std::string ValueText(const json& value) {
  constexpr char kDelete = '\x7f';
  std::string text = JsonText(value);
  for (std::size_t at = 0; (at = text.find(kDelete, at)) != std::string::npos;) {
    text.replace(at, 1, "\\u007f");
  }
  return text;
}

std::string KeyText(const std::string& key) {
  const bool bare =
      !key.empty() &&
      key.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789") == std::string::npos;
  return bare ? key : ValueText(key);
}

std::string SectionsToToml(const json& sections, const std::string& name) {
  std::string toml;
  for (const auto& [section, values] : sections.items()) {
    if (std::find(kSections.begin(), kSections.end(), section) == kSections.end()) {
      throw UsageError(fmt::format("{}: unknown section '{}' in its job{}", name, section,
                                   DidYouMean(section, {kSections.begin(), kSections.end()})));
    }
  }
  for (const char* section : kSections) {
    const auto values = sections.find(section);
    if (values == sections.end()) continue;
    if (!values->is_object()) {
      throw UsageError(fmt::format("{}: job.{} must be an object, found {}", name, section,
                                   values->type_name()));
    }
    toml += fmt::format("{}[{}]\n", toml.empty() ? "" : "\n", section);
    for (const auto& [key, value] : values->items()) {
      if (value.is_object() || value.is_null()) {
        throw UsageError(fmt::format("{}: job.{}.{} must be a number, string, boolean or array",
                                     name, section, key));
      }
      toml += fmt::format("{} = {}\n", KeyText(key), ValueText(value));
    }
  }
  return toml;
}

constexpr const char* kGraphFile = "/model/file";
constexpr const char* kGraphHash = "/model/file_sha256";

// False if the file cannot be read: whoever opens it reports that.
bool HasSha256(const std::string& path, const std::string& sha256) try {
  const std::string text = ReadTextFile(path, model::kMaxGraphFileBytes, "a graph file");
  Sha256 hash;
  hash.Add(text.data(), text.size());
  return hash.Hex() == sha256;
} catch (const Error&) {
  return false;
}

// The output folder of a run has a copy of the graph file beside `name`. The path of the copy, if
// the original is not there any more, or was edited since, for another run. The job must have the
// hash that the copy must have.
std::optional<std::string> KeptGraph(const json& sections, const std::string& name) {
  const json::json_pointer file(kGraphFile);
  const json::json_pointer hash(kGraphHash);
  if (!sections.contains(file) || !sections[file].is_string()) return std::nullopt;
  if (!sections.contains(hash) || !sections[hash].is_string()) return std::nullopt;
  namespace fs = std::filesystem;
  const fs::path copy = fs::path(name).parent_path() / kGraphName;
  std::error_code error;
  if (!fs::exists(copy, error)) return std::nullopt;
  if (HasSha256(sections[file].get<std::string>(), sections[hash].get<std::string>())) {
    return std::nullopt;
  }
  return copy.string();
}

}  // namespace

std::string JobToToml(const Job& job) {
  return SectionsToToml(JobToJson(job), "job");
}

Job JobFromJson(const json& sections, const std::string& name) {
  if (IsDeeperThan(sections, kMaxJsonDepth)) {
    throw UsageError(
        fmt::format("{}: its job nests arrays and objects more than {} deep, which no job does",
                    name, kMaxJsonDepth));
  }
  if (!sections.is_object()) {
    throw UsageError(
        fmt::format("{}: job must be an object, found {}", name, sections.type_name()));
  }
  const std::optional<std::string> copy = KeptGraph(sections, name);
  if (!copy) return ParseJob(SectionsToToml(sections, name), name, "", {});
  const json::json_pointer file(kGraphFile);
  json with_copy = sections;
  with_copy[file] = *copy;
  Job job = ParseJob(SectionsToToml(with_copy, name), name, "", {});
  if (auto* graph = std::get_if<GraphFile>(&job.model)) graph->path = sections[file];
  return job;
}

}  // namespace acan
