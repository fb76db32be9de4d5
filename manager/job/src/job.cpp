#include "acan/manager/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <limits>
#include <system_error>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/manager/model_config.h"
#include "acan/manager/sha256.h"
#include "acan/manager/text_file.h"
#include "acan/manager/trained_model.h"
#include "data_keys.h"
#include "job_reader.h"
#include "job_words.h"
#include "key_synonyms.h"
#include "model_keys.h"
#include "nlohmann/json.hpp"

namespace acan {
namespace {

constexpr std::int64_t kMaxSteps = 1'000'000'000'000;
constexpr std::int64_t kMaxPouch = 1'000'000;
constexpr std::int64_t kMaxResidentSteps = 1'000;
constexpr std::int64_t kMaxTimeoutMs = 1'000'000'000;
constexpr std::int64_t kMaxSnapshotSteps = 1LL << 40;
constexpr std::size_t kMaxFreezePatterns = 1024;
constexpr double kMaxClipNorm = 1e30;

// Inserts the keys of all kinds of models and of all optimizers after the key that chooses one.
std::vector<SectionKeys> WithChosenKeys(std::vector<SectionKeys> sections) {
  for (SectionKeys& section : sections) {
    if (section.section == "model") {
      const std::vector<std::string>& keys = KeysOfAllKinds();
      section.keys.insert(section.keys.begin() + 1, keys.begin(), keys.end());
    }
    if (section.section != "train") continue;
    auto at = std::ranges::find(section.keys, "optimizer") + 1;
    for (const OptimizerKey& key : kOptimizerKeys) {
      at = section.keys.insert(at, std::string(key.name)) + 1;
    }
  }
  return sections;
}

const std::vector<SectionKeys>& KnownKeys() {
  static const std::vector<SectionKeys> kKeys = WithChosenKeys(
      {{"model", {"kind", "initial_weights", "initial_weights_sha256"}},
       {"data", {"train_inputs",  "train_labels",  "train_targets",     "test_inputs",
                 "test_labels",   "test_targets",  "shuffle",           "layout",
                 "mean",          "std",           "crop_padding",      "flip",
                 "text",          "test_fraction", "train_text",        "test_text",
                 "tokenizer",     "train_tokens",  "test_tokens",       "tokens_type",
                 "train_lengths", "test_lengths",  "train_token_types", "test_token_types",
                 "generated",     "samples",       "ignore_label"}},
       {"train",
        {"batch", "epochs", "optimizer", "seed", "precision", "block", "schedule", "warmup_steps",
         "step_every", "step_factor", "final_fraction", "stop_if_not_finite", "steps",
         "evaluate_every", "clip_norm", "decay", "freeze"}},
       {"tasks",
        {"size_bytes", "batch_rows", "pouch", "timeout_ms", "policy", "audit", "resident_steps",
         "recompute", "leave_out_slow"}},
       {"snapshots", {"every_steps"}},
       {"output", {"config"}}});
  return kKeys;
}

// The optimizers that use `key`: `optimizer = "a" or optimizer = "b"`.
std::string OptimizersWith(std::string_view key) {
  std::string text;
  for (const OptimizerRow& row : kOptimizers) {
    if (FindKey(row, key) == nullptr) continue;
    text += fmt::format("{}optimizer = \"{}\"", text.empty() ? "" : " or ", row.word);
  }
  return text;
}

// The key name with which `text` begins.
std::string_view WordAt(std::string_view text) {
  return text.substr(0, text.find_first_not_of("abcdefghijklmnopqrstuvwxyz_0123456789"));
}

// Reads the sections in the order model, data, train, tasks: later ones check against earlier ones.
class JobParser {
 public:
  JobParser(const JobText& text, std::string directory)
      : text_(text), directory_(std::move(directory)) {}

  Job Parse() {
    ReadModel();
    ReadTraining();
    ReadLength();
    ReadOptimizer();
    ReadSchedule();
    ReadRules();
    CheckModel();
    ReadData();
    ReadTasksAndSnapshots();
    ReadOutput();
    return std::move(job_);
  }

 private:
  void ReadModel();
  void ReadPerceptron(Perceptron& model);
  void RefuseKeysOfOtherKinds(std::string_view kind) const;
  void CheckModel() const;
  void ReadTraining();
  void ReadLength();
  void ReadRules();
  void ReadOptimizer();
  void ReadSchedule();
  void ReadData();
  void ReadGenerated();
  void ReadValueFiles();
  void ReadTasksAndSnapshots();
  void ReadOutput();

  std::string Path(const std::string& section, const std::string& key) const;
  std::string ModelSha256(const std::string& key) const;  // as from Sha256::Hex; empty: not set
  // Refuses a key that would have no effect because of a choice made elsewhere.
  void RefuseUnused(const Section& section, const std::string& key, bool used,
                    const std::string& chosen, const std::string& needs) const {
    if (!used && section.Has(key)) {
      section.Refuse(key, fmt::format("{} does not use it; remove it or choose {}", chosen, needs));
    }
  }
  [[noreturn]] void Missing(const std::string& key, const std::string& what) const {
    throw UsageError(fmt::format("{} has no {}: {}", text_.name(), key, what));
  }

  const JobText& text_;
  std::string directory_;
  Job job_;
  const Section model_{text_, "model"};
  const Section data_{text_, "data"};
  const Section train_{text_, "train"};
  const Section tasks_{text_, "tasks"};
  const Section snapshots_{text_, "snapshots"};
  const Section output_{text_, "output"};
};

std::string JobParser::Path(const std::string& section, const std::string& key) const {
  std::string value;
  const Section values(text_, section);
  values.Text(key, &value);
  if (!values.Has(key)) return "";
  if (value.empty()) values.Refuse(key, "must be the path of a file");
  const std::filesystem::path base =
      text_.IsOverride(section, key) ? std::filesystem::current_path().string() : directory_;
  std::string path = (base / value).lexically_normal().string();
  if (const auto problem = PathProblem(path)) values.Refuse(key, *problem);
  return path;
}

std::string JobParser::ModelSha256(const std::string& key) const {
  std::string digits;
  model_.Text(key, &digits);
  for (char& c : digits) {
    if (c >= 'A' && c <= 'F') c = static_cast<char>(c - 'A' + 'a');
  }
  if (model_.Has(key) && !IsSha256(digits)) {
    model_.Refuse(key, "must be a SHA-256: 64 hexadecimal digits");
  }
  return digits;
}

void JobParser::RefuseKeysOfOtherKinds(std::string_view kind) const {
  const std::vector<std::string> own = KeysOfKind(kind);
  for (const std::string& key : KeysOfAllKinds()) {
    if (!model_.Has(key) || std::ranges::find(own, key) != own.end()) continue;
    std::string kinds;
    for (const std::string_view other : kModelKinds) {
      const std::vector<std::string> of_other = KeysOfKind(other);
      if (std::ranges::find(of_other, key) == of_other.end()) continue;
      kinds += fmt::format("{}\"{}\"", kinds.empty() ? "" : " or ", other);
    }
    const std::string same = OwnKeyFor(key, own);
    model_.Refuse(
        key, same.empty()
                 ? fmt::format("kind \"{}\" has no such key; it is for kind = {}", kind, kinds)
                 : fmt::format("kind \"{}\" calls it {}; this name is for kind = {}", kind, same,
                               kinds));
  }
}

void JobParser::ReadModel() {
  std::vector<std::pair<std::string, std::string_view>> kinds;
  for (const std::string_view kind : kModelKinds) kinds.emplace_back(kind, kind);
  std::string_view kind = kModelKinds[0];
  model_.Word("kind", kinds, &kind);
  RefuseKeysOfOtherKinds(kind);
  job_.model = DefaultsOf(kind);
  if (auto* perceptron = std::get_if<Perceptron>(&job_.model)) {
    ReadPerceptron(*perceptron);
  } else if (auto* file = std::get_if<GraphFile>(&job_.model)) {
    if (!model_.Has("file")) Missing("model.file", "kind \"graph\" needs the path of a graph file");
    *file = ReadGraphFile(Path("model", "file"), ModelSha256("file_sha256"));
  } else {
    ReadModelKeys(model_, &job_.model);
  }
  if (kind == "bert" && !model_.Has("task")) {
    Missing("model.task", "choose task = \"masked_language\" or \"classification\"");
  }
  job_.initial_weights = Path("model", "initial_weights");
  job_.initial_weights_sha256 = ModelSha256("initial_weights_sha256");
  if (job_.initial_weights.empty() && !job_.initial_weights_sha256.empty()) {
    Missing("model.initial_weights", "model.initial_weights_sha256 is of this file");
  }
}

// Checks the model. An error message gets the place of the key with which it begins.
void JobParser::CheckModel() const {
  constexpr std::string_view kPrefix = "model: ";
  try {
    BuildModel(job_);
  } catch (const Error& error) {
    std::string_view what = error.what();
    // "train.batch = 9: ..."
    if (what.starts_with("train.")) {
      const std::string of_train(WordAt(what.substr(6)));
      throw UsageError(fmt::format(
          "{}: {}", train_.Has(of_train) ? train_.Place(of_train) : text_.name(), what));
    }
    if (!what.starts_with(kPrefix)) throw UsageError(fmt::format("{}: {}", text_.name(), what));
    what.remove_prefix(kPrefix.size());
    const std::string key(WordAt(what));
    const std::vector<std::string> keys = KeysOfKind(KindOf(job_.model));
    const bool named = std::ranges::find(keys, key) != keys.end();
    throw UsageError(fmt::format("{}: {}{}",
                                 named && model_.Has(key) ? model_.Place(key) : text_.name(),
                                 named ? "model." : "the model: ", what));
  }
}

void JobParser::ReadPerceptron(Perceptron& model) {
  if (!model_.Has("layers")) {
    Missing("model.layers", "give the sizes, for example layers = [784, 512, 10] under [model]");
  }
  model_.Integers("layers", 2, kMaxLayerEntries, 1, kMaxLayerSize, &model.layers);
  std::int64_t parameters = 0;
  for (int i = 0; i < model.layer_count(); ++i) {
    // At most 2^48 + 2^24 per layer and 63 layers, so there is no overflow.
    parameters += (model.inputs(i) + 1) * model.outputs(i);
  }
  if (parameters > kMaxParameters) {
    model_.Refuse("layers",
                  fmt::format("has {} parameters; the limit is {}", parameters, kMaxParameters));
  }
  model_.Word("activation", ActivationWords(), &model.activation);
  model_.Word("loss", LossWords(), &model.loss);
  if (model.loss == Loss::kCrossEntropy && model.layers.back() < 2) {
    model_.Refuse("layers", "cross_entropy needs at least 2 outputs (classes), the last entry");
  }
  RefuseUnused(model_, "clip_bound", model.activation == Activation::kClippedRelu,
               fmt::format("activation \"{}\"", WordOf(ActivationWords(), model.activation)),
               "activation = \"clipped_relu\"");
  double bound = static_cast<double>(model.clip_bound);
  model_.Number("clip_bound", 1e-30, 1e30, &bound);
  model.clip_bound = static_cast<float>(bound);
}

void JobParser::ReadTraining() {
  Training& training = job_.training;
  train_.Integer("batch", 1, kMaxBatch, &training.batch);
  std::int64_t seed = static_cast<std::int64_t>(training.seed);
  train_.Integer("seed", 0, std::numeric_limits<std::int64_t>::max(), &seed);
  training.seed = static_cast<std::uint64_t>(seed);
  train_.Word("precision", PrecisionWords(), &training.precision);
  train_.Integer("block", kMinBlock, kMaxBlock, &training.block);
  if (!std::has_single_bit(static_cast<std::uint64_t>(training.block))) {
    train_.Refuse("block", fmt::format("must be a power of two from {} to {}; the nearest is {}",
                                       kMinBlock, kMaxBlock,
                                       std::bit_floor(static_cast<std::uint64_t>(training.block))));
  }
  data_.Flag("shuffle", &training.shuffle);
  train_.Flag("stop_if_not_finite", &job_.stop_if_not_finite);
}

// `steps` and `epochs` are alternatives. An override of one replaces the other one of the file.
void JobParser::ReadLength() {
  Training& training = job_.training;
  train_.Integer("epochs", 0, kMaxEpochs, &training.epochs);
  std::int64_t steps = 0;
  train_.Integer("steps", 0, kMaxSteps, &steps);
  if (train_.Has("steps")) {
    if (train_.Has("epochs") && train_.IsOverride("steps") == train_.IsOverride("epochs")) {
      train_.Refuse("steps",
                    "train.epochs also sets the length of the training; remove one of the two");
    }
    if (!train_.IsOverride("epochs")) training.steps = steps;
  }
  std::int64_t every = 0;
  train_.Integer("evaluate_every", 1, kMaxSteps, &every);
  if (every > 0) training.evaluate_every = every;
}

// The rules for gradients and parameters that do not depend on the optimizer.
void JobParser::ReadRules() {
  train_.Number("clip_norm", 0, kMaxClipNorm, &job_.training.clip_norm);
  train_.Word("decay", DecayWords(), &job_.decay);
  train_.Texts("freeze", kMaxFreezePatterns, &job_.freeze);
}

void JobParser::ReadOptimizer() {
  Training& training = job_.training;
  train_.Word("optimizer", OptimizerWords(), &training.optimizer);
  const OptimizerRow& row = RowOf(training.optimizer);
  for (const OptimizerKey& key : kOptimizerKeys) {
    RefuseUnused(train_, std::string(key.name), FindKey(row, key.name) != nullptr,
                 fmt::format("optimizer \"{}\"", row.word), OptimizersWith(key.name));
  }
  for (const OptimizerKey& key : kOptimizerKeys) {
    const std::string name(key.name);
    double& value = training.*key.value;
    if (const UsedKey* used = FindKey(row, key.name)) value = used->standard;
    train_.Number(name, key.least, key.most, &value);
    if (key.below_most && value == key.most) {
      train_.Refuse(name, fmt::format("must be below {}", key.most));
    }
  }
}

void JobParser::ReadSchedule() {
  Schedule& schedule = job_.training.schedule;
  train_.Word("schedule", ScheduleWords(), &schedule.kind);
  const std::string chosen = fmt::format("schedule \"{}\"", WordOf(ScheduleWords(), schedule.kind));
  const bool step = schedule.kind == ScheduleKind::kStep;
  const bool cosine = schedule.kind == ScheduleKind::kCosine;
  RefuseUnused(train_, "step_every", step, chosen, "schedule = \"step\"");
  RefuseUnused(train_, "step_factor", step, chosen, "schedule = \"step\"");
  RefuseUnused(train_, "final_fraction", cosine, chosen, "schedule = \"cosine\"");
  train_.Integer("warmup_steps", 0, kMaxSteps, &schedule.warmup_steps);
  train_.Integer("step_every", 1, kMaxSteps, &schedule.step_every);
  if (step && schedule.step_every == 0) {
    Missing(
        "train.step_every",
        "schedule \"step\" needs the number of steps between two multiplications by step_factor");
  }
  train_.Number("step_factor", 0, 1000, &schedule.step_factor);
  train_.Number("final_fraction", 0, 1, &schedule.final_fraction);
}

void JobParser::ReadGenerated() {
  std::string kind;
  data_.Word<std::string>("generated", {{"regression", "regression"}}, &kind);
  for (const char* key : {"train_inputs", "train_labels", "train_targets", "test_inputs",
                          "test_labels", "test_targets"}) {
    if (data_.Has(key)) {
      data_.Refuse(key, "data.generated generates the samples; remove one of the two");
    }
  }
  if (job_.loss() != Loss::kMeanSquaredError) {
    data_.Refuse("generated", "generates values, not classes: it needs model.loss = \"mse\"");
  }
  if (!data_.Has("samples")) {
    Missing("data.samples", "data.generated needs the number of training samples to generate");
  }
  data_.Integer("samples", 1, kMaxSamples, &job_.data.generated_samples);
  job_.data.generated = kind;
  RefuseOtherKinds(data_);
}

void JobParser::ReadData() {
  if (data_.Has("generated")) return ReadGenerated();
  if (data_.Has("samples")) {
    data_.Refuse("samples", "is only for data.generated; files determine their number of samples");
  }
  RefuseOtherKinds(data_);
  const auto path = [this](const std::string& key) { return Path("data", key); };
  ReadTextKeys(data_, path, &job_.data.text);
  ReadTokenKeys(data_, path, &job_.data);
  ReadIgnoreLabel(data_, &job_.data.ignore_label);
  if (job_.data.ignore_label && std::holds_alternative<Perceptron>(job_.model)) {
    data_.Refuse("ignore_label", "models of kind \"mlp\" need a class for each sample");
  }
  if (!job_.data.text.used() && !job_.data.tokens.used()) ReadValueFiles();
}

void JobParser::ReadValueFiles() {
  ReadImageKeys(data_, &job_.data.images);
  const bool labels = job_.loss() == Loss::kCrossEntropy;
  const std::string loss = fmt::format("loss \"{}\"", WordOf(LossWords(), job_.loss()));
  const std::string used = labels ? "labels" : "targets";
  const std::string unused = labels ? "targets" : "labels";
  for (const std::string set : {"train_", "test_"}) {
    if (!data_.Has(set + unused)) continue;
    data_.Refuse(set + unused, fmt::format("{} takes {}{} ({}); {}{} is for loss \"{}\"", loss, set,
                                           used, labels ? "classes" : "values", set, unused,
                                           labels ? "mse" : "cross_entropy"));
  }
  DataFiles& files = job_.data;
  files.train_inputs = Path("data", "train_inputs");
  files.train_targets = Path("data", "train_" + used);
  files.test_inputs = Path("data", "test_inputs");
  files.test_targets = Path("data", "test_" + used);
  if (files.train_inputs.empty()) {
    Missing("data.train_inputs", "name the file of training inputs under [data]");
  }
  if (files.train_targets.empty()) {
    Missing("data.train_" + used, fmt::format("{} needs it in addition to train_inputs", loss));
  }
  if (files.test_inputs.empty() != files.test_targets.empty()) {
    const std::string there = files.test_inputs.empty() ? "test_" + used : "test_inputs";
    const std::string missing = files.test_inputs.empty() ? "test_inputs" : "test_" + used;
    data_.Refuse(there, fmt::format("data.{} is missing: set both or neither", missing));
  }
}

void JobParser::ReadTasksAndSnapshots() {
  TaskLimits& tasks = job_.tasks;
  const Training& training = job_.training;
  tasks_.AutoBytes("size_bytes",
                   static_cast<std::uint64_t>(training.block * training.block) * sizeof(float),
                   &tasks.size_bytes);
  tasks_.AutoInteger("batch_rows", std::min(training.block, training.batch), kMaxBatch,
                     &tasks.batch_rows);
  tasks_.AutoInteger("pouch", 1, kMaxPouch, &tasks.pouch);
  tasks_.AutoInteger("timeout_ms", 1, kMaxTimeoutMs, &tasks.timeout_ms);
  tasks_.Number("audit", 0, 1, &tasks.audit);
  if (tasks.audit > 0 && training.precision != Precision::kExact) {
    tasks_.Refuse("audit",
                  "compares results bit by bit, and those of precision \"fast\" may differ by "
                  "rounding: set train.precision = \"exact\", or remove it");
  }
  tasks_.Integer("resident_steps", 1, kMaxResidentSteps, &tasks.resident_steps);
  tasks_.Word("policy", PolicyWords(), &tasks.policy);
  tasks_.Word("recompute", RecomputeWords(), &tasks.recompute);
  tasks_.Flag("leave_out_slow", &tasks.leave_out_slow);
  snapshots_.AutoInteger("every_steps", 0, kMaxSnapshotSteps, &job_.snapshots.every_steps);
}

void JobParser::ReadOutput() {
  output_.Word("config", OutputConfigWords(), &job_.output_config);
  if (job_.output_config == OutputConfig::kNone) return;
  const std::string problem = NoTransformersConfig(job_.model);
  if (!problem.empty()) output_.Refuse("config", problem);
}

}  // namespace

std::optional<std::string> PathProblem(const std::string& path) {
  try {
    static_cast<void>(JsonText(nlohmann::json(path)));
    return std::nullopt;
  } catch (const nlohmann::json::exception&) {
    return fmt::format(
        "the absolute path, {}, is not UTF-8, which receipts (JSON) require: rename the file or "
        "folder that is not",
        path);
  }
}

Job ParseJob(const std::string& toml, const std::string& name, const std::string& directory,
             const std::vector<std::string>& overrides) {
  const JobText text(toml, name, overrides, KnownKeys());
  return JobParser(text, directory).Parse();
}

Job LoadJob(const std::string& path, const std::vector<std::string>& overrides) {
  const std::string text = ReadTextFile(path, kMaxJobBytes, "a job file");
  std::error_code error;
  const std::filesystem::path directory = std::filesystem::absolute(path, error).parent_path();
  if (error) {
    throw UsageError(
        fmt::format("job file {}: the folder in which acan was started no longer exists: {}", path,
                    error.message()));
  }
  return ParseJob(text, path, directory.string(), overrides);
}

}  // namespace acan
