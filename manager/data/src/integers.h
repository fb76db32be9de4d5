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
  std::optional<std::int64_t> also = {};  // a value that is right, too
  std::string reason;                     // "the model has 10 classes"
};

// Looks at every value, and adds them to `hash` as int32: the same values have the same hash,
// whatever the type of the file. `place`: of a value, in words. Throws Error (usage) that names the
// file, the first value that is out of bounds, and its place. Returns how many are `also`.
std::int64_t CheckIntegers(const StoredArray& array, const IntegerBounds& bounds,
                           const std::function<std::string(std::int64_t value)>& place,
                           Sha256* hash);

// CheckIntegers of labels. Throws also if none of them is a class. Afterwards `input` says whether
// some are none.
void CheckLabels(const StoredArray& array,
                 const std::function<std::string(std::int64_t value)>& place, Sha256* hash,
                 WantedInput* input);
// What files have in place of a label that is none becomes that label.
void ReplaceIgnored(const WantedInput& input, std::span<std::uint32_t> labels);

}  // namespace acan
