// A job for tests of initial weights.
#pragma once

#include <string>

#include "acan/manager/job.h"

namespace acan {

inline Job JobFrom(const std::string& weights) {
  Job job;
  job.model = Perceptron{{2, 3}};
  job.initial_weights = weights;
  job.data.train_inputs = "/inputs";
  job.data.train_targets = "/labels";
  return job;
}

}  // namespace acan
