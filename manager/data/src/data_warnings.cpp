#include "data_warnings.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <variant>

#include "acan/core/error.h"
#include "acan/manager/input_file.h"

namespace acan {
namespace {

// The warnings about labels look at so many samples of a set.
constexpr std::int64_t kMostSamples = 1000;

// Empty if the file cannot be read.
std::optional<NumberType> KnownType(const std::string& path) {
  try {
    return TypeOfArray(path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

// Whether nearly all labels that count equal their own tokens.
bool LabelsAreTokens(const SampleSet& set) {
  const WantedInput& tokens = *FindInput(set.inputs(), "tokens");
  const WantedInput* labels = FindInput(set.inputs(), "labels");
  if (labels == nullptr || labels->positions != tokens.positions) return false;
  std::vector<std::uint32_t> found(static_cast<std::size_t>(tokens.positions));
  std::vector<std::uint32_t> expected(found.size());
  std::int64_t counted = 0;
  std::int64_t equal = 0;
  for (std::int64_t sample = 0; sample < std::min(set.samples(), kMostSamples); ++sample) {
    set.Copy({"tokens", sample, 0, {0, tokens.positions}, {0, 1}}, found);
    set.Copy({"labels", sample, 0, {0, tokens.positions}, {0, 1}}, expected);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const auto label = static_cast<std::int32_t>(expected[i]);
      if (labels->ignored_label && label == *labels->ignored_label) continue;
      ++counted;
      if (expected[i] == found[i]) ++equal;
    }
  }
  return counted > 0 && 100 * equal >= 99 * counted;
}

// The labels of the first `samples` samples that count, although the lengths of their sequences
// leave them out.
std::int64_t LabelsBeyondLengths(const SampleSet& set, const WantedInput& labels,
                                 std::int64_t samples) {
  std::vector<std::uint32_t> words(static_cast<std::size_t>(labels.positions));
  std::uint32_t length = 0;
  std::int64_t beyond = 0;
  for (std::int64_t sample = 0; sample < samples; ++sample) {
    set.Copy({"lengths", sample, 0, {0, 1}, {0, 1}}, std::span(&length, 1));
    set.Copy({labels.name, sample, 0, {0, labels.positions}, {0, 1}}, words);
    // A graph file may allow lengths above the number of positions.
    const auto padding = std::span(words).subspan(std::min<std::size_t>(length, words.size()));
    beyond += std::ranges::count_if(padding, [&labels](std::uint32_t word) {
      return !labels.ignored_label || static_cast<std::int32_t>(word) != *labels.ignored_label;
    });
  }
  return beyond;
}

}  // namespace

void WarnOfScaling(const std::string& train, const std::string& other,
                   std::vector<std::string>* warnings) {
  if (train.empty() || other.empty()) return;
  const std::optional<NumberType> types[] = {KnownType(train), KnownType(other)};
  if (!types[0] || !types[1]) return;
  const bool scaled = types[0] == NumberType::kUint8;
  if (scaled == (types[1] == NumberType::kUint8)) return;
  warnings->push_back(
      fmt::format("{} has uint8, which is scaled to 0..1, but {} has {}, which is not scaled: use "
                  "one type for both, unless the values of the second are from 0 to 1",
                  scaled ? train : other, scaled ? other : train, Word(*types[scaled ? 1 : 0])));
}

void WarnOfMean(const std::string& train, const std::vector<double>& mean,
                std::vector<std::string>* warnings) {
  const auto above = std::ranges::find_if(mean, [](double value) { return value > 1; });
  if (above == mean.end() || KnownType(train) != NumberType::kUint8) return;
  warnings->push_back(
      fmt::format("data.mean has {}, but {} has uint8, which is scaled to 0..1 before the mean is "
                  "subtracted: divide data.mean and data.std by 255",
                  *above, train));
}

void WarnOfLabels(const Job& job, const SampleSet& set, const std::string& path,
                  std::vector<std::string>* warnings) {
  const bool causal = std::holds_alternative<model::GptOptions>(job.model) ||
                      std::holds_alternative<model::LlamaOptions>(job.model);
  if (!causal || !LabelsAreTokens(set)) return;
  warnings->push_back(
      fmt::format("{}: the labels equal the tokens; acan does not shift labels: label i must be "
                  "token i + 1",
                  path));
}

void WarnOfPadding(const SampleSet& set, std::optional<std::int64_t> none, const std::string& path,
                   std::vector<std::string>* warnings) {
  const WantedInput* tokens = FindInput(set.inputs(), "tokens");
  const WantedInput* labels = FindInput(set.inputs(), "labels");
  if (labels == nullptr || labels->positions == 1 || labels->positions != tokens->positions ||
      FindInput(set.inputs(), "lengths") == nullptr) {
    return;
  }
  const std::int64_t samples = std::min(set.samples(), kMostSamples);
  const std::int64_t beyond = LabelsBeyondLengths(set, *labels, samples);
  if (beyond == 0) return;
  warnings->push_back(fmt::format(
      "{}: {} {} beyond the lengths of {}sequences, and the loss and the accuracy count {}; {}",
      path, beyond, beyond == 1 ? "label is" : "labels are",
      samples < set.samples() ? fmt::format("the first {} ", samples) : "their ",
      beyond == 1 ? "it" : "them",
      none ? fmt::format("where the tokens are only padding, the label must be {}", *none)
           : "the loss of this model ignores no label"));
}

void WarnOfNumberedColumns(const std::vector<std::string>& paths,
                           std::vector<std::string>* warnings) {
  for (const std::string& path : paths) {
    std::int64_t columns = 0;
    try {
      if (!path.empty()) columns = NumberedColumns(path);
    } catch (const Error&) {
    }
    if (columns < 2) continue;
    const std::string numbers =
        columns > 4 ? fmt::format("0,1,...,{}", columns - 1)
                    : std::string("0,1,2,3", static_cast<std::size_t>(2 * columns - 1));
    std::string text = fmt::format(
        "{}, line 1: is {}, and acan takes it for a sample: if it has the names of the columns, "
        "remove it (pandas: to_csv(index=False, header=False))",
        path, numbers);
    // Inputs and targets may be one file.
    if (std::ranges::find(*warnings, text) == warnings->end()) warnings->push_back(std::move(text));
  }
}

}  // namespace acan
