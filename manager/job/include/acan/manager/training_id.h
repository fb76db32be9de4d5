// The id of a training: two jobs have the same one if they come to the same weights.
#pragma once

#include <string>

#include "acan/manager/job.h"

namespace acan {

// Sixteen hex digits: a hash over all that decides the bits of a training (the job without its task
// sizes and snapshots, the data by their hashes, SampleSet::sha256, and the weights that it begins
// with by theirs, where HoldToInitialWeights has set it), and over nothing else.
std::string TrainingId(const Job& job, const std::string& train_sha256,
                       const std::string& test_sha256);

}  // namespace acan
