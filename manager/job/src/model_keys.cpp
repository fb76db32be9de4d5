#include "model_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <type_traits>

#include "acan/core/error.h"
#include "acan/manager/sha256.h"
#include "acan/manager/text_file.h"
#include "acan/model/graph_text.h"
#include "acan/model/rates.h"
#include "job_words.h"
#include "nlohmann/json.hpp"

namespace acan {
namespace {

using nlohmann::json;

constexpr double kMaxModelNumber = 1e30;
constexpr std::size_t kMaxStages = 64;

const std::vector<std::string>& MlpKeys() {
  static const std::vector<std::string> kKeys = {"layers", "activation", "clip_bound", "loss"};
  return kKeys;
}

// Receipts have file_sha256, which ties the file to the trained model.
const std::vector<std::string>& GraphKeys() {
  static const std::vector<std::string> kKeys = {"file", "file_sha256"};
  return kKeys;
}

template <class Visit>
void ForEachKey(Perceptron&, const Visit&) {}  // job.cpp reads them

bool IsRateKey(std::string_view key) {
  return key.ends_with("dropout") || key.ends_with("_prob") || key == "label_smoothing";
}

// Sets one field from its key.
struct ReadKey {
  const Section& section;

  void operator()(const char* key, std::int64_t& value) const {
    section.Integer(key, model::kMaxRows, &value);  // the presets check the range
  }
  // The number in the message is the job's, because the nearest float may be another one.
  void operator()(const char* key, float& value) const {
    if (!section.Has(key)) return;
    double number = 0;
    if (IsRateKey(key)) {
      section.Number(key, 0, 1, &number, Ends::kWithoutMost);
      value = static_cast<float>(number);
      if (!model::IsRate(value)) section.Refuse(key, "must be " + model::RateText(number));
      return;
    }
    section.Number(key, 0, kMaxModelNumber, &number, Ends::kWithoutLeast);
    value = static_cast<float>(number);
    if (value == 0.0f) section.Refuse(key, "must be above 0, and float32 rounds it to 0");
  }
  void operator()(const char* key, bool& value) const { section.Flag(key, &value); }
  void operator()(const char* key, std::vector<std::int64_t>& value) const {
    const bool counts = std::string_view(key) == "blocks";
    section.Integers(key, 1, kMaxStages, 1, counts ? model::kMaxLayers : model::kMaxWidth, &value);
  }
  // One number for both sides, or [height, width].
  void operator()(const char* key, model::Extent& value) const {
    if (!section.IsArray(key)) {
      section.Integer(key, 1, model::kMaxSide, &value.height);
      if (section.Has(key)) value.width = value.height;
      return;
    }
    std::vector<std::int64_t> sides;
    section.Integers(key, 2, 2, 1, model::kMaxSide, &sides);
    value = {sides[0], sides[1]};
  }
  template <typename Enum>
  requires std::is_enum_v<Enum>
  void operator()(const char* key, Enum& value) const {
    section.Word(key, ModelWords(value), &value);
  }
};

struct WriteKey {
  json& out;

  void operator()(const char* key, float value) const { out[key] = ShortNumber(value); }
  void operator()(const char* key, const model::Extent& value) const {
    if (value.height == value.width) {
      out[key] = value.height;
    } else {
      out[key] = {value.height, value.width};
    }
  }
  template <typename Value>
  void operator()(const char* key, const Value& value) const {
    if constexpr (std::is_enum_v<Value>) {
      out[key] = WordOf(ModelWords(value), value);
    } else {
      out[key] = value;
    }
  }
};

void ReadChoices(const Section&, Perceptron&) {}
template <class Options>
void ReadChoices(const Section&, Options&) {}
// The choices on which other keys depend are read first.
void ReadChoices(const Section& section, model::BertOptions& options) {
  ReadKey{section}("task", options.task);
  if (options.task == model::BertTask::kClassification || !section.Has("num_labels")) return;
  section.Refuse("num_labels",
                 "only task = \"classification\" uses it; remove it or choose that task");
}
void ReadChoices(const Section& section, model::ResnetOptions& options) {
  ReadKey{section}("norm", options.norm);
  if (options.norm == model::NormKind::kGroup || !section.Has("norm_groups")) return;
  section.Refuse("norm_groups", "only norm = \"group\" uses it; remove it or choose that norm");
}

// Options for which every key exists.
template <class Options>
Options WithAllKeys(Options options) {
  if constexpr (std::is_same_v<Options, model::BertOptions>) {
    options.task = model::BertTask::kClassification;
  } else if constexpr (std::is_same_v<Options, model::ResnetOptions>) {
    options.norm = model::NormKind::kGroup;
  }
  return options;
}

}  // namespace

double ShortNumber(float value) {
  return std::strtod(fmt::format("{}", value).c_str(), nullptr);
}

ModelOptions DefaultsOf(std::string_view kind) {
  static const std::array<ModelOptions, std::size(kModelKinds)> kAll = {
      Perceptron(),        model::GptOptions(),    model::LlamaOptions(),    model::BertOptions(),
      model::VitOptions(), model::ResnetOptions(), model::ConvnextOptions(), GraphFile()};
  const auto* at = std::ranges::find(kModelKinds, kind);
  return kAll.at(static_cast<std::size_t>(at - std::begin(kModelKinds)));
}

std::vector<std::string> KeysOfKind(std::string_view kind) {
  if (kind == kModelKinds[0]) return MlpKeys();
  if (kind == "graph") return GraphKeys();
  std::vector<std::string> keys;
  std::visit(
      [&keys](auto options) {
        options = WithAllKeys(options);
        ForEachKey(options, [&keys](const char* key, const auto&) { keys.emplace_back(key); });
      },
      DefaultsOf(kind));
  return keys;
}

const std::vector<std::string>& KeysOfAllKinds() {
  static const std::vector<std::string> kAll = [] {
    std::vector<std::string> keys;
    for (const std::string_view kind : kModelKinds) {
      for (std::string& key : KeysOfKind(kind)) {
        if (std::ranges::find(keys, key) == keys.end()) keys.push_back(std::move(key));
      }
    }
    return keys;
  }();
  return kAll;
}

void ReadModelKeys(const Section& section, ModelOptions* options) {
  std::visit(
      [&section](auto& of_kind) {
        ReadChoices(section, of_kind);
        ForEachKey(of_kind, ReadKey{section});
      },
      *options);
}

GraphFile ReadGraphFile(const std::string& path, const std::string& sha256) {
  GraphFile file;
  file.path = path;
  file.text = std::make_shared<const std::string>(
      ReadTextFile(path, model::kMaxGraphFileBytes, "a graph file"));
  Sha256 hash;
  hash.Add(file.text->data(), file.text->size());
  file.sha256 = hash.Hex();
  if (!sha256.empty() && sha256 != file.sha256) {
    throw UsageError(fmt::format("{}: the file has changed: its SHA-256 is {}, but the job says {}",
                                 path, file.sha256, sha256));
  }
  const model::Graph graph = model::ReadGraph(*file.text, path, model::Mode::kEvaluation);
  const model::Node& loss = graph.node(graph.value(graph.losses().front()).index);
  const bool has_classes = std::holds_alternative<model::CrossEntropy>(loss.op);
  file.loss = has_classes ? Loss::kCrossEntropy : Loss::kMeanSquaredError;
  return file;
}

json ModelKeysToJson(const ModelOptions& options) {
  json keys = json::object();
  if (const auto* file = std::get_if<GraphFile>(&options)) {
    return {{"file", file->path}, {"file_sha256", file->sha256}};
  }
  std::visit([&keys](auto of_kind) { ForEachKey(of_kind, WriteKey{keys}); }, options);
  return keys;
}

}  // namespace acan
