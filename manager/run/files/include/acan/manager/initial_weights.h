// The file with the initial weights of a training.
#pragma once

#include <functional>
#include <string>

#include "acan/manager/job.h"
#include "acan/manager/model_file.h"

namespace acan {

// Where a job was read: in a user's file, or in the output folder of a run that has begun.
enum class JobOrigin { kUser, kRun };

// Reads the file and sets job->initial_weights_sha256; does nothing for a job without such a file.
// Throws if the file cannot be read, and UsageError if the job already has a different hash. A job
// with a hash does without the file if it no longer exists: its run may have begun. If the job
// continues the run in `run_folder`, and the file no longer exists, the hash is that of the run's
// job.json, and if that cannot be read now, Unreadable is thrown. The job of a user must also have
// the model of the files beside the weights (RequireModelOfWeights); those of a run that has begun
// may have changed since.
void HoldToInitialWeights(Job* job, JobOrigin origin, const std::string& run_folder = "");

// Whether the job.json in `folder` is that of a run that began from weights with this hash. The
// folder may have another run. False for an empty hash, and if there is no such file or it is no
// job. Throws Unreadable.
bool BeganFromWeights(const std::string& weights_sha256, const std::string& folder);

// Throws UsageError if the weights of `file` are not those of the job's hash: the file has been
// replaced since. `go_on`: as for ModelReader::WeightsSha256.
void RequireWeightsOf(const Job& job, const ModelReader& file,
                      const std::function<void()>& go_on = {});

// "w.safetensors: tensor 'a' has the value nan" if the file has a value that is not finite. Empty
// if all values are finite, or if the file does not exist (any more).
std::string NotFiniteInitialWeight(const Job& job);

}  // namespace acan
