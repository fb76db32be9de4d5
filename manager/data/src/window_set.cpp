#include "window_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <utility>

#include "acan/core/error.h"
#include "acan/manager/job.h"
#include "integers.h"
#include "random_streams.h"

namespace acan {

WindowSet::WindowSet(StoredArray tokens, std::vector<WantedInput> wanted,
                     std::optional<std::uint64_t> seed)
    : tokens_(std::move(tokens)), inputs_(std::move(wanted)), seed_(seed) {
  const WantedInput& of_tokens = *FindInput(inputs_, "tokens");
  const std::int64_t classes = FindInput(inputs_, "labels")->bound;  // tokens are also labels
  for (WantedInput& input : inputs_) input.ignored_label.reset();    // every token is a class
  length_ = of_tokens.positions;
  // The last window and its labels fit after any offset.
  samples_ = (tokens_.count() - length_) / length_;
  if (samples_ < 1) {
    throw UsageError(
        fmt::format("{}: has {} tokens; the model's sequences have {}, and at least {} are needed",
                    tokens_.path(), tokens_.count(), length_, 2 * length_));
  }
  if (samples_ > kMaxSamples) {
    throw UsageError(fmt::format("{}: has {} windows of {} tokens; the limit is {}", tokens_.path(),
                                 samples_, length_, kMaxSamples));
  }
  Sha256 hash;
  const std::int64_t shape[] = {length_, tokens_.count(), seed_ ? 1 : 0};
  hash.Add("windows", 7);
  hash.Add(shape, sizeof shape);
  CheckIntegers(
      tokens_,
      {0,
       std::min(of_tokens.bound, classes) - 1,
       {},
       classes < of_tokens.bound
           ? fmt::format("the bound of the model's input \"labels\" is {}", classes)
           : fmt::format("the model has {} tokens (model.vocab_size)", of_tokens.bound)},
      [](std::int64_t value) { return fmt::format("token {} of the file", value); }, &hash);
  sha256_ = hash.Hex();
}

std::int64_t WindowSet::OffsetOf(std::int64_t epoch) const {
  if (!seed_) return 0;
  BoundedDraws draws(*seed_,
                     RandomStream(RandomUse::kWindowOffset, static_cast<std::uint64_t>(epoch)));
  return static_cast<std::int64_t>(draws.Below(static_cast<std::uint64_t>(length_)));
}

void WindowSet::Copy(const SamplePart& part, std::span<std::uint32_t> out) const {
  assert(part.sample >= 0 && part.sample < samples_);
  assert(Range({0, length_}).Contains(part.positions));
  assert(static_cast<std::int64_t>(out.size()) == part.positions.size() * part.features.size());
  const std::int64_t ahead = part.input == "labels" ? 1 : 0;
  tokens_.ReadWords(OffsetOf(part.epoch) + part.sample * length_ + part.positions.begin + ahead,
                    out);
}

}  // namespace acan
