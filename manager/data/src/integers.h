// Tokens, labels and lengths: integers with a bound.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

#include "acan/manager/sample_set.h"
#include "acan/manager/sha256.h"
#include "acan/manager/stored_array.h"

namespace acan {

struct IntegerBounds {
  std::int64_t least = 0;
  std::int64_t most = 0;
  std::optional<std::int64_t> also = {};  // one more valid value
  std::string reason;                     // "the model has 10 classes"
};

// Checks every value, and adds the values to `hash` as int32, so the hash does not depend on the
// file's type. `place` describes a value's position in words. Throws Error (usage) that names the
// file, the first value that is out of bounds, and its place. Returns how many values equal `also`.
std::int64_t CheckIntegers(const StoredArray& array, const IntegerBounds& bounds,
                           const std::function<std::string(std::int64_t value)>& place,
                           Sha256* hash);

// CheckIntegers for labels. Also throws if no label is a class. Afterwards input->ignored_label is
// set only if some labels are not a class.
void CheckLabels(const StoredArray& array,
                 const std::function<std::string(std::int64_t value)>& place, Sha256* hash,
                 WantedInput* input);
// Replaces the files' ignored value by the label that the loss ignores.
void ReplaceIgnored(const WantedInput& input, std::span<std::uint32_t> labels);

}  // namespace acan
