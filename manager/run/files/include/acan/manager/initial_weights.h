// The file of weights that a training begins with.
#pragma once

#include <string>

#include "acan/manager/job.h"

namespace acan {

// Sets job->initial_weights_sha256 by reading the file; does nothing for a job that has none.
// Throws if it cannot be read, and UsageError if the job has another hash: it is that of a run that
// has begun, with other weights. Such a run goes on without the file, if the file is no longer
// there.
void HoldToInitialWeights(Job* job);

// "w.safetensors: tensor 'a' has the value nan", if the file has a value that is not finite. Empty
// if it has none, and if there is no file (any more).
std::string NotFiniteInitialWeight(const Job& job);

}  // namespace acan
