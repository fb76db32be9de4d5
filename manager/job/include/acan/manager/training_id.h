// The id of a training: two jobs with the same id train the same weights.
#pragma once

#include <cstdint>
#include <string>

#include "acan/core/task.h"  // kNumericsRevision
#include "acan/manager/job.h"
#include "acan/manager/receipt.h"
#include "nlohmann/json_fwd.hpp"

namespace acan {

// Sixteen hex digits: a hash over exactly what decides the bits of a training. That is the job
// without its task sizes and snapshots, the data by their hashes (SampleSet::sha256), the initial
// weights by their hash, if HoldToInitialWeights has set it, and the revision of the numerics.
std::string TrainingId(const Job& job, const std::string& train_sha256,
                       const std::string& test_sha256,
                       std::uint32_t numerics_revision = kNumericsRevision);

// The id of the training that `receipt` is of. `job` is the receipt's job, whose files may have
// been moved.
std::string TrainingIdOf(const Receipt& receipt, const Job& job);

// The same for a job as JobToJson gives it, without opening any of its files. Empty if it is no
// such job.
std::string TrainingIdOf(nlohmann::json fields, const std::string& train_sha256,
                         const std::string& test_sha256,
                         std::uint32_t numerics_revision = kNumericsRevision);

// The first field that gives `job` another id than `expected`, with both values, as in
// "train.seed is 8, must be 7". Empty if there is none; then only their data can differ.
std::string FirstDifference(const Job& job, const Job& expected);

}  // namespace acan
