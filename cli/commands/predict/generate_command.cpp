// acan generate: continues a prompt with the model of a finished run.
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "acan/core/error.h"
#include "acan/core/text/one_line.h"
#include "acan/generate/decoder.h"
#include "acan/generate/generate.h"
#include "acan/manager/finished_run.h"
#include "acan/manager/output_names.h"
#include "acan/manager/vocabulary.h"
#include "command.h"
#include "device_factory.h"
#include "fmt/format.h"
#include "log.h"
#include "predictor_flags.h"
#include "process_setup.h"
#include "standard_output.h"
#include "watchdog.h"

namespace acan::cli {
namespace {

constexpr int kMaxTokens = 100'000'000;

struct GenerateFlags {
  std::string folder;
  std::optional<std::string> prompt;
  std::optional<std::string> prompt_tokens;
  std::string device = "cpu";
  std::string memory;
  std::string seed = "1";
  int tokens = 200;
  int top_k = 0;
  int stop_token = -1;  // none
  double temperature = 1;
};

constexpr const char* kGenerateExample = R"(
Prints what follows the prompt, token by token. The folder is the output folder of a run whose model
predicts each next token (gpt, llama, and graph files of such models); its vocabulary.json says what
the tokens are. The same folder, prompt and flags give the same text on every device: it computes in
exact precision, and draws token number n of the text with Philox from (seed, n). If the text is
longer than the model's positions, the model sees the last ones. A run that was trained on tokens has
no vocabulary: it takes --prompt-tokens, and prints the numbers of the tokens, one per line.

Examples:
  acan generate out/gpt --prompt "In the beginning" --tokens 500 --temperature 0.8 --top-k 20
  acan generate out/gpt --prompt-tokens 31,7 --tokens 5 --temperature 0 --device opencl:0)";

std::uint64_t ParseSeed(const std::string& text) {
  std::uint64_t seed = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, seed);
  if (error != std::errc() || rest != end) {
    throw UsageError(fmt::format("--seed: {} must be an integer from 0 to {}", text,
                                 std::numeric_limits<std::uint64_t>::max()));
  }
  return seed;
}

std::vector<std::int32_t> ParseTokens(const std::string& text) {
  std::vector<std::int32_t> tokens;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const char* const last = text.data() + end;
    std::int32_t token = 0;
    const auto [rest, error] = std::from_chars(text.data() + begin, last, token);
    if (error != std::errc() || rest != last) {
      throw UsageError(fmt::format(
          "--prompt-tokens: entry {} is \"{}\"; expected numbers separated by commas, like 5,17",
          tokens.size(), text.substr(begin, end - begin)));
    }
    tokens.push_back(token);
    begin = end + 1;
  }
  return tokens;
}

std::string VocabularyPath(const GenerateFlags& flags) {
  return (std::filesystem::path(flags.folder) / kVocabularyName).string();
}

// The vocabulary for a prompt of text; null for a prompt of token numbers.
std::shared_ptr<const Vocabulary> VocabularyOf(const GenerateFlags& flags, const FinishedRun& run) {
  if (flags.prompt.has_value() == flags.prompt_tokens.has_value()) {
    throw UsageError("give either --prompt TEXT or --prompt-tokens LIST");
  }
  if (!flags.prompt) return nullptr;
  RequireLanguageModel(run);  // with any other model no prompt helps
  const std::string path = VocabularyPath(flags);
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    if (run.job.data.text.used()) {
      throw UsageError(fmt::format(
          "{}: the file is missing, which has the tokens of the text that the model was trained "
          "on: restore it, or give --prompt-tokens",
          path));
    }
    throw UsageError(
        fmt::format("{} has no {}: its model was not trained on text, so give --prompt-tokens",
                    flags.folder, kVocabularyName));
  }
  return ReadVocabulary(path);
}

// `vocabulary`: that of a prompt of text.
std::vector<std::int32_t> PromptOf(const GenerateFlags& flags, const Vocabulary* vocabulary) {
  if (vocabulary == nullptr) return ParseTokens(*flags.prompt_tokens);
  std::vector<std::int32_t> tokens = vocabulary->TokensOf(*flags.prompt, "--prompt");
  const std::string unknown = vocabulary->UnknownText(tokens, "--prompt");
  if (!unknown.empty()) Log(LogFormat::kText, "generate").Warning(unknown);
  return tokens;
}

[[noreturn]] void DoesNotFit(const GenerateFlags& flags, const OutOfMemory& error) {
  throw FailureError(fmt::format(
      "{}: the whole model, and the keys and values of its positions, must fit into one device: "
      "{}; raise --memory, or choose another --device",
      flags.folder, error.what()));
}

int RunGenerate(const GenerateFlags& flags) try {
  RequireLimits("acan generate");
  Sampling sampling{flags.temperature, flags.top_k, ParseSeed(flags.seed)};
  Watchdog watchdog(OfPredictor("acan generate"));
  const FinishedRun run = ReadFinishedRun(flags.folder);
  const std::shared_ptr<const Vocabulary> vocabulary = VocabularyOf(flags, run);
  const std::vector<std::int32_t> prompt = PromptOf(flags, vocabulary.get());
  Decoder decoder(MakeOneDevice(flags.device, flags.memory), run);
  if (vocabulary && vocabulary->size() > decoder.vocabulary_size()) {
    throw UsageError(
        fmt::format("{}: has {} tokens, but the model has {}: the file is from another run",
                    VocabularyPath(flags), vocabulary->size(), decoder.vocabulary_size()));
  }
  // A model may have more tokens than its vocabulary; no text has those.
  if (vocabulary) sampling.tokens = vocabulary->size();
  const std::int64_t tokens = vocabulary ? vocabulary->size() : decoder.vocabulary_size();
  if (flags.stop_token >= tokens) {
    throw UsageError(fmt::format("--stop-token: is {}, but {} has {} tokens: expected 0 to {}",
                                 flags.stop_token, vocabulary ? VocabularyPath(flags) : "the model",
                                 tokens, tokens - 1));
  }
  // The folder may be of somebody else, whose tokens could give the terminal commands.
  const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  TerminalText safe;
  Generate(decoder, prompt, flags.tokens, sampling, [&](std::int32_t token) {
    watchdog.Beat();
    if (token == flags.stop_token) return false;
    if (vocabulary) {
      const std::string text = vocabulary->TextOf(token);
      Print(terminal ? safe.Add(text) : text);
    } else {
      PrintLine(fmt::format("{}", token));
    }
    return true;
  });
  if (vocabulary) PrintLine(safe.Finish());
  return 0;
} catch (const OutOfMemory& error) {
  DoesNotFit(flags, error);
}

}  // namespace

void AddGenerate(Command& app, Chosen& chosen) {
  const auto flags = std::make_shared<GenerateFlags>();
  Command command = app.AddCommand("generate", "Continue a text with a trained language model");
  command.AddOption("folder", flags->folder, "the output folder (--out) of a run")
      .Required()
      .TypeName("DIR");
  command
      .AddOptionFunction(
          "--prompt", [flags](const std::string& text) { flags->prompt = text; },
          "the text to continue")
      .TypeName("TEXT");
  command
      .AddOptionFunction(
          "--prompt-tokens", [flags](const std::string& list) { flags->prompt_tokens = list; },
          "the prompt as token numbers separated by commas, instead of --prompt")
      .TypeName("LIST");
  command.AddOption("--tokens", flags->tokens, "how many tokens to add (default: 200)")
      .TypeName("N")
      .Between(0, kMaxTokens);
  command
      .AddOption("--stop-token", flags->stop_token,
                 "the number of the token that ends the text, such as the eos_token_id of a "
                 "pretrained model; it is not printed (default: none)")
      .TypeName("N")
      .Between(0, kMaxTokens);
  command
      .AddOption("--temperature", flags->temperature,
                 "divides the model's outputs before a token is drawn; 0 always takes the most "
                 "likely token (default: 1)")
      .TypeName("T")
      .Between(0.0, kMaxTemperature);
  command
      .AddOption("--top-k", flags->top_k,
                 "draws only from the K most likely tokens; 0 draws from all (default: 0)")
      .TypeName("K")
      .Between(0, kMaxTokens);
  command.AddOption("--seed", flags->seed, "the seed of the draws (default: 1)").TypeName("SEED");
  command.AddOption("--device", flags->device, "where to compute (default: cpu, all cores)")
      .TypeName("DEVICE");
  command
      .AddOption("--memory", flags->memory,
                 "the memory limit on the device, like 2GiB (default: half of the free memory; on "
                 "a GPU, nine tenths, less what its driver needs)")
      .TypeName("SIZE");
  command.Footer(kGenerateExample);
  command.OnParsed([flags, &chosen] { chosen.run = [flags] { return RunGenerate(*flags); }; });
}

}  // namespace acan::cli
