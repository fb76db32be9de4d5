// Job: what to train, on which data, how. Read from TOML; every value is checked while it is read.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "acan/core/model.h"
#include "acan/model/graph.h"
#include "acan/model/presets.h"
#include "nlohmann/json_fwd.hpp"

namespace acan {

// Limits of a job.
inline constexpr std::int64_t kMaxJobBytes = 1 << 20;
inline constexpr std::size_t kMaxLayerEntries = 64;        // of [model] layers
inline constexpr std::int64_t kMaxLayerSize = 1 << 24;     // of one entry
inline constexpr std::int64_t kMaxParameters = 1LL << 40;  // of all layers
inline constexpr std::int64_t kMaxBatch = 1 << 20;
inline constexpr std::int64_t kMaxEpochs = 1'000'000;
inline constexpr std::int64_t kMinBlock = 16;
inline constexpr std::int64_t kMaxBlock = 1024;
inline constexpr std::int64_t kMaxSamples = 1LL << 31;

inline constexpr const char* kCharacters = "characters";
inline constexpr const char* kBytes = "bytes";

// Text for a model of language, in UTF-8: `text`, whose last part is for testing, or train_text and
// perhaps test_text. All empty: no text.
struct TextData {
  std::string text;
  double test_fraction = 0.1;
  std::string train_text, test_text;
  std::string tokenizer = kCharacters;  // or kBytes, or the path of a SentencePiece model

  bool used() const { return !text.empty() || !train_text.empty(); }
};

// Files of tokens: a stream for a model of language, or, if there are labels (train_targets),
// sequences of one length. All empty: no tokens.
struct TokenData {
  std::string train, test;
  std::string type;  // "uint16" or "uint32" of raw streams; empty: NPY
  std::string train_lengths, test_lengths;
  std::string train_types, test_types;

  bool used() const { return !train.empty(); }
};

// How images are used.
struct ImageData {
  std::string layout;                   // "CHW" or "HWC"; empty: by what fits
  std::vector<double> mean, deviation;  // of each channel; empty: none
  std::int64_t crop_padding = 0;        // for training, and so is `flip`
  bool flip = false;

  // The first key that was set to something; null: none.
  const char* UsedKey() const {
    if (!layout.empty()) return "layout";
    if (!mean.empty()) return "mean";
    if (!deviation.empty()) return "std";
    if (crop_padding > 0) return "crop_padding";
    return flip ? "flip" : nullptr;
  }
};

struct DataFiles {
  // Absolute. Relative paths are relative to the job file; in overrides, to the current directory.
  std::string train_inputs, train_targets;  // train_targets: labels for cross_entropy
  std::string test_inputs, test_targets;    // both empty: no test set
  // generated = "regression": no files; a fixed random teacher makes the samples from the seed.
  std::string generated;
  std::int64_t generated_samples = 0;
  TextData text;
  TokenData tokens;
  ImageData images;
  std::optional<std::int64_t> ignore_label;  // stands for no class in labels; unset: -100 does
};

// When tasks are put, for how long they are leased and how many are taken together
// (manager/task_policy.h).
enum class Policy : std::uint8_t {
  kAuto,       // leases and pouch are learned
  kPaper,      // a pouch at a time, with a time-out that follows the share that was done in time
  kGuided,     // "gss": chunks of what is left divided by the handlers
  kFactoring,  // batches of half of what is left, in equal chunks
  kFixed,      // a fixed pouch and time-out
};

// Whether the backward pass computes activations again that the forward pass need not keep then.
enum class RecomputePolicy : std::uint8_t {
  kAuto,  // where the estimate of a step's time says that it gains
  kNever,
  kAlways,  // all that lie within a branch of the model
};

struct TaskLimits {
  Policy policy = Policy::kAuto;
  std::optional<std::uint64_t>
      size_bytes;                          // most bytes of weights that a task touches; unset: auto
  std::optional<std::int64_t> batch_rows;  // most samples that a task covers; unset: auto
  std::optional<std::int64_t> pouch;       // most tasks in flight; unset: auto
  std::optional<std::int64_t>
      timeout_ms;  // a task not finished by then is issued again; unset: auto
  RecomputePolicy recompute = RecomputePolicy::kAuto;
  double audit = 0;  // share of the tasks that a second handler computes, too; exact jobs only
  // Every so many steps the weights go into the space whole; between, large results may stay on
  // devices with memory of their own. Losing one costs at most so many steps. 1: none stays.
  std::int64_t resident_steps = 16;
};

struct SnapshotSchedule {
  // Steps between two; 0: none; unset: by what a snapshot costs and how often the run was lost.
  std::optional<std::int64_t> every_steps;
};

// A model that a graph file describes (acan/model/graph_text.h). The job has the file's text, so
// that it stays what it was when the job was read.
struct GraphFile {
  std::string path;                         // absolute, or relative to the current folder
  std::string sha256;                       // of the text
  std::shared_ptr<const std::string> text;  // never null once read
  Loss loss = Loss::kCrossEntropy;          // the graph's
};

// What [model] says, by its kind; Model is the multi-layer perceptron, "mlp".
using ModelOptions =
    std::variant<Model, model::GptOptions, model::LlamaOptions, model::BertOptions,
                 model::VitOptions, model::ResnetOptions, model::ConvnextOptions, GraphFile>;

// The kinds' words in job files, in the order of ModelOptions.
inline constexpr std::string_view kModelKinds[] = {"mlp", "gpt",    "llama",    "bert",
                                                   "vit", "resnet", "convnext", "graph"};
static_assert(std::size(kModelKinds) == std::variant_size_v<ModelOptions>);

inline std::string_view KindOf(const ModelOptions& options) {
  return kModelKinds[options.index()];
}

// What lies beside the model's file in the output folder.
enum class OutputConfig : std::uint8_t {
  kNone,
  kTransformers,  // config.json, with which transformers loads the folder
};

struct Job {
  ModelOptions model;
  std::string initial_weights;  // a safetensors file; empty: drawn from the seed
  // ModelReader::WeightsSha256 of that file, set by HoldToInitialWeights; empty: not known yet.
  std::string initial_weights_sha256;
  DataFiles data;
  Training training;
  TaskLimits tasks;
  SnapshotSchedule snapshots;
  OutputConfig output_config = OutputConfig::kNone;
  // A loss or weights that are not finite end the run, which keeps the last good weights. Without
  // it the run goes on, and the receipt says where it was.
  bool stop_if_not_finite = true;
  // Names of parameters that keep their values; '*' stands for any characters.
  std::vector<std::string> freeze;
  model::DecayRule decay = model::DecayRule::kEverything;  // to what weight decay applies

  // The model's options, of a perceptron. Throws Error (usage) for any other kind: whoever asks
  // can train no other one yet.
  const Model& perceptron() const;
  Model& perceptron();
  // What the loss compares with: classes or values.
  Loss loss() const;
};

// Why no job can have `path` as one of its files' paths, after "<where it comes from>: ".
std::optional<std::string> PathProblem(const std::string& path);

// Reads a job file, applies `overrides` ("train.epochs=3", values as TOML; a bare word is a
// string), checks everything and makes file paths absolute. Throws Error (usage) that names the
// file, the line, the key, the value, what would be right, and for unknown keys or words the
// nearest one.
Job LoadJob(const std::string& path, const std::vector<std::string>& overrides);
// The same for a job in memory; relative paths are relative to `directory`.
Job ParseJob(const std::string& toml, const std::string& name, const std::string& directory,
             const std::vector<std::string>& overrides);

// All values, defaults filled in: what the receipt keeps. Keys that the job's optimizer, loss,
// schedule or activation do not use are left out (setting them is an error).
nlohmann::json JobToJson(const Job& job);
// TOML of the same values: ParseJob(JobToToml(job)) gives the same job.
std::string JobToToml(const Job& job);
// The job of a receipt: the inverse of JobToJson. Throws Error (usage) for anything else.
Job JobFromJson(const nlohmann::json& json, const std::string& name);

}  // namespace acan
