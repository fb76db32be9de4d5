// Job: what to train, on which data, and how. Read from TOML; every value is checked when it is
// read.
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

// Text for a language model, in UTF-8: either `text`, whose last part is for testing, or train_text
// and optionally test_text. All empty: no text.
struct TextData {
  std::string text;
  double test_fraction = 0.1;
  std::string train_text, test_text;
  std::string tokenizer = kCharacters;  // or kBytes, or the path of a SentencePiece model

  bool used() const { return !text.empty() || !train_text.empty(); }
};

// Files of tokens: a stream for a language model, or, if there are labels (train_targets),
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
  std::string layout;                   // "CHW" or "HWC"; empty: inferred from the shape
  std::vector<double> mean, deviation;  // per channel; empty: none
  std::int64_t crop_padding = 0;        // for training only, as is `flip`
  bool flip = false;

  // The first key that is set; null if none is.
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
  // generated = "regression": no files; a fixed random teacher network generates the samples from
  // the seed.
  std::string generated;
  std::int64_t generated_samples = 0;
  TextData text;
  TokenData tokens;
  ImageData images;
  std::optional<std::int64_t> ignore_label;  // the label that stands for "no class"; unset: -100
};

// How many tasks are in flight, how long they are leased, and how many a handler takes together
// (manager/task_policy.h).
enum class Policy : std::uint8_t {
  kAuto,       // leases and pouch are learned
  kPaper,      // puts a pouch at a time; the time-out follows the share done in time
  kGuided,     // "gss": each chunk is the remaining tasks divided by the handlers
  kFactoring,  // batches of half of the remaining tasks, in equal chunks
  kFixed,      // a fixed pouch and time-out
};

// Whether the backward pass recomputes activations, so that the forward pass need not keep them.
enum class RecomputePolicy : std::uint8_t {
  kAuto,  // where it reduces a step's estimated time
  kNever,
  kAlways,  // all values that lie within a branch of the model
};

struct TaskLimits {
  Policy policy = Policy::kAuto;
  std::optional<std::uint64_t> size_bytes;  // maximum bytes of weights of a task; unset: auto
  std::optional<std::int64_t> batch_rows;   // maximum samples that a task covers; unset: auto
  std::optional<std::int64_t> pouch;        // maximum tasks in flight; unset: auto
  std::optional<std::int64_t>
      timeout_ms;  // a task that is not finished by then is issued again; unset: auto
  RecomputePolicy recompute = RecomputePolicy::kAuto;
  double audit = 0;  // the share of tasks that a second handler computes, too; exact jobs only
  // The complete weights are copied into the space once in this many steps; in between, large
  // results may stay on devices with their own memory. Losing one costs at most this many steps. 1:
  // no result stays on a device.
  std::int64_t resident_steps = 16;
  // Handlers that are so slow that steps are shorter without them get no tasks while the others
  // work. Only with Policy::kAuto.
  bool leave_out_slow = true;

  bool LeavesOutSlow() const { return leave_out_slow && policy == Policy::kAuto; }
};

struct SnapshotSchedule {
  // Steps between two snapshots; 0: none; unset: from a snapshot's cost and how often the run was
  // lost.
  std::optional<std::int64_t> every_steps;
};

// A model that a graph file describes (acan/model/graph_text.h). The job holds the file's text, so
// later changes of the file do not affect it.
struct GraphFile {
  std::string path;                         // absolute, or relative to the current folder
  std::string sha256;                       // of the text
  std::shared_ptr<const std::string> text;  // never null once read
  Loss loss = Loss::kCrossEntropy;          // the graph's
};

// The options of [model], by its kind; a Perceptron is "mlp".
using ModelOptions =
    std::variant<Perceptron, model::GptOptions, model::LlamaOptions, model::BertOptions,
                 model::VitOptions, model::ResnetOptions, model::ConvnextOptions, GraphFile>;

// The words of the kinds in job files, in the order of ModelOptions.
inline constexpr std::string_view kModelKinds[] = {"mlp", "gpt",    "llama",    "bert",
                                                   "vit", "resnet", "convnext", "graph"};
static_assert(std::size(kModelKinds) == std::variant_size_v<ModelOptions>);

inline std::string_view KindOf(const ModelOptions& options) {
  return kModelKinds[options.index()];
}

// A configuration file to write beside the model's file in the output folder.
enum class OutputConfig : std::uint8_t {
  kNone,
  kTransformers,  // config.json, so that transformers can load the folder
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
  // If set, a loss or weights that are not finite end the run, which keeps the last good weights.
  // Otherwise the run continues, and the receipt says where the first one was.
  bool stop_if_not_finite = true;
  // Names of parameters that keep their values; '*' stands for any characters.
  std::vector<std::string> freeze;
  model::DecayRule decay = model::DecayRule::kEverything;  // to what weight decay applies

  // The options of a perceptron. Throws Error (usage) for any other kind of model; callers support
  // only perceptrons.
  const Perceptron& perceptron() const;
  Perceptron& perceptron();
  // What the loss compares the outputs with: classes or values.
  Loss loss() const;
};

// Why `path` cannot be the path of one of a job's files, as the end of "<where it comes from>: ".
std::optional<std::string> PathProblem(const std::string& path);

// Reads a job file, applies `overrides` ("train.epochs=3", values as TOML; a bare word is a
// string), checks everything and makes file paths absolute. Throws Error (usage) that names the
// file, the line, the key, the value and what is expected, and for unknown keys or words the
// nearest known one.
Job LoadJob(const std::string& path, const std::vector<std::string>& overrides);
// The same for a job in memory; relative paths are relative to `directory`.
Job ParseJob(const std::string& toml, const std::string& name, const std::string& directory,
             const std::vector<std::string>& overrides);

// All values, including defaults, as the receipt keeps them. Keys that the job's optimizer, loss,
// schedule or activation does not use are left out (setting them is an error).
nlohmann::json JobToJson(const Job& job);
// TOML with the same values: ParseJob(JobToToml(job)) gives the same job.
std::string JobToToml(const Job& job);
// The job of a receipt: the inverse of JobToJson. Throws Error (usage) for anything else. `name` is
// the file, for messages. If the job's graph file is no longer there, the copy in the folder of
// `name` serves; the job then still has the path of the original.
Job JobFromJson(const nlohmann::json& json, const std::string& name);

}  // namespace acan
