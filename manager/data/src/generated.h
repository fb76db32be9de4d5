// Samples without files.
#pragma once

#include <cstdint>

#include "acan/manager/dataset.h"

namespace acan {

struct GeneratedValues {
  SampleValues train, test;
};

// `samples` training samples and max(1, samples / 10) for testing: inputs uniform in [-1, 1),
// targets a fixed random network with one hidden layer of 16 x / (1 + |x|), all from the seed. Only
// +, *, / and sqrt of IEEE floats, one operation at a time: the same bits on every machine.
// REQUIRES: all sizes > 0. Throws Error (usage) beyond kMaxDataBytes.
GeneratedValues GenerateRegression(std::int64_t samples, std::int64_t inputs, std::int64_t outputs,
                                   std::uint64_t seed);

}  // namespace acan
