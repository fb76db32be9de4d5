#include "acan/manager/initial_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <vector>

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

std::string NotFiniteInitialWeight(const Job& job) {
  std::error_code ignored;
  if (!std::filesystem::exists(job.initial_weights, ignored)) return "";
  const ModelReader reader(job.initial_weights, *BuildModel(job));
  std::vector<float> values;
  for (std::size_t index = 0; index < reader.Tensors().size(); ++index) {
    const TensorInfo& tensor = reader.Tensors()[index];
    if (tensor.matrix.state != ParameterState::kValue) continue;
    values.resize(static_cast<std::size_t>(tensor.cols));
    for (std::int64_t row = 0; row < tensor.rows; ++row) {
      reader.Read(index, row, 0, 1, tensor.cols, values);
      const auto found =
          std::ranges::find_if_not(values, [](float value) { return std::isfinite(value); });
      if (found == values.end()) continue;
      return fmt::format("{}: tensor '{}' has the value {}", job.initial_weights, tensor.name,
                         *found);
    }
  }
  return "";
}

}  // namespace acan
