// The file with the initial weights of a training.
#pragma once

#include <functional>
#include <string>

#include "acan/manager/job.h"
#include "acan/manager/model_file.h"

namespace acan {

// Reads the file and sets job->initial_weights_sha256; does nothing for a job without such a file.
// Throws if the file cannot be read, and UsageError if a config.json beside it describes another
// model (RequireConfigOf), or if the job already has a different hash: then a run with other
// weights has begun. Such a run continues without the file if the file no longer
// exists.
void HoldToInitialWeights(Job* job);

// Throws UsageError if the weights of `file` are not those of the job's hash: the file has been
// replaced since. `go_on`: as for ModelReader::WeightsSha256.
void RequireWeightsOf(const Job& job, const ModelReader& file,
                      const std::function<void()>& go_on = {});

// "w.safetensors: tensor 'a' has the value nan" if the file has a value that is not finite. Empty
// if all values are finite, or if the file does not exist (any more).
std::string NotFiniteInitialWeight(const Job& job);

}  // namespace acan
