#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cassert>
#include <map>
#include <optional>
#include <ranges>
#include <set>
#include <string_view>
#include <utility>

#include "acan/core/text/json_text.h"
#include "acan/manager/closest_word.h"
#include "acan/manager/model_file.h"
#include "acan/manager/sha256.h"
#include "model_layout.h"
#include "nlohmann/json.hpp"

namespace acan {
namespace {

std::string ShapeText(const std::vector<std::int64_t>& shape) {
  return JsonText(nlohmann::json(shape));
}

TensorPlace PlaceOf(const StoredTensor& tensor) {
  return {tensor.begin, tensor.end};
}

// "3 tensors of the model (the first is 'a')", or "the tensor 'a' of the model".
std::string FirstOf(const std::vector<std::string>& names, const char* which) {
  if (names.size() == 1) return fmt::format("the tensor '{}'{}", names.front(), which);
  return fmt::format("{} tensors{} (the first is '{}')", names.size(), which, names.front());
}

// Whether a class of transformers loads models of this kind.
bool HasTransformersClass(std::string_view kind) {
  return kind == "gpt" || kind == "llama" || kind == "bert";
}

// Masks and tables in transformers' files, which its classes recreate. A model of another kind may
// have weights with such names.
bool IsBuffer(const std::string& name) {
  return name.ends_with("embeddings.position_ids") || name.ends_with(".attn.bias") ||
         name.ends_with(".attn.masked_bias") || name.ends_with(".rotary_emb.inv_freq");
}

// The name of a layer norm's tensor in the BERT of TensorFlow; empty for other tensors.
// transformers reads these names, and writes them again when it saves a model that it read from
// such a file.
std::string TensorFlowName(const std::string& name) {
  constexpr std::pair<std::string_view, std::string_view> kNames[] = {
      {"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}};
  for (const auto& [own, other] : kNames) {
    if (name.ends_with(own)) {
      return name.substr(0, name.size() - own.size()) + std::string(other);
    }
  }
  return "";
}

// The prefix that transformers adds to the names of a base model inside a model with a head, if the
// file, of the base model alone, lacks it. Empty if the model has no such names, or if the file has
// them.
std::string MissingPrefix(const SafetensorsFile& file, const model::Graph& graph) {
  for (std::string prefix : {"transformer.", "bert.", "model."}) {
    const auto begins = [&prefix](const std::string& name) { return name.starts_with(prefix); };
    const bool in_model = std::ranges::any_of(graph.parameters(), begins, &model::Parameter::name);
    const bool in_file = std::any_of(file.tensors().begin(), file.tensors().end(),
                                     [&](const auto& tensor) { return begins(tensor.first); });
    if (in_model && !in_file) return prefix;
  }
  return "";
}

}  // namespace

struct ModelReader::Impl {
  explicit Impl(std::shared_ptr<const SafetensorsFile> of) : file(std::move(of)) {}

  void Bind(const TrainedModel& model);
  void BindBase(const TrainedModel& model, const std::string& prefix_in_file);
  void FindOtherNames(const model::Graph& graph);
  int CountStates(const model::Graph& graph) const;
  void EraseStates(const model::Graph& graph, std::set<std::string>* names) const;
  std::string HintOf(const std::vector<std::string>& missing, const TrainedModel& model) const;
  void CheckNames(const TrainedModel& model) const;
  void CheckTensor(const TensorInfo& tensor) const;
  void CheckTied(const std::string& name, const model::Parameter& parameter) const;
  bool Has(const std::string& in_file) const { return file->tensors().contains(in_file); }
  // The file's name of a tensor of the model.
  std::string InFile(const std::string& name) const {
    const auto other = other_names.find(name);
    if (other != other_names.end()) return other->second;
    return added + (name.starts_with(prefix) ? name.substr(prefix.size()) : name);
  }

  std::shared_ptr<const SafetensorsFile> file;
  std::string prefix;    // as MissingPrefix
  std::string added;     // what the file has before the model's names
  bool is_base = false;  // the file may have tensors beyond the model's
  Take take = Take::kWeights;
  int states = 0;
  std::vector<TensorInfo> tensors;
  std::vector<TensorPlace> places;                // of `tensors`
  std::map<std::string, TensorPlace> of_weights;  // parameters and step counters, by name
  // The file's names of parameters that it has under another name than the model's.
  std::map<std::string, std::string> other_names;
};

void ModelReader::Impl::FindOtherNames(const model::Graph& graph) {
  for (const model::Parameter& parameter : graph.parameters()) {
    const std::string usual = InFile(parameter.name);
    if (Has(usual)) continue;
    const std::string other = TensorFlowName(usual);
    if (!other.empty() && Has(other)) other_names[parameter.name] = other;
  }
  // Of tied tensors, safetensors.torch.save_model keeps the one whose name comes first.
  for (const model::TiedName& tied : graph.tied_names()) {
    const std::string& name = graph.parameter(tied.parameter).name;
    if (!Has(InFile(name)) && Has(tied.name)) other_names[name] = tied.name;
  }
}

// The maximum number of optimizer states that a parameter has in the file.
int ModelReader::Impl::CountStates(const model::Graph& graph) const {
  for (int count = kMaxOptimizerStates; count > 0; --count) {
    const std::string suffix = StateSuffix(StatesOf(count).back());
    for (const model::Parameter& parameter : graph.parameters()) {
      if (file->tensors().contains(parameter.name + suffix)) return count;
    }
  }
  return 0;
}

// Erases the file's names of optimizer state, of whatever parameters its run trained.
void ModelReader::Impl::EraseStates(const model::Graph& graph, std::set<std::string>* names) const {
  for (const model::Parameter& parameter : graph.parameters()) {
    if (parameter.role == model::Role::kStatistic) continue;
    for (const ParameterState state : StatesOf(kMaxOptimizerStates).subspan(1)) {
      names->erase(InFile(parameter.name + StateSuffix(state)));
    }
  }
}

// For the end of a message about missing tensors: what the reason may be.
std::string ModelReader::Impl::HintOf(const std::vector<std::string>& missing,
                                      const TrainedModel& model) const {
  if (std::string shards = file->ShardsHint(); !shards.empty()) return shards;
  if (is_base && missing.empty()) {
    return "; does num_hidden_layers of config.json count all its layers?";
  }
  // The file of a tied model has one of them. A job that does not say so has another model.
  const bool may_be_tied = std::ranges::any_of(missing, [](const std::string& name) {
    return name == "lm_head.weight" || name == "model.embed_tokens.weight";
  });
  return model.kind == "llama" && may_be_tied && model.training.tied_names().empty()
             ? "; is the model tied (model.tie_word_embeddings = true)?"
             : "";
}

// Checks for tensors that the file lacks, and for those that are not the model's.
void ModelReader::Impl::CheckNames(const TrainedModel& model) const {
  std::set<std::string> unknown;
  for (const auto& [name, stored] : file->tensors()) unknown.insert(name);
  std::vector<std::string> missing;
  for (const TensorInfo& tensor : tensors) {
    if (unknown.erase(InFile(tensor.name)) == 0) missing.push_back(tensor.name);
  }
  for (const std::string& name : model.training.step_counters()) unknown.erase(name);
  for (const model::TiedName& tied : model.training.tied_names()) unknown.erase(tied.name);
  if (HasTransformersClass(model.kind)) std::erase_if(unknown, IsBuffer);
  if (take == Take::kWeights) EraseStates(model.training, &unknown);
  // A head's tensors are not read, but a layer's would change the base model.
  if (is_base) {
    const std::string layers = InFile("encoder.layer.");
    std::erase_if(unknown,
                  [&layers](const std::string& name) { return !name.starts_with(layers); });
  }
  if (missing.empty() && unknown.empty()) return;
  std::string text;
  if (!missing.empty()) text = "lacks " + FirstOf(missing, " of the model");
  if (!unknown.empty()) {
    const std::vector<std::string> others(unknown.begin(), unknown.end());
    text += fmt::format(
        "{}has {}", text.empty() ? "" : " and ",
        FirstOf(others, missing.empty() ? ", which the model lacks" : " that the model lacks"));
    std::vector<std::string> names;
    for (const TensorInfo& tensor : tensors) names.push_back(tensor.name);
    if (const std::string near = ClosestWord(others.front(), names); !near.empty()) {
      text += fmt::format(" (near '{}')", near);
    }
  }
  throw OtherTensors(fmt::format("{}: {}; the model is of kind \"{}\" and has {} tensors{}",
                                 file->path(), text, model.kind, tensors.size(),
                                 HintOf(missing, model)));
}

void ModelReader::Impl::CheckTensor(const TensorInfo& tensor) const {
  const std::string name = InFile(tensor.name);
  const StoredTensor& stored = file->tensors().at(name);
  if (stored.type != "F32") {
    file->Refuse(fmt::format("tensor '{}' has dtype \"{}\", expected \"F32\"{}", name, stored.type,
                             stored.type == "F16" || stored.type == "BF16" || stored.type == "F64"
                                 ? ": save the model with model.float().save_pretrained(...)"
                                 : ""));
  }
  if (stored.shape != tensor.shape) {
    throw OtherTensors(fmt::format("{}: tensor '{}' has shape {}, expected {}", file->path(), name,
                                   ShapeText(stored.shape), ShapeText(tensor.shape)));
  }
}

// Only the first tensor is read, so the second one must be equal.
void ModelReader::Impl::CheckTied(const std::string& name,
                                  const model::Parameter& parameter) const {
  const auto second = file->tensors().find(name);
  if (second == file->tensors().end() || name == InFile(parameter.name)) return;
  const StoredTensor& first = file->tensors().at(InFile(parameter.name));
  if (second->second.type != first.type) {
    file->Refuse(
        fmt::format("tensor '{}' has dtype \"{}\", expected \"{}\" as '{}', with which it is tied",
                    name, second->second.type, first.type, parameter.name));
  }
  if (second->second.shape != first.shape) {
    file->Refuse(fmt::format("tensor '{}' has shape {}, expected {} as '{}', with which it is tied",
                             name, ShapeText(second->second.shape), ShapeText(first.shape),
                             parameter.name));
  }
  constexpr std::int64_t kComparedBytes = 1 << 20;
  std::vector<char> a(kComparedBytes);
  std::vector<char> b(kComparedBytes);
  for (std::int64_t at = 0; at < first.bytes(); at += kComparedBytes) {
    const auto bytes = static_cast<std::size_t>(std::min(kComparedBytes, first.bytes() - at));
    file->ReadAt(first.begin + at, a.data(), bytes);
    file->ReadAt(second->second.begin + at, b.data(), bytes);
    if (!std::equal(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(bytes), b.begin())) {
      file->Refuse(fmt::format("tensor '{}' differs from '{}': the model has one tensor for both",
                               name, parameter.name));
    }
  }
}

void ModelReader::Impl::Bind(const TrainedModel& model) {
  prefix = MissingPrefix(*file, model.training);
  FindOtherNames(model.training);
  states = take == Take::kWithStates ? CountStates(model.training) : 0;
  tensors = ModelTensors(model, states);
  CheckNames(model);
  for (const TensorInfo& tensor : tensors) {
    CheckTensor(tensor);
    places.push_back(PlaceOf(file->tensors().at(InFile(tensor.name))));
    if (tensor.matrix.state == ParameterState::kValue) of_weights[tensor.name] = places.back();
  }
  for (const std::string& name : model.training.step_counters()) {
    const auto counter = file->tensors().find(name);
    if (counter == file->tensors().end()) continue;
    if (counter->second.type != "I64" || counter->second.bytes() != sizeof(std::int64_t)) {
      file->Refuse(fmt::format("tensor '{}' has dtype \"{}\" and shape {}, expected one \"I64\"",
                               name, counter->second.type, ShapeText(counter->second.shape)));
    }
    of_weights[name] = PlaceOf(counter->second);
  }
  for (const model::TiedName& tied : model.training.tied_names()) {
    CheckTied(tied.name, model.training.parameter(tied.parameter));
  }
}

void ModelReader::Impl::BindBase(const TrainedModel& model, const std::string& prefix_in_file) {
  is_base = true;
  const bool has_prefix = std::ranges::any_of(file->tensors(), [&](const auto& tensor) {
    return tensor.first.starts_with(prefix_in_file);
  });
  if (has_prefix) added = prefix_in_file;
  Bind(model);
}

ModelReader::ModelReader(const std::string& path, const TrainedModel& model)
    : ModelReader(std::make_shared<const SafetensorsFile>(path), model) {}

ModelReader::ModelReader(std::shared_ptr<const SafetensorsFile> file, const TrainedModel& model,
                         Take take)
    : impl_(std::make_unique<Impl>(std::move(file))) {
  impl_->take = take;
  impl_->Bind(model);
}

ModelReader::ModelReader(const std::string& path, const TrainedModel& model,
                         const std::string& prefix)
    : impl_(std::make_unique<Impl>(std::make_shared<const SafetensorsFile>(path))) {
  impl_->BindBase(model, prefix);
}

ModelReader::~ModelReader() = default;

void ModelReader::Read(std::size_t index, std::int64_t row, std::int64_t col, std::int64_t rows,
                       std::int64_t cols, std::span<float> out) const {
  assert(index < impl_->tensors.size());
  assert(static_cast<std::int64_t>(out.size()) == rows * cols);
  ReadRectangle(impl_->tensors[index], impl_->places[index], {row, col, rows, cols}, out,
                [this](std::int64_t offset, void* data, std::size_t bytes) {
                  impl_->file->ReadAt(offset, data, bytes);
                });
}

const std::vector<TensorInfo>& ModelReader::Tensors() const {
  return impl_->tensors;
}

int ModelReader::states() const {
  return impl_->states;
}

std::string ModelReader::WeightsSha256(const std::function<void()>& go_on) const {
  std::vector<TensorPlace> places;
  for (const auto& [name, place] : impl_->of_weights) places.push_back(place);
  Sha256 hash;
  HashTensors(
      places,
      [&](std::int64_t offset, void* data, std::size_t bytes) {
        impl_->file->ReadAt(offset, data, bytes);
        if (go_on) go_on();
      },
      &hash);
  return hash.Hex();
}

}  // namespace acan
