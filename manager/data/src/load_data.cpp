#include "acan/manager/load_data.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <new>
#include <optional>
#include <utility>

#include "acan/core/error.h"
#include "acan/core/text/system_error_text.h"
#include "acan/manager/dataset.h"
#include "acan/manager/input_file.h"
#include "acan/manager/job_vocabulary.h"
#include "acan/manager/stored_array.h"
#include "acan/manager/trained_model.h"
#include "acan/model/input_role.h"
#include "data_warnings.h"
#include "generated.h"
#include "image_set.h"
#include "sequence_set.h"
#include "tokenizer.h"
#include "value_files.h"
#include "window_set.h"

namespace acan {
namespace {

using model::InputRole;

std::shared_ptr<const SampleSet> InMemory(SampleValues values,
                                          const std::vector<WantedInput>& inputs) {
  std::string sha256 = HashOf(values);
  return std::make_shared<DataSet>(std::move(values), inputs, std::move(sha256));
}

// `samples` says what has one label each, in words.
void RequireOneLabel(const WantedInput& labels, const char* samples) {
  if (labels.positions == 1) return;
  throw UsageError(
      fmt::format("the model's input \"labels\" has {} rows, but {} have one label each: give it "
                  "one row",
                  labels.positions, samples));
}

// ---- rows of numbers ---------------------------------------------------------------------------

// Which of the job's sets are read.
enum class Sets : std::uint8_t { kAll, kTest };

// Rows of numbers, each with a label or targets.
Data LoadValues(const Job& job, Sets sets, const std::vector<WantedInput>& inputs) {
  const WantedInput& x = *FindInput(inputs, "x");
  const WantedInput* targets = FindInput(inputs, "targets");
  const WantedInput& compared = targets != nullptr ? *targets : *FindInput(inputs, "labels");
  if (targets == nullptr) RequireOneLabel(compared, "rows of numbers");
  if (job.data.ignore_label) {
    throw UsageError(
        fmt::format("data.ignore_label = {}: rows of numbers need a class for each "
                    "sample; remove it",
                    *job.data.ignore_label));
  }
  const WantedValues wanted = {
      x.positions * x.features,
      targets != nullptr ? targets->positions * targets->features : compared.bound,
      targets == nullptr};
  Data data;
  if (!job.data.generated.empty()) {
    GeneratedValues made = GenerateRegression(job.data.generated_samples, wanted.inputs,
                                              wanted.outputs, job.training.seed);
    if (sets == Sets::kAll) data.train = InMemory(std::move(made.train), inputs);
    data.test = InMemory(std::move(made.test), inputs);
    return data;
  }
  const auto read = [&](const char* key, const std::string& from, const std::string& to) {
    SampleValues values = ReadValueFiles(from, to, wanted);
    if (values.scaled_targets) {
      data.warnings.push_back(fmt::format(
          "data.{}: uint8 is scaled to 0..1; use int32 or float32 for other numbers", key));
    }
    return InMemory(std::move(values), inputs);
  };
  if (sets == Sets::kAll) {
    data.train = read("train_targets", job.data.train_inputs, job.data.train_targets);
  }
  if (!job.data.test_inputs.empty()) {
    data.test = read("test_targets", job.data.test_inputs, job.data.test_targets);
  }
  WarnOfScaling(job.data.train_inputs, job.data.test_inputs, &data.warnings);
  return data;
}

// ---- kinds of inputs ---------------------------------------------------------------------------

std::string NamesOf(const std::vector<WantedInput>& wanted) {
  std::string names;
  for (const WantedInput& input : wanted) {
    names += fmt::format("{}\"{}\"", names.empty() ? "" : ", ", input.name);
  }
  return names;
}

// Whether the model has exactly the inputs `needed`, and possibly those of `also`.
bool HasInputs(const std::vector<WantedInput>& wanted, const std::vector<std::string>& needed,
               const std::vector<std::string>& also = {}) {
  const auto is_in = [](const std::vector<std::string>& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
  };
  const auto count = std::ranges::count_if(
      wanted, [&](const WantedInput& input) { return is_in(needed, input.name); });
  return count == std::ssize(needed) && std::ranges::all_of(wanted, [&](const WantedInput& input) {
           return is_in(needed, input.name) || is_in(also, input.name);
         });
}

// Checks that each input's role fits the data that its name stands for.
void CheckRoles(const std::vector<WantedInput>& wanted) {
  struct Named {
    std::string_view name;
    std::vector<InputRole> roles;  // the first is the usual one
  };
  static const std::vector<Named> kNamed = {
      {"x", {InputRole::kNumbers}},
      {"images", {InputRole::kNumbers}},
      {"targets", {InputRole::kTargets, InputRole::kNumbers}},
      {"labels", {InputRole::kLabels, InputRole::kTokens}},
      {"tokens", {InputRole::kTokens}},
      {"token_type_ids", {InputRole::kTokens}},
      {"lengths", {InputRole::kLengths}},
  };
  for (const WantedInput& input : wanted) {
    const auto named = std::ranges::find(kNamed, input.name, &Named::name);
    if (named == kNamed.end() ||
        std::ranges::find(named->roles, input.role) != named->roles.end()) {
      continue;
    }
    throw UsageError(
        fmt::format("the input \"{}\" of the model has the role \"{}\"; it must have the role "
                    "\"{}\"",
                    input.name, Word(input.role), Word(named->roles.front())));
  }
}

[[noreturn]] void DoesNotFit(const std::string& key, const std::string& what,
                             const std::vector<WantedInput>& wanted) {
  throw UsageError(fmt::format("data.{} is for {}; the inputs of this job's model are {}", key,
                               what, NamesOf(wanted)));
}

void RequireLanguageModel(const std::string& key, const std::vector<WantedInput>& wanted) {
  const bool fits =
      HasInputs(wanted, {"tokens", "labels"}) &&
      FindInput(wanted, "tokens")->positions == FindInput(wanted, "labels")->positions;
  if (!fits) DoesNotFit(key, "language models, which predict each next token", wanted);
}

std::shared_ptr<const SampleSet> TestWindows(const Job& job, StoredArray tokens,
                                             const std::vector<WantedInput>& wanted) {
  try {
    return std::make_shared<WindowSet>(std::move(tokens), wanted, std::nullopt);
  } catch (const Error& error) {
    if (job.data.text.text.empty()) throw;
    throw Error(
        error.kind(),
        fmt::format("{}; this is the last part of the text, for testing: data.test_fraction = {} "
                    "sets its length, and 0 trains with the whole text",
                    error.what(), job.data.text.test_fraction));
  }
}

// The number of tokens that the model knows.
std::int64_t TokenBound(const std::vector<WantedInput>& wanted) {
  return std::min(FindInput(wanted, "tokens")->bound, FindInput(wanted, "labels")->bound);
}

// For a vocabulary that was made with a model.
void RequireOfTheModel(const std::string& vocabulary, std::int64_t size, std::int64_t bound) {
  if (size <= bound) return;
  throw UsageError(
      fmt::format("{} has {} tokens, but the model has {}: the vocabulary is from another run",
                  vocabulary, size, bound));
}

Data LoadTestText(const Job& job, const Vocabulary& vocabulary,
                  const std::vector<WantedInput>& wanted) {
  RequireOfTheModel("the run's vocabulary", vocabulary.size(), TokenBound(wanted));
  Data data;
  StoredArray tokens = TokenizeTestText(job.data.text, vocabulary, &data.warnings);
  data.test = TestWindows(job, std::move(tokens), wanted);
  return data;
}

Data LoadText(const Job& job, const std::vector<WantedInput>& wanted,
              const std::string& run_folder) {
  RequireLanguageModel(job.data.text.text.empty() ? "train_text" : "text", wanted);
  Data data;
  const std::optional<VocabularyFile> given = GivenVocabulary(job, run_folder, &data.warnings);
  TokenizedText text = TokenizeText(job.data.text, given ? &*given : nullptr);
  const std::int64_t bound = TokenBound(wanted);
  if (given) RequireOfTheModel(given->path, text.vocabulary_size, bound);
  if (text.vocabulary_size > bound) {
    throw UsageError(fmt::format(
        "data.tokenizer = \"{}\" makes {} different tokens of {}, but the model has {}: set "
        "model.vocab_size (in a graph file, the bounds of \"tokens\" and \"labels\") to at least "
        "{}",
        job.data.text.tokenizer, text.vocabulary_size, text.train.path(), bound,
        text.vocabulary_size));
  }
  data.warnings.insert(data.warnings.end(), text.warnings.begin(), text.warnings.end());
  data.vocabulary = std::move(text.vocabulary);
  data.train = std::make_shared<WindowSet>(std::move(text.train), wanted, job.training.seed);
  if (text.test) data.test = TestWindows(job, std::move(*text.test), wanted);
  return data;
}

// Also if it is damaged. NPY is never raw tokens.
bool IsNpy(const std::string& path) {
  try {
    InputFile file(path);
    return BeginsAsNpy(file);
  } catch (const Error&) {
    return false;
  }
}

StoredArray OpenArrayOfTokens(const std::string& path) {
  try {
    return OpenArray(path);
  } catch (const Error& error) {
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(path, ignored) || IsNpy(path)) throw;
    throw Error(error.kind(), fmt::format("{}; if it has raw tokens, set data.tokens_type = "
                                          "\"uint16\" or \"uint32\"",
                                          error.what()));
  }
}

StoredArray OpenStream(const std::string& path, const std::string& type) {
  if (!type.empty()) {
    return OpenRaw(path, type == "uint16" ? NumberType::kUint16 : NumberType::kUint32);
  }
  StoredArray tokens = OpenArrayOfTokens(path);
  if (tokens.shape().size() != 1) {
    throw UsageError(
        fmt::format("{}: has shape {}, but a stream of tokens has one dimension: save it as NPY of "
                    "one dimension, or as raw values with data.tokens_type; sequences need "
                    "data.train_labels",
                    path, ShapeText(tokens.shape())));
  }
  return tokens;
}

Data LoadTokens(const Job& job, Sets sets, const std::vector<WantedInput>& wanted) {
  const TokenData& files = job.data.tokens;
  Data data;
  const WantedInput* labels = FindInput(wanted, "labels");
  if (job.data.train_targets.empty() && labels != nullptr) {
    RequireLanguageModel("train_tokens", wanted);
    if (sets == Sets::kAll) {
      data.train = std::make_shared<WindowSet>(OpenStream(files.train, files.type), wanted,
                                               job.training.seed);
    }
    if (!files.test.empty()) {
      data.test =
          std::make_shared<WindowSet>(OpenStream(files.test, files.type), wanted, std::nullopt);
    }
    return data;
  }
  if (!HasInputs(wanted, {"tokens"}, {"labels", "lengths", "token_type_ids"})) {
    DoesNotFit("train_tokens", "models of sequences of tokens", wanted);
  }
  std::optional<std::int64_t> none;
  if (labels != nullptr) none = labels->IgnoredInFiles();
  // All kinds for tokens have the key model.sequence_length, but a graph file has the length
  // itself.
  const bool has_key = sets == Sets::kAll && !std::holds_alternative<GraphFile>(job.model);
  if (sets == Sets::kAll) {
    data.train = std::make_shared<SequenceSet>(
        SequenceFiles{files.train, job.data.train_targets, files.train_lengths, files.train_types,
                      has_key},
        wanted);
    WarnOfLabels(job, *data.train, job.data.train_targets, &data.warnings);
    WarnOfPadding(*data.train, none, job.data.train_targets, &data.warnings);
  }
  if (!files.test.empty()) {
    data.test =
        std::make_shared<SequenceSet>(SequenceFiles{files.test, job.data.test_targets,
                                                    files.test_lengths, files.test_types, has_key},
                                      wanted);
    WarnOfLabels(job, *data.test, job.data.test_targets, &data.warnings);
    WarnOfPadding(*data.test, none, job.data.test_targets, &data.warnings);
  }
  return data;
}

Data LoadImages(const Job& job, Sets sets, const std::vector<WantedInput>& wanted) {
  RequireOneLabel(*FindInput(wanted, "labels"), "images");
  const DataFiles& files = job.data;
  Data data;
  if (sets == Sets::kAll) {
    data.train = std::make_shared<ImageSet>(files.train_inputs, files.train_targets, files.images,
                                            wanted, job.training.seed);
    WarnOfMean(files.train_inputs, files.images.mean, &data.warnings);
  }
  if (!files.test_inputs.empty()) {
    data.test = std::make_shared<ImageSet>(files.test_inputs, files.test_targets, files.images,
                                           wanted, std::nullopt);
  }
  WarnOfScaling(files.train_inputs, files.test_inputs, &data.warnings);
  return data;
}

Data LoadArrays(const Job& job, Sets sets, const std::vector<WantedInput>& wanted) {
  if (job.data.tokens.used()) return LoadTokens(job, sets, wanted);
  const bool generated = !job.data.generated.empty();
  if (!generated && HasInputs(wanted, {"images", "labels"})) return LoadImages(job, sets, wanted);
  if (const char* key = job.data.images.UsedKey()) DoesNotFit(key, "models of images", wanted);
  if (!HasInputs(wanted, {"x", "labels"}) && !HasInputs(wanted, {"x", "targets"})) {
    DoesNotFit(generated ? "generated" : "train_inputs", "models of images, and of rows of numbers",
               wanted);
  }
  return LoadValues(job, sets, wanted);
}

// Everything except text, whose test data need the vocabulary of the training data.
Data LoadFiles(const Job& job, Sets sets, const std::vector<WantedInput>& wanted) {
  Data data = LoadArrays(job, sets, wanted);
  const DataFiles& files = job.data;
  const TokenData& tokens = files.tokens;
  if (!tokens.type.empty()) return data;
  if (sets == Sets::kAll) {
    WarnOfNumberedColumns({files.train_inputs, files.train_targets, tokens.train,
                           tokens.train_lengths, tokens.train_types},
                          &data.warnings);
  }
  WarnOfNumberedColumns(
      {files.test_inputs, files.test_targets, tokens.test, tokens.test_lengths, tokens.test_types},
      &data.warnings);
  return data;
}

// Names the data that did not fit into memory.
std::string NameOf(const DataFiles& files) {
  if (!files.generated.empty()) {
    return fmt::format("data.generated, data.samples = {}", files.generated_samples);
  }
  for (const std::string* path : {&files.text.text, &files.text.train_text, &files.tokens.train}) {
    if (!path->empty()) return *path;
  }
  return files.train_inputs;
}

[[noreturn]] void DoesNotFitIntoMemory(const std::string& name) {
  throw FailureError(fmt::format("{}: the data does not fit into this machine's memory: {}", name,
                                 SystemErrorText(ENOMEM)));
}

std::vector<WantedInput> WantedInputsOf(const Job& job) {
  const auto* perceptron = std::get_if<Perceptron>(&job.model);
  if (perceptron != nullptr) return WantedInputs(*perceptron);
  std::vector<WantedInput> wanted = WantedInputs(BuildModel(job)->evaluation);
  if (!job.data.ignore_label) return wanted;
  bool used = false;
  for (WantedInput& input : wanted) {
    if (!input.ignored_label) continue;
    input.ignored_in_files = job.data.ignore_label;
    used = true;
  }
  if (!used) {
    throw UsageError(
        fmt::format("data.ignore_label = {}: the loss of this job's model ignores no "
                    "label (a cross_entropy of the order \"lanes\" does); remove it",
                    *job.data.ignore_label));
  }
  return wanted;
}

}  // namespace

const WantedInput* FindInput(const std::vector<WantedInput>& inputs, std::string_view name) {
  const auto found = std::ranges::find(inputs, name, &WantedInput::name);
  return found == inputs.end() ? nullptr : &*found;
}

std::vector<WantedInput> WantedInputs(const Perceptron& model) {
  std::vector<WantedInput> wanted = {{"x", InputRole::kNumbers, 1, model.layers.front()}};
  if (model.loss == Loss::kCrossEntropy) {
    wanted.push_back({"labels", InputRole::kLabels, 1, 1, model.layers.back()});
  } else {
    wanted.push_back({"targets", InputRole::kTargets, 1, model.layers.back()});
  }
  return wanted;
}

std::vector<WantedInput> WantedInputs(const model::Graph& graph) {
  std::vector<WantedInput> wanted;
  const std::vector<std::vector<model::Use>> uses = UsesOf(graph);
  for (const model::Input& input : graph.inputs()) {
    const model::Shape& shape = graph.value(input.value).shape;
    wanted.push_back({input.name, input.role, shape.rows, shape.features, input.bound});
    wanted.back().image = ImageSizeOf(graph, input.value);
    for (const model::Use& use : uses[static_cast<std::size_t>(input.value)]) {
      const auto* loss = std::get_if<model::CrossEntropy>(&graph.node(use.node).op);
      const bool ignores = loss != nullptr && loss->order == model::ExponentialOrder::kLanes;
      if (ignores && input.role == InputRole::kLabels) {
        wanted.back().ignored_label = loss->ignored_label;
      }
    }
  }
  return wanted;
}

Data LoadData(const Job& job, const std::vector<WantedInput>& wanted,
              const std::string& run_folder) {
  CheckRoles(wanted);
  try {
    return job.data.text.used() ? LoadText(job, wanted, run_folder)
                                : LoadFiles(job, Sets::kAll, wanted);
  } catch (const std::bad_alloc&) {
    DoesNotFitIntoMemory(NameOf(job.data));
  }
}

Data LoadData(const Job& job, const std::string& run_folder) {
  return LoadData(job, WantedInputsOf(job), run_folder);
}

std::shared_ptr<const SampleSet> LoadInputs(const Job& job, const model::Graph& graph,
                                            const SampleFiles& files,
                                            std::vector<std::string>* warnings) {
  std::vector<WantedInput> wanted = WantedInputs(graph);
  std::erase_if(wanted, [](const WantedInput& input) {
    return input.name == "labels" || input.name == "targets";
  });
  CheckRoles(wanted);
  if (warnings != nullptr) {
    WarnOfNumberedColumns({files.inputs, files.lengths, files.token_types}, warnings);
  }
  if (HasInputs(wanted, {"tokens"}, {"lengths", "token_type_ids"})) {
    return std::make_shared<SequenceSet>(
        SequenceFiles{files.inputs, "", files.lengths, files.token_types, false}, wanted);
  }
  if (!files.lengths.empty() || !files.token_types.empty()) {
    throw UsageError(
        fmt::format("{}: lengths and token types belong to sequences of tokens; the "
                    "inputs of this model are {}",
                    files.lengths.empty() ? files.token_types : files.lengths, NamesOf(wanted)));
  }
  if (warnings != nullptr) WarnOfScaling(job.data.train_inputs, files.inputs, warnings);
  if (HasInputs(wanted, {"images"})) {
    return std::make_shared<ImageSet>(files.inputs, "", job.data.images, wanted, std::nullopt);
  }
  if (!HasInputs(wanted, {"x"})) {
    throw UsageError(fmt::format("{}: no file has samples for this model, whose inputs are {}",
                                 files.inputs, NamesOf(wanted)));
  }
  const WantedInput& x = wanted.front();
  try {
    return InMemory(ReadValueFiles(files.inputs, "", {x.positions * x.features, 0, false}), wanted);
  } catch (const std::bad_alloc&) {
    DoesNotFitIntoMemory(files.inputs);
  }
}

Data LoadTestData(const Job& job, const Vocabulary* vocabulary) {
  const std::vector<WantedInput> wanted = WantedInputsOf(job);
  CheckRoles(wanted);
  try {
    return job.data.text.used() ? LoadTestText(job, *vocabulary, wanted)
                                : LoadFiles(job, Sets::kTest, wanted);
  } catch (const std::bad_alloc&) {
    DoesNotFitIntoMemory("the test data of " + NameOf(job.data));
  }
}

}  // namespace acan
