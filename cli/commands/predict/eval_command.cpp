// acan eval: evaluates a trained model on test data, as a job of no epochs that starts from the
// model.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/manager/finished_run.h"
#include "acan/manager/load_data.h"
#include "acan/manager/model_config.h"
#include "acan/manager/model_file.h"
#include "acan/manager/output_names.h"
#include "acan/manager/vocabulary.h"
#include "command.h"
#include "fmt/format.h"
#include "job_flags.h"
#include "local_run.h"
#include "nlohmann/json.hpp"
#include "process_setup.h"
#include "standard_output.h"
#include "watchdog.h"

namespace acan::cli {
namespace {

struct EvalFlags {
  JobFlags job;
  ClusterFlags cluster;
  std::string model;
  std::string inputs;
  std::string targets;
  Setting log_format;
  bool json = false;
};

constexpr const char* kEvalExample = R"(
Prints the loss, the accuracy if the model predicts classes, and the perplexity (e^loss) of language
models without label smoothing, as training's own evaluation gives them; it trains and writes
nothing. In the output folder of a run, the receipt names the model and the test data: data that have
changed since are refused. The folder's vocabulary.json numbers the tokens of a text, and the
training data are not needed. With a job file, --model names the weights, whose vocabulary.json
numbers the tokens if it lies beside them, and the job's current data are used. --inputs and
--targets replace the job's test data; for text and for streams of tokens, --inputs is enough.

Examples:
  acan eval out/gpt
  acan eval examples/fashion-mnist.toml --model out/fashion-mnist/model.safetensors --json)";

std::string WholePath(const char* flag, const std::string& given) {
  std::string path = std::filesystem::absolute(given).string();
  if (const auto problem = PathProblem(path)) {
    throw UsageError(fmt::format("{} {}: {}", flag, given, *problem));
  }
  return path;
}

// The weights to evaluate.
struct EvaluatedWeights {
  std::string path;
  std::string sha256;  // when the file was first read: it may be replaced or removed meanwhile
};

struct Evaluation {
  Job job;  // its initial weights are those to evaluate
  Data data;
  // Describe the run that trained the model. Nobody knows the steps of weights of --model.
  std::string train_sha256;
  std::optional<std::int64_t> train_samples;
  std::int64_t steps = 0;
  std::int64_t epochs = 0;
};

FinishedRun RunOfFolder(const EvalFlags& flags) {
  RequireNoOverrides(flags.job, flags.job.path + " is a folder, whose job cannot be overridden");
  return ReadFinishedRun(flags.job.path);
}

EvaluatedWeights WeightsOfFolder(const EvalFlags& flags, const FinishedRun& run) {
  if (flags.model.empty()) {
    run.OpenWeights();
    return {run.model_path, run.receipt.weights_sha256};
  }
  const ModelReader reader(flags.model, *run.model);
  RequireModelOfWeights(run.job, flags.model);
  return {flags.model, reader.WeightsSha256()};
}

Job JobOfFile(const EvalFlags& flags) {
  Job job = ReadJob(flags.job);
  if (flags.model.empty()) {
    throw UsageError(
        fmt::format("--model is missing: {} is a job file, which names no trained weights; the "
                    "output folder of a run needs no --model",
                    flags.job.path));
  }
  return job;
}

// REQUIRES: --model is given.
EvaluatedWeights WeightsForJob(const EvalFlags& flags, const Job& job) try {
  const ModelReader reader(flags.model, *BuildModel(job));
  RequireModelOfWeights(job, flags.model);
  return {flags.model, reader.WeightsSha256()};
} catch (const OtherTensors& error) {
  throw UsageError(
      fmt::format("{}; evaluate it with the job that trained it: {} describes another model",
                  error.what(), flags.job.path));
}

bool HasOtherData(const EvalFlags& flags) {
  return !flags.inputs.empty() || !flags.targets.empty();
}

// Applies --inputs and --targets. REQUIRES: one of them is given.
void TakeOtherData(const EvalFlags& flags, DataFiles* data) {
  const bool has_targets =
      !data->text.used() && !(data->tokens.used() && data->train_targets.empty());
  if (!has_targets && !flags.targets.empty()) {
    throw UsageError(fmt::format(
        "--targets: {} predicts each next token, so its inputs are its targets; leave it out",
        flags.job.path));
  }
  if (flags.inputs.empty() || (has_targets && flags.targets.empty())) {
    throw UsageError("--inputs and --targets belong together; give both or neither");
  }
  if (!data->generated.empty()) {
    throw UsageError(fmt::format(
        "--inputs: {} trains on generated data; use a job that names files", flags.job.path));
  }
  const std::string inputs = WholePath("--inputs", flags.inputs);
  if (has_targets) data->test_targets = WholePath("--targets", flags.targets);
  if (data->text.used()) {
    // The tokens are those of the training text, or of the whole text that was split in two.
    if (!data->text.text.empty()) data->text.train_text = std::exchange(data->text.text, "");
    data->text.test_text = inputs;
  } else if (data->tokens.used()) {
    data->tokens.test = inputs;
    if (!data->tokens.train_lengths.empty() || !data->tokens.train_types.empty()) {
      throw UsageError(fmt::format(
          "--inputs: the sequences of {} have lengths or token types, too; set data.test_tokens "
          "and its other test files in a job file",
          flags.job.path));
    }
  } else {
    data->test_inputs = inputs;
  }
}

bool HasTestData(const DataFiles& data) {
  if (data.text.used()) {
    return data.text.text.empty() ? !data.text.test_text.empty() : data.text.test_fraction > 0;
  }
  if (data.tokens.used()) return !data.tokens.test.empty();
  return !data.generated.empty() || !data.test_inputs.empty();
}

// The job that evaluates `weights` and trains nothing. It refuses the file if it was replaced since
// it was read.
Job EvaluationJob(const EvalFlags& flags, Job job, const EvaluatedWeights& weights) {
  job.initial_weights = WholePath(flags.model.empty() ? "the folder" : "--model", weights.path);
  job.initial_weights_sha256 = weights.sha256;
  if (HasOtherData(flags)) TakeOtherData(flags, &job.data);
  if (!HasTestData(job.data)) {
    throw UsageError(
        fmt::format("{} names no test data; {}", flags.job.path,
                    job.data.text.used() || job.data.tokens.used()
                        ? "set data.test_fraction, data.test_text or data.test_tokens in it, or "
                          "give --inputs"
                        : "add data.test_inputs to it, or give --inputs and --targets"));
  }
  job.training.epochs = 0;
  job.training.steps.reset();
  job.training.evaluate_every.reset();
  job.stop_if_not_finite = false;  // non-finite values are a valid result here
  return job;
}

// ---- the data of a folder's run ----------------------------------------------------------------

// The test data's files, as "a.npy and b.npy".
std::string TestFiles(const DataFiles& data) {
  std::string names = data.generated.empty() ? "" : "data.generated";
  for (const std::string* path :
       {&data.text.text, &data.text.test_text, &data.tokens.test, &data.test_inputs,
        &data.test_targets, &data.tokens.test_lengths, &data.tokens.test_types}) {
    if (!path->empty()) names += (names.empty() ? "" : " and ") + *path;
  }
  return names;
}

[[noreturn]] void HaveChanged(const FinishedRun& run, const std::string& files,
                              const std::string& what, const std::string& found,
                              const std::string& expected, const std::string& advice) {
  throw UsageError(fmt::format(
      "{}: the {} data have changed since the run in {}: their SHA-256 is {}, but {} says {}. {}",
      files, what, run.folder, found, kReceiptName, expected, advice));
}

// The vocabulary that was used in training. Without the file that a run writes, it is made from the
// training data, if they are unchanged.
VocabularyFile VocabularyOf(const FinishedRun& run) {
  if (auto kept = FindVocabulary(run.folder)) return *kept;
  const Data data = LoadData(run.job);
  if (data.train_sha256() != run.receipt.train_sha256) {
    const TextData& text = run.job.data.text;
    HaveChanged(
        run, text.text.empty() ? text.train_text : text.text, "training", data.train_sha256(),
        run.receipt.train_sha256,
        fmt::format(
            "The folder has no {} either, so the model's tokens are unknown: restore one of them",
            kVocabularyName));
  }
  return {(std::filesystem::path(run.folder) / kVocabularyName).string(), data.vocabulary};
}

// The text of the run's job is tokenized as in its training, so other weights must have the same
// tokens.
void RequireSameTokens(const VocabularyFile& vocabulary, const std::string& weights) {
  const std::optional<VocabularyFile> other = VocabularyOfWeights(weights);
  if (!other || HaveSameTokens(vocabulary, *other)) return;
  throw UsageError(fmt::format(
      "--model {}: {} numbers the tokens otherwise than {}: evaluate these weights with "
      "a job file",
      weights, other->path, vocabulary.path));
}

std::shared_ptr<const Vocabulary> VocabularyFor(const EvalFlags& flags, const FinishedRun& run) {
  if (!run.job.data.text.used()) return nullptr;
  const VocabularyFile vocabulary = VocabularyOf(run);
  if (!flags.model.empty()) RequireSameTokens(vocabulary, flags.model);
  return ParseVocabulary(vocabulary.text, vocabulary.path);
}

// The test data of the run, which may be elsewhere now, or those that are named instead.
Data DataForFolder(const EvalFlags& flags, const FinishedRun& run, const Job& evaluation) {
  const std::shared_ptr<const Vocabulary> vocabulary = VocabularyFor(flags, run);
  try {
    return LoadTestData(evaluation, vocabulary.get());
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kUsage || HasOtherData(flags)) throw;
    throw UsageError(
        fmt::format("{}; if the run's test data are elsewhere now: name them with --inputs (and "
                    "--targets), or in a job file with --model",
                    error.what()));
  }
}

Evaluation OfFolder(const EvalFlags& flags) {
  const FinishedRun run = RunOfFolder(flags);
  Evaluation evaluation;
  evaluation.job = EvaluationJob(flags, run.job, WeightsOfFolder(flags, run));
  evaluation.data = DataForFolder(flags, run, evaluation.job);
  evaluation.train_sha256 = run.receipt.train_sha256;
  const std::string found = evaluation.data.test_sha256();
  if (!HasOtherData(flags) && found != run.receipt.test_sha256) {
    HaveChanged(run, TestFiles(run.job.data), "test", found, run.receipt.test_sha256,
                "Restore the original files, or name the data to evaluate with --inputs (and "
                "--targets), or in a job file with --model");
  }
  evaluation.data.train = evaluation.data.test;  // no step trains on them
  evaluation.train_samples = run.receipt.train_samples;
  if (flags.model.empty()) {
    evaluation.steps = run.receipt.steps;
    evaluation.epochs = run.receipt.epochs;
  }
  // Test data are cut into batches, which have at most as many samples as there were to train on.
  std::int64_t& batch = evaluation.job.training.batch;
  batch = std::min(batch, evaluation.train_samples.value_or(batch));
  return evaluation;
}

// --inputs replaces only the part of the text that is for testing.
Data DataForOtherText(Job job, const Job& evaluation) {
  job.initial_weights = evaluation.initial_weights;  // they may have a vocabulary
  job.initial_weights_sha256.clear();
  Data data = LoadData(job);
  const auto vocabulary = ParseVocabulary(data.vocabulary, kVocabularyName);
  Data other = LoadTestData(evaluation, vocabulary.get());
  data.test = std::move(other.test);
  data.warnings.insert(data.warnings.end(), other.warnings.begin(), other.warnings.end());
  return data;
}

Evaluation OfFile(const EvalFlags& flags) {
  Evaluation evaluation;
  const Job job = JobOfFile(flags);
  evaluation.job = EvaluationJob(flags, job, WeightsForJob(flags, job));
  const bool replaces_a_part = HasOtherData(flags) && !job.data.text.text.empty();
  evaluation.data =
      replaces_a_part ? DataForOtherText(job, evaluation.job) : LoadData(evaluation.job);
  evaluation.train_sha256 = evaluation.data.train_sha256();
  evaluation.train_samples = evaluation.data.train_samples();
  return evaluation;
}

int RunEval(const EvalFlags& flags) {
  RequireLimits("acan eval");
  StopSignals signals(StopSignals::Mode::kAll);
  Log log(ParseLogFormat(flags.log_format), "eval");
  const LocalClusterOptions cluster = ParseCluster(flags.cluster);
  std::optional<Watchdog> reading(std::in_place, OfReading(log));
  Evaluation evaluation =
      std::filesystem::is_directory(flags.job.path) ? OfFolder(flags) : OfFile(flags);
  reading.reset();
  const Job& job = evaluation.job;
  auto receipt = RunLocally({cluster, "", flags.job.path, false}, job, std::move(evaluation.data),
                            log, signals);
  if (!receipt) return 128 + signals.received();
  receipt->train_sha256 = evaluation.train_sha256;
  receipt->train_samples = evaluation.train_samples;
  receipt->steps = evaluation.steps;
  receipt->epochs = evaluation.epochs;
  // The run counts steps from 0 again, and the files of some models contain that number.
  receipt->weights_sha256 = job.initial_weights_sha256;
  PrintLine(TestText(*receipt));
  if (flags.json) PrintLine(JsonTextReplacing(ReceiptToJson(*receipt)));
  return 0;
}

}  // namespace

void AddEval(Command& app, Chosen& chosen) {
  const auto flags = std::make_shared<EvalFlags>();
  Command command = app.AddCommand("eval", "Evaluate a trained model on test data");
  command
      .AddOption("job", flags->job.path,
                 "the output folder of a finished run, or a job file (then with --model)")
      .Required(true)
      .TypeName("DIR|JOB.toml");
  AddOverrides(command, flags->job);
  command
      .AddOption("--model", flags->model,
                 "the model.safetensors to evaluate (default: the one in the folder)")
      .TypeName("FILE");
  command.AddOption("--inputs", flags->inputs, "test inputs to use instead of the job's")
      .TypeName("FILE");
  command.AddOption("--targets", flags->targets, "the labels or targets of --inputs")
      .TypeName("FILE");
  AddClusterFlags(command, flags->cluster);
  command.AddFlag("--json", flags->json, "the last line on stdout is the receipt as JSON");
  AddLogFormat(command, flags->log_format);
  command.Footer(kEvalExample);
  command.OnParsed([flags, &chosen] { chosen.run = [flags] { return RunEval(*flags); }; });
}

}  // namespace acan::cli
