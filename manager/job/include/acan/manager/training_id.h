// The id of a training: two jobs with the same id train the same weights.
#pragma once

#include <string>

#include "acan/manager/job.h"

namespace acan {

// Sixteen hex digits: a hash over exactly what decides the bits of a training. That is the job
// without its task sizes and snapshots, the data by their hashes (SampleSet::sha256), and the
// initial weights by their hash, if HoldToInitialWeights has set it.
std::string TrainingId(const Job& job, const std::string& train_sha256,
                       const std::string& test_sha256);

}  // namespace acan
