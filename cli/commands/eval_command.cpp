// acan eval: a trained model on test data. It is a job of no epochs that starts from the model.
#include <filesystem>
#include <memory>

#include "acan/core/error.h"
#include "acan/core/json_text.h"
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

struct Flags {
  JobFlags job;
  ClusterFlags cluster;
  std::string model;
  std::string inputs;
  std::string targets;
  Setting log_format;
  bool json = false;
};

constexpr const char* kExample = R"(
The job says the layers, the activation, the loss and the test data; nothing is trained or written.
--inputs and --targets name other test data than the job's.

Example:
  acan eval examples/fashion-mnist.toml --model out/fashion-mnist/model.safetensors --json)";

std::string WholePath(const char* flag, const std::string& given) {
  std::string path = std::filesystem::absolute(given).string();
  if (const auto problem = PathProblem(path)) {
    throw UsageError(fmt::format("{} {}: {}", flag, given, *problem));
  }
  return path;
}

Job EvaluationJob(const Flags& flags) {
  Job job = ReadJob(flags.job);
  const auto file = std::make_shared<const SafetensorsFile>(flags.model);
  try {
    const ModelReader reader(file, *BuildModel(job));
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}; evaluate it with the job that trained it: {} is of "
                                          "another model",
                                          error.what(), flags.job.path));
  }
  if (flags.inputs.empty() != flags.targets.empty()) {
    throw UsageError("--inputs and --targets belong together; give both or neither");
  }
  if (!flags.inputs.empty()) {
    if (!job.data.generated.empty()) {
      throw UsageError(fmt::format(
          "--inputs: {} trains on generated data; use a job that names files", flags.job.path));
    }
    job.data.test_inputs = WholePath("--inputs", flags.inputs);
    job.data.test_targets = WholePath("--targets", flags.targets);
  }
  if (job.data.generated.empty() && job.data.test_inputs.empty()) {
    throw UsageError(
        fmt::format("{} names no test data; add data.test_inputs to it, or give --inputs and "
                    "--targets",
                    flags.job.path));
  }
  job.initial_weights = WholePath("--model", flags.model);
  job.training.epochs = 0;
  job.training.steps.reset();
  job.stop_if_not_finite = false;  // whatever the model gives is what was asked for
  return job;
}

int RunEval(const Flags& flags) {
  RequireLimits("acan eval");
  StopSignals signals(StopSignals::Mode::kAll);
  Log log(ParseLogFormat(flags.log_format), "eval");
  const LocalClusterOptions cluster = ParseCluster(flags.cluster);
  const Job job = EvaluationJob(flags);
  const auto receipt =
      RunLocally({cluster, "", flags.job.path, false}, job, LoadData(job), log, signals);
  if (!receipt) return 128 + signals.received();
  PrintLine(TestText(*receipt));
  if (flags.json) PrintLine(JsonText(ReceiptToJson(*receipt)));
  return 0;
}

}  // namespace

void AddEval(Command& app, Chosen& chosen) {
  const auto flags = std::make_shared<Flags>();
  Command command = app.AddCommand("eval", "Evaluate a trained model on test data");
  AddJobFlags(command, flags->job);
  command.AddOption("--model", flags->model, "the model.safetensors to evaluate")
      .Required()
      .TypeName("FILE");
  command.AddOption("--inputs", flags->inputs, "other test inputs than the job's").TypeName("FILE");
  command.AddOption("--targets", flags->targets, "the labels or targets of --inputs")
      .TypeName("FILE");
  AddClusterFlags(command, flags->cluster);
  command.AddFlag("--json", flags->json, "the last line on stdout is the receipt as JSON");
  AddLogFormat(command, flags->log_format);
  command.Footer(kExample);
  command.OnParsed([flags, &chosen] { chosen.run = [flags] { return RunEval(*flags); }; });
}

}  // namespace acan::cli
