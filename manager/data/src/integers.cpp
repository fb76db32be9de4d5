#include "integers.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "acan/core/error.h"

namespace acan {

std::int64_t CheckIntegers(const StoredArray& array, const IntegerBounds& bounds,
                           const std::function<std::string(std::int64_t value)>& place,
                           Sha256* hash) {
  constexpr std::int64_t kAtOnce = 1 << 16;
  std::vector<std::int64_t> values;
  std::vector<std::int32_t> words;
  const std::int64_t count = array.count();
  std::int64_t others = 0;
  for (std::int64_t first = 0; first < count; first += kAtOnce) {
    values.resize(static_cast<std::size_t>(std::min(kAtOnce, count - first)));
    array.ReadIntegers(first, values);
    words.resize(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const std::int64_t value = values[i];
      if ((value < bounds.least || value > bounds.most) && value != bounds.also) {
        throw UsageError(fmt::format(
            "{}: {} is {}, but {}: expected {} to {}{}", array.path(),
            place(first + static_cast<std::int64_t>(i)), value, bounds.reason, bounds.least,
            bounds.most, bounds.also ? fmt::format(", or {} for none", *bounds.also) : ""));
      }
      if (value == bounds.also) ++others;
      words[i] = static_cast<std::int32_t>(value);
    }
    hash->Add(words.data(), words.size() * sizeof(words[0]));
  }
  return others;
}

void CheckLabels(const StoredArray& array,
                 const std::function<std::string(std::int64_t value)>& place, Sha256* hash,
                 WantedInput* input) {
  const std::optional<std::int64_t> none = input->IgnoredInFiles();
  // The same words mean other labels if another value stands for "no class".
  if (input->ignored_in_files) hash->Add(&*none, sizeof *none);
  const std::int64_t ignored = CheckIntegers(
      array,
      {0, input->bound - 1, none,
       fmt::format("the model has {} classes{}", input->bound,
                   none ? ""
                        : " and ignores no label (a cross_entropy of the order \"lanes\" ignores "
                          "one)")},
      place, hash);
  if (ignored == array.count()) {
    throw UsageError(
        fmt::format("{}: all labels are {}, which stands for no class", array.path(), *none));
  }
  if (ignored == 0) input->ignored_label.reset();
}

void ReplaceIgnored(const WantedInput& input, std::span<std::uint32_t> labels) {
  if (!input.ignored_label || !input.ignored_in_files) return;
  std::ranges::replace(labels, static_cast<std::uint32_t>(*input.ignored_in_files),
                       static_cast<std::uint32_t>(*input.ignored_label));
}

}  // namespace acan
