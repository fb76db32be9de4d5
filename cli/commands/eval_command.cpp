// acan eval: a trained model on test data. It is a job of no epochs that starts from the model.
#include <filesystem>
#include <memory>
#include <utility>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/manager/finished_run.h"
#include "acan/manager/load_data.h"
#include "acan/manager/model_file.h"
#include "command.h"
#include "fmt/format.h"
#include "job_flags.h"
#include "local_run.h"
#include "nlohmann/json.hpp"
#include "process_setup.h"
#include "standard_output.h"

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
Prints the loss, for classes the share of right answers, and for models of language the perplexity
(e^loss), as training's own evaluation gives them; nothing is trained or written. The output folder
of a run says by its receipt which model and which test data these are. With a job file, --model
names the weights. --inputs and --targets name other test data than the job's; for text and for
streams of tokens, --inputs alone does.

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

// With the weights to evaluate as those that it starts from.
Job JobOfFolder(const EvalFlags& flags) {
  RequireNoOverrides(flags.job, flags.job.path + " is a folder, whose job stays as it was");
  FinishedRun run = ReadFinishedRun(flags.job.path);
  if (!flags.model.empty()) run.model_path = flags.model;
  if (flags.model.empty()) {
    run.OpenWeights();
  } else {
    const ModelReader reader(run.model_path, *run.model);
  }
  run.job.initial_weights =
      WholePath(flags.model.empty() ? "the folder" : "--model", run.model_path);
  run.job.initial_weights_sha256.clear();
  return run.job;
}

Job JobOfFile(const EvalFlags& flags) {
  Job job = ReadJob(flags.job);
  if (flags.model.empty()) {
    throw UsageError(
        fmt::format("--model is missing: which weights? {} is a job file; the output folder of a "
                    "run needs no --model",
                    flags.job.path));
  }
  const auto file = std::make_shared<const SafetensorsFile>(flags.model);
  try {
    const ModelReader reader(file, *BuildModel(job));
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}; evaluate it with the job that trained it: {} is of "
                                          "another model",
                                          error.what(), flags.job.path));
  }
  job.initial_weights = WholePath("--model", flags.model);
  job.initial_weights_sha256.clear();
  return job;
}

// What --inputs and --targets say. REQUIRES: one of them is given.
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
    // The tokens are those of the training text, or of all of the text that was cut in two.
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

Job EvaluationJob(const EvalFlags& flags) {
  const bool is_folder = std::filesystem::is_directory(flags.job.path);
  Job job = is_folder ? JobOfFolder(flags) : JobOfFile(flags);
  if (!flags.inputs.empty() || !flags.targets.empty()) TakeOtherData(flags, &job.data);
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
  job.stop_if_not_finite = false;  // whatever the model gives is what was asked for
  return job;
}

int RunEval(const EvalFlags& flags) {
  RequireLimits("acan eval");
  StopSignals signals(StopSignals::Mode::kAll);
  Log log(ParseLogFormat(flags.log_format), "eval");
  const LocalClusterOptions cluster = ParseCluster(flags.cluster);
  const Job job = EvaluationJob(flags);
  auto receipt = RunLocally({cluster, "", flags.job.path, false}, job, LoadData(job), log, signals);
  if (!receipt) return 128 + signals.received();
  // The run begins to count steps anew, and some models' files have that number.
  receipt->weights_sha256 = ModelReader(job.initial_weights, *BuildModel(job)).WeightsSha256();
  PrintLine(TestText(*receipt));
  if (flags.json) PrintLine(JsonText(ReceiptToJson(*receipt)));
  return 0;
}

}  // namespace

void AddEval(Command& app, Chosen& chosen) {
  const auto flags = std::make_shared<EvalFlags>();
  Command command = app.AddCommand("eval", "Evaluate a trained model on test data");
  AddJobFlags(command, flags->job);
  command
      .AddOption("--model", flags->model,
                 "the model.safetensors to evaluate (default: that of the folder)")
      .TypeName("FILE");
  command.AddOption("--inputs", flags->inputs, "other test inputs than the job's").TypeName("FILE");
  command.AddOption("--targets", flags->targets, "the labels or targets of --inputs")
      .TypeName("FILE");
  AddClusterFlags(command, flags->cluster);
  command.AddFlag("--json", flags->json, "the last line on stdout is the receipt as JSON");
  AddLogFormat(command, flags->log_format);
  command.Footer(kEvalExample);
  command.OnParsed([flags, &chosen] { chosen.run = [flags] { return RunEval(*flags); }; });
}

}  // namespace acan::cli
