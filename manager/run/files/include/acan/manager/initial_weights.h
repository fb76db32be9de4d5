// The file with the initial weights of a training.
#pragma once

#include <string>

#include "acan/manager/job.h"

namespace acan {

// Reads the file and sets job->initial_weights_sha256; does nothing for a job without such a file.
// Throws if the file cannot be read, and UsageError if the job already has a different hash: then a
// run with other weights has begun. Such a run continues without the file if the file no longer
// exists.
void HoldToInitialWeights(Job* job);

// "w.safetensors: tensor 'a' has the value nan" if the file has a value that is not finite. Empty
// if all values are finite, or if the file does not exist (any more).
std::string NotFiniteInitialWeight(const Job& job);

}  // namespace acan
