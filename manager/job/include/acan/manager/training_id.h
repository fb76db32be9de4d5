// The id of a training: two jobs with the same id train the same weights.
#pragma once

#include <string>

#include "acan/manager/job.h"
#include "nlohmann/json_fwd.hpp"

namespace acan {

// Sixteen hex digits: a hash over exactly what decides the bits of a training. That is the job
// without its task sizes and snapshots, the data by their hashes (SampleSet::sha256), and the
// initial weights by their hash, if HoldToInitialWeights has set it.
std::string TrainingId(const Job& job, const std::string& train_sha256,
                       const std::string& test_sha256);

// The same for a job as JobToJson gives it, without opening any of its files. Empty if it is no
// such job.
std::string TrainingIdOf(nlohmann::json fields, const std::string& train_sha256,
                         const std::string& test_sha256);

}  // namespace acan
