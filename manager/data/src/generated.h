// Generated samples, for jobs without files.
#pragma once

#include <cstdint>

#include "acan/manager/dataset.h"

namespace acan {

struct GeneratedValues {
  SampleValues train, test;
};

// `samples` training samples and max(1, samples / 10) test samples. Inputs are uniform in [-1, 1);
// targets come from a fixed random network with one hidden layer of 16 units x / (1 + |x|); all are
// drawn from the seed. The computation uses only +, *, / and sqrt of IEEE floats, one operation at
// a time, so every machine gets the same bits.
// REQUIRES: all sizes > 0. Throws Error (usage) beyond kMaxDataBytes.
GeneratedValues GenerateRegression(std::int64_t samples, std::int64_t inputs, std::int64_t outputs,
                                   std::uint64_t seed);

}  // namespace acan
