// Reads files whose samples are rows of numbers, each with a label or targets.
#pragma once

#include <cstdint>
#include <string>

#include "acan/manager/dataset.h"

namespace acan {

// What a multi-layer perceptron expects of its samples.
struct WantedValues {
  std::int64_t inputs;
  std::int64_t outputs;
  bool labels;
};

// `targets` is empty if only inputs are wanted. Throws Error (usage) as LoadData does.
SampleValues ReadValueFiles(const std::string& inputs, const std::string& targets,
                            const WantedValues& wanted);

}  // namespace acan
