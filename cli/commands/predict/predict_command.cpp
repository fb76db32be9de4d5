// acan predict: computes the outputs of a trained model for samples without labels.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "acan/core/error.h"
#include "acan/generate/predictor.h"
#include "acan/manager/finished_run.h"
#include "acan/manager/load_data.h"
#include "command.h"
#include "device_factory.h"
#include "fmt/format.h"
#include "log.h"
#include "predictor_flags.h"
#include "process_setup.h"
#include "watchdog.h"

namespace acan::cli {
namespace {

struct PredictFlags {
  std::string folder;
  SampleFiles files;
  std::string output;
  PredictorFlags predictor;
};

constexpr const char* kPredictExample = R"(
The folder is the output folder of a run. The samples are in a file of a format that training reads,
without labels, and are treated as the run's test data: rows of numbers, images, or sequences of
tokens as numbers. The output is a file of float32 in NPY format, [samples, values], or
[samples x positions, values] if the model gives values for each position. Those of a classifier are
the logits of the classes: the largest one belongs to the predicted class. The same files give the
same bits on every device.

Examples:
  acan predict out/mnist --inputs images.npy --out logits.npy
  acan predict out/bert --inputs tokens.npy --lengths lengths.npy --out logits.npy)";

// The names that the presets use.
std::string OutputOf(const PredictFlags& flags, const model::Graph& graph) {
  if (!flags.output.empty()) return flags.output;
  std::string names;
  for (const char* usual : {"logits", "outputs"}) {
    for (const model::GraphOutput& output : graph.outputs()) {
      if (output.name == usual) return usual;
    }
  }
  if (graph.outputs().size() == 1) return graph.outputs().front().name;
  for (const model::GraphOutput& output : graph.outputs()) {
    names += (names.empty() ? "" : ", ") + output.name;
  }
  throw UsageError(
      fmt::format("{}: its model has {}; name one of them with --output", flags.folder,
                  names.empty() ? "no outputs: add \"outputs\" to its graph file, and train again"
                                : "the outputs " + names));
}

// Without these files, all positions of a sample are valid, and its tokens have type 0. This is not
// what a model computes that was trained with them.
void RequireFile(const char* flag, const std::string& file, const char* key,
                 const std::string& trained, const char* content) {
  if (trained.empty() || !file.empty()) return;
  throw UsageError(
      fmt::format("{}: the run was trained with {}; give a file with {}", flag, key, content));
}

int RunPredict(const PredictFlags& flags) try {
  RequireLimits("acan predict");
  const SampleFiles& files = flags.files;
  RequireOtherOutput(flags.predictor.out, {files.inputs, files.lengths, files.token_types});
  Watchdog watchdog(OfPredictor("acan predict"));
  const FinishedRun run = ReadFinishedRun(flags.folder);
  RequireOtherOutput(flags.predictor.out, {run.model_path, ReceiptPathIn(run.folder)});
  const TokenData& trained = run.job.data.tokens;
  RequireFile("--lengths", files.lengths, "data.train_lengths", trained.train_lengths,
              "the number of valid tokens of each sample, even if all are valid");
  RequireFile("--token-types", files.token_types, "data.train_token_types", trained.train_types,
              "the tokens' types, even if all are 0");
  const model::Graph& graph = run.model->evaluation;
  const std::string output = OutputOf(flags, graph);
  std::vector<std::string> warnings;
  const std::shared_ptr<const SampleSet> samples = LoadInputs(run.job, graph, files, &warnings);
  Log log(LogFormat::kText, "predict");
  for (const std::string& warning : warnings) log.Warning(warning);
  const std::unique_ptr<ModelReader> weights = run.OpenWeights();
  Predictor predictor(MakeOneDevice(flags.predictor.device, flags.predictor.memory), graph,
                      *weights, output, run.job.training);
  return WriteOutputs(predictor, *samples, flags.predictor.out, watchdog);
} catch (const OutOfMemory& error) {
  throw FailureError(NoRoomText(flags.folder, error));
}

}  // namespace

void AddPredict(Command& app, Chosen& chosen) {
  const auto flags = std::make_shared<PredictFlags>();
  Command command = app.AddCommand("predict", "Compute a trained model's outputs for new samples");
  command.AddOption("folder", flags->folder, "the output folder (--out) of a run")
      .Required()
      .TypeName("DIR");
  command.AddOption("--inputs", flags->files.inputs, "the samples").Required().TypeName("FILE");
  command
      .AddOption("--lengths", flags->files.lengths,
                 "the number of valid tokens of each sample, [samples] (default: all, if the run "
                 "was trained without lengths)")
      .TypeName("FILE");
  command
      .AddOption("--token-types", flags->files.token_types,
                 "the tokens' types, [samples, positions] (default: 0, if the run was trained "
                 "without types)")
      .TypeName("FILE");
  command
      .AddOption("--output", flags->output,
                 "the output of the model to compute (default: \"logits\" or \"outputs\")")
      .TypeName("NAME");
  AddPredictorFlags(command, flags->predictor);
  command.Footer(kPredictExample);
  command.OnParsed([flags, &chosen] { chosen.run = [flags] { return RunPredict(*flags); }; });
}

}  // namespace acan::cli
