#include "sequence_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "acan/core/error.h"
#include "acan/manager/job.h"
#include "integers.h"

namespace acan {
namespace {

using model::InputRole;

// The valid values of an input.
IntegerBounds BoundsOf(const WantedInput& input) {
  switch (input.role) {
    case InputRole::kLengths:
      return {1, input.bound, {}, fmt::format("the model takes lengths up to {}", input.bound)};
    default:
      return {0,
              input.bound - 1,
              {},
              input.name == "token_type_ids"
                  ? fmt::format("the model has {} types of tokens", input.bound)
                  : fmt::format("the model has {} tokens (model.vocab_size)", input.bound)};
  }
}

const char* WordOf(const WantedInput& input) {
  if (input.name == "labels") return "the label";
  if (input.role == InputRole::kLengths) return "the length";
  return input.name == "tokens" ? "the token" : "the token type";
}

// What to do about sequences of another length than the model takes; empty: unknown.
std::string LengthAdvice(const StoredArray& array, const WantedInput& input,
                         const SequenceFiles& files) {
  if (input.name != "tokens" || array.shape().size() != 2) return "";
  const std::int64_t found = array.shape()[1];
  return fmt::format(
      "; {}{} the sequences",
      files.positions_have_key ? fmt::format("set model.sequence_length = {}, or ", found) : "",
      found < input.positions ? "pad" : "cut");
}

void CheckShape(const StoredArray& array, const WantedInput& input, const SequenceFiles& files) {
  std::vector<std::int64_t> expected = {array.samples()};
  if (input.positions > 1) expected.push_back(input.positions);
  if (array.samples() > kMaxSamples) {
    throw UsageError(fmt::format("{}: has {} samples; the limit is {}", array.path(),
                                 array.samples(), kMaxSamples));
  }
  const bool is_column = input.positions == 1 && array.values_per_sample() == 1;
  if (array.shape() != expected && !is_column) {
    throw UsageError(fmt::format(
        "{}: has shape {}, but the model takes {}, one {} each{}", array.path(),
        ShapeText(array.shape()),
        input.positions > 1 ? fmt::format("[samples, {}]", input.positions) : "[samples]",
        input.positions > 1 ? "sequence" : "number", LengthAdvice(array, input, files)));
  }
}

}  // namespace

SequenceSet::SequenceSet(const SequenceFiles& files, std::vector<WantedInput> wanted)
    : inputs_(std::move(wanted)) {
  const std::pair<const char*, const std::string*> named[] = {
      {"tokens", &files.tokens},
      {"labels", &files.labels},
      {"lengths", &files.lengths},
      {"token_type_ids", &files.token_types}};
  RequireLengths(files);
  Sha256 hash;
  hash.Add("sequences", 9);
  for (const auto& [name, path] : named) {
    if (path->empty()) continue;
    const auto input = std::ranges::find(inputs_, name, &WantedInput::name);
    if (input == inputs_.end()) {
      throw UsageError(
          fmt::format("{}: the model has no input \"{}\"; leave the file out", *path, name));
    }
    StoredArray array = OpenArray(*path);
    CheckShape(array, *input, files);
    if (samples_ == 0) samples_ = array.samples();
    if (array.samples() != samples_) {
      throw UsageError(fmt::format("{}: has {} samples, but {} has {}", array.path(),
                                   array.samples(), files.tokens, samples_));
    }
    const std::int64_t head[] = {samples_, input->positions};
    hash.Add(name, input->name.size());
    hash.Add(head, sizeof head);
    const WantedInput& of = *input;
    const auto place = [&of](std::int64_t value) {
      std::string sample = fmt::format("{} of sample {}", WordOf(of), value / of.positions);
      if (of.positions == 1) return sample;
      return fmt::format("{}, position {}", sample, value % of.positions);
    };
    if (of.role == InputRole::kLabels) {
      CheckLabels(array, place, &hash, &*input);
    } else {
      CheckIntegers(array, BoundsOf(of), place, &hash);
    }
    arrays_.emplace(name, std::move(array));
  }
  sha256_ = hash.Hex();
}

// Without a file, each sample has all positions.
void SequenceSet::RequireLengths(const SequenceFiles& files) const {
  const WantedInput* tokens = FindInput(inputs_, "tokens");
  const WantedInput* lengths = FindInput(inputs_, "lengths");
  if (lengths == nullptr || !files.lengths.empty() || lengths->bound == tokens->positions) return;
  throw UsageError(
      fmt::format("{}: its samples have {} positions, but the model takes lengths up to {}; name a "
                  "file of their lengths",
                  files.tokens, tokens->positions, lengths->bound));
}

void SequenceSet::Copy(const SamplePart& part, std::span<std::uint32_t> out) const {
  assert(part.sample >= 0 && part.sample < samples_);
  assert(static_cast<std::int64_t>(out.size()) == part.positions.size() * part.features.size());
  const WantedInput* input = FindInput(inputs_, part.input);
  assert(input != nullptr && Range({0, input->positions}).Contains(part.positions));
  const auto array = arrays_.find(part.input);
  if (array == arrays_.end()) {
    std::ranges::fill(
        out, input->role == InputRole::kLengths ? static_cast<std::uint32_t>(input->bound) : 0U);
    return;
  }
  array->second.ReadWords(part.sample * input->positions + part.positions.begin, out);
  if (input->role == InputRole::kLabels) ReplaceIgnored(*input, out);
}

}  // namespace acan
