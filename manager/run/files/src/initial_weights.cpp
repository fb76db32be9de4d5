#include "acan/manager/initial_weights.h"

#include <fmt/format.h>

#include <filesystem>

#include "acan/core/error.h"
#include "acan/manager/model_file.h"

namespace acan {
namespace {

std::string HashOf(const Job& job) {
  try {
    return ModelReader(job.initial_weights, *BuildModel(job)).WeightsSha256();
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("model.initial_weights: {}", error.what()));
  }
}

}  // namespace

void HoldToInitialWeights(Job* job) {
  if (job->initial_weights.empty()) return;
  std::error_code ignored;
  const bool has_begun = !job->initial_weights_sha256.empty();
  if (has_begun && !std::filesystem::exists(job->initial_weights, ignored)) return;
  const std::string found = HashOf(*job);
  if (has_begun && found != job->initial_weights_sha256) {
    throw UsageError(fmt::format(
        "model.initial_weights: {}: the file has changed: the SHA-256 of its weights is "
        "{}, but the job says {}",
        job->initial_weights, found, job->initial_weights_sha256));
  }
  job->initial_weights_sha256 = found;
}

}  // namespace acan
