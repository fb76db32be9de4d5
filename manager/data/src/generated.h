// Samples without files.
#pragma once

#include <cstdint>

#include "acan/manager/dataset.h"

namespace acan {

// Counters of Philox under the job's seed, by use: the initial weights count from (element,
// tensor), tensor below 2^32. `use` keeps the manager's own draws apart from them and from each
// other.
enum class RandomUse : std::uint64_t { kEpochOrder = 1, kSampleInputs = 2, kTeacher = 3 };
inline std::uint64_t RandomStream(RandomUse use, std::uint64_t number) {
  return static_cast<std::uint64_t>(use) << 61 | number;
}

// `samples` training samples and max(1, samples / 10) for testing: inputs uniform in [-1, 1),
// targets a fixed random network with one hidden layer of 16 x / (1 + |x|), all from the seed. Only
// +, *, / and sqrt of IEEE floats, one operation at a time: the same bits on every machine.
// REQUIRES: all sizes > 0. Throws Error (usage) beyond kMaxDataBytes.
Data GenerateRegression(std::int64_t samples, std::int64_t inputs, std::int64_t outputs,
                        std::uint64_t seed);

}  // namespace acan
