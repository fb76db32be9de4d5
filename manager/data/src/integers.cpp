#include "integers.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "acan/core/error.h"

namespace acan {

void CheckIntegers(const StoredArray& array, const IntegerBounds& bounds,
                   const std::function<std::string(std::int64_t value)>& place, Sha256* hash) {
  constexpr std::int64_t kAtOnce = 1 << 16;
  std::vector<std::int64_t> values;
  std::vector<std::int32_t> words;
  const std::int64_t count = array.count();
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
      words[i] = static_cast<std::int32_t>(value);
    }
    hash->Add(words.data(), words.size() * sizeof(words[0]));
  }
}

}  // namespace acan
