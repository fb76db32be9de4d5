// acan embed: computes vectors of sentences with an encoder that transformers or
// sentence-transformers saved.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "acan/core/error.h"
#include "acan/generate/predictor.h"
#include "acan/manager/load_data.h"
#include "acan/manager/model_config.h"
#include "acan/manager/output_names.h"
#include "acan/manager/stored_array.h"
#include "acan/manager/trained_model.h"
#include "acan/model/presets.h"
#include "command.h"
#include "device_factory.h"
#include "fmt/format.h"
#include "log.h"
#include "predictor_flags.h"
#include "process_setup.h"
#include "watchdog.h"

namespace acan::cli {
namespace {

constexpr const char* kSentence = "sentence_embedding";
constexpr const char* kHidden = "last_hidden_state";

struct EmbedFlags {
  std::string folder;
  std::string tokens;
  std::string lengths;
  std::string token_types;
  std::string output = kSentence;
  PredictorFlags predictor;
};

constexpr const char* kEmbedExample = R"(
The folder has a config.json of model_type "bert" and the model.safetensors of a BertModel, or of a
model with a head on one, as transformers and sentence-transformers save them; it ignores heads.
Other programs make the tokens, [samples, positions]; --lengths says how many of each sample are
valid. The outputs are

  sentence_embedding  [samples, width]: the mean over the valid positions, divided by its norm
  pooler_output       [samples, width], of models with a pooling layer
  last_hidden_state   [samples x positions, width]

and the file is NPY of float32. The first is the vector of all-MiniLM-L6-v2 and models like it. For
models of sentence-transformers with another pooling, such as the first token (CLS), compute it from
--output last_hidden_state. The same files give the same bits on every device.

Examples:
  acan embed all-MiniLM-L6-v2 --tokens tokens.npy --lengths lengths.npy --out embeddings.npy)";

// As sentence-transformers does it, in double, with operations that round the same everywhere.
void DivideByNorm(std::span<float> vector) {
  constexpr double kMinNorm = 1e-12;
  double squares = 0;
  for (const float x : vector) squares += static_cast<double>(x) * static_cast<double>(x);
  const double norm = std::max(std::sqrt(squares), kMinNorm);
  for (float& x : vector) x = static_cast<float>(static_cast<double>(x) / norm);
}

model::BertOptions ReadOptions(const EmbedFlags& flags) {
  model::BertOptions options =
      ReadBertConfig((std::filesystem::path(flags.folder) / kConfigName).string());
  const StoredArray tokens = OpenArray(flags.tokens);
  if (tokens.shape().size() != 2) {
    throw UsageError(fmt::format("--tokens {}: has {} dimension{}; expected [samples, positions]",
                                 flags.tokens, tokens.shape().size(),
                                 tokens.shape().size() == 1 ? "" : "s"));
  }
  options.sequence_length = tokens.shape()[1];
  options.add_pooling_layer = flags.output != kSentence && flags.output != kHidden;
  return options;
}

// The encoder as a job would load it.
std::shared_ptr<const TrainedModel> BuildEncoder(const std::string& folder,
                                                 const model::BertOptions& options) {
  auto encoder = std::make_shared<TrainedModel>();
  encoder->kind = "bert";
  try {
    encoder->evaluation = model::Bert(options, model::Mode::kEvaluation);
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("{}: {}", folder, error.what()));
  }
  encoder->training = encoder->evaluation;
  return encoder;
}

// Describes the first sample that ends with the padding token; empty if there is none.
std::string PaddingIn(const EmbedFlags& flags, const SampleSet& samples,
                      const model::BertOptions& options) {
  const std::int64_t end = options.sequence_length;
  for (std::int64_t sample = 0; sample < samples.samples(); ++sample) {
    std::uint32_t last = 0;
    samples.Copy({"tokens", sample, 0, {end - 1, end}, {0, 1}}, std::span(&last, 1));
    if (last != options.pad_token_id) continue;
    return fmt::format(
        "{}: sample {} ends with pad_token_id, {}, which counts as a part of the sentence; give "
        "--lengths, the number of valid tokens of each sample, if it is padding",
        flags.tokens, sample, last);
  }
  return "";
}

std::shared_ptr<const SampleSet> ReadSamples(const EmbedFlags& flags, const model::Graph& graph,
                                             const model::BertOptions& options) {
  std::vector<std::string> warnings;
  auto samples =
      LoadInputs(Job(), graph, {flags.tokens, flags.lengths, flags.token_types}, &warnings);
  if (flags.lengths.empty()) {
    const std::string padding = PaddingIn(flags, *samples, options);
    if (!padding.empty()) warnings.push_back(padding);
  }
  Log log(LogFormat::kText, "embed");
  for (const std::string& warning : warnings) log.Warning(warning);
  return samples;
}

int RunEmbed(const EmbedFlags& flags) try {
  RequireLimits("acan embed");
  const std::filesystem::path folder = flags.folder;
  RequireOtherOutput(flags.predictor.out,
                     {flags.tokens, flags.lengths, flags.token_types,
                      (folder / kModelName).string(), (folder / kConfigName).string()});
  Watchdog watchdog(OfPredictor("acan embed"));
  const model::BertOptions options = ReadOptions(flags);
  const std::shared_ptr<const TrainedModel> encoder = BuildEncoder(flags.folder, options);
  const std::shared_ptr<const SampleSet> samples = ReadSamples(flags, encoder->evaluation, options);
  const ModelReader weights((folder / kModelName).string(), *encoder, "bert.");
  Predictor predictor(MakeOneDevice(flags.predictor.device, flags.predictor.memory),
                      encoder->evaluation, weights, flags.output);
  return WriteOutputs(predictor, *samples, flags.predictor.out, watchdog,
                      flags.output == kSentence ? DivideByNorm : nullptr);
} catch (const OutOfMemory& error) {
  throw FailureError(NoRoomText(flags.folder, error));
}

}  // namespace

void AddEmbed(Command& app, Chosen& chosen) {
  const auto flags = std::make_shared<EmbedFlags>();
  Command command = app.AddCommand("embed", "Compute sentence embeddings with a trained encoder");
  command.AddOption("folder", flags->folder, "the model's folder").Required().TypeName("DIR");
  command.AddOption("--tokens", flags->tokens, "the samples' tokens, [samples, positions]")
      .Required()
      .TypeName("FILE");
  command
      .AddOption("--lengths", flags->lengths,
                 "the number of valid tokens of each sample, [samples] (default: all)")
      .TypeName("FILE");
  command
      .AddOption("--token-types", flags->token_types,
                 "the tokens' types, [samples, positions] (default: 0)")
      .TypeName("FILE");
  command
      .AddOption("--output", flags->output,
                 "the output of the model to compute (default: sentence_embedding)")
      .TypeName("NAME");
  AddPredictorFlags(command, flags->predictor);
  command.Footer(kEmbedExample);
  command.OnParsed([flags, &chosen] { chosen.run = [flags] { return RunEmbed(*flags); }; });
}

}  // namespace acan::cli
