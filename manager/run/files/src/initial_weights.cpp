#include "acan/manager/initial_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/manager/json_depth.h"
#include "acan/manager/model_config.h"
#include "acan/manager/model_file.h"
#include "acan/manager/output_names.h"
#include "acan/manager/text_file.h"
#include "acan/manager/unreadable.h"
#include "nlohmann/json.hpp"

namespace acan {
namespace {

void RequireHash(const Job& job, const std::string& found) {
  if (found == job.initial_weights_sha256) return;
  throw UsageError(fmt::format(
      "model.initial_weights: {}: the file has changed: the SHA-256 of its weights is {}, but the "
      "job says {}",
      job.initial_weights, found, job.initial_weights_sha256));
}

std::string HashOf(const Job& job, JobOrigin origin) {
  try {
    // Weights with the same shapes may be those of another model.
    if (origin == JobOrigin::kUser) RequireModelOfWeights(job, job.initial_weights);
    return ModelReader(job.initial_weights, *BuildModel(job)).WeightsSha256();
  } catch (const Error& error) {
    throw Error(error.kind(), fmt::format("model.initial_weights: {}", error.what()));
  }
}

nlohmann::json::json_pointer HashOfWeights() {
  return nlohmann::json::json_pointer("/model/initial_weights_sha256");
}

// The job.json in `folder`; an empty object if there is none, or if it is no job of a run. Throws
// Unreadable: then nobody knows whether the folder has the run.
nlohmann::json KeptJob(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / kJobName).string();
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) return nlohmann::json::object();
  try {
    auto job = ParseJsonOrDiscard(ReadTextFile(path, kMaxJobBytes, "the job of a run"));
    if (!job.is_object() || IsDeeperThan(job, kMaxJsonDepth)) return nlohmann::json::object();
    return job;
  } catch (const Unreadable&) {
    throw;
  } catch (const Error&) {
    return nlohmann::json::object();
  }
}

// Only of a file with the same path: a user may name other weights.
void TakeHashOfRun(Job* job, const std::string& folder) {
  if (!job->initial_weights_sha256.empty()) return;
  const nlohmann::json kept = KeptJob(folder);
  const nlohmann::json::json_pointer path("/model/initial_weights");
  if (!kept.contains(path) || kept.at(path) != job->initial_weights) return;
  const nlohmann::json hash = kept.value(HashOfWeights(), nlohmann::json());
  if (hash.is_string()) job->initial_weights_sha256 = hash.get<std::string>();
}

// The first value of a tensor that is not finite. Reads what is contiguous in the file, in pieces:
// a row of a transposed tensor would take a read for each of its values.
std::optional<float> NotFiniteIn(const ModelReader& reader, std::size_t index) {
  constexpr std::int64_t kPieceValues = 1 << 18;
  const TensorInfo& tensor = reader.Tensors()[index];
  const bool by_columns = tensor.layout == model::FileLayout::kTransposed;
  const std::int64_t lines = by_columns ? tensor.cols : tensor.rows;
  const std::int64_t length = by_columns ? tensor.rows : tensor.cols;
  const std::int64_t together = std::max<std::int64_t>(1, kPieceValues / length);
  std::vector<float> values;
  for (std::int64_t first = 0; first < lines; first += together) {
    const std::int64_t count = std::min(together, lines - first);
    values.resize(static_cast<std::size_t>(count * length));
    if (by_columns) {
      reader.Read(index, 0, first, length, count, values);
    } else {
      reader.Read(index, first, 0, count, length, values);
    }
    const auto found =
        std::ranges::find_if_not(values, [](float value) { return std::isfinite(value); });
    if (found != values.end()) return *found;
  }
  return std::nullopt;
}

}  // namespace

void HoldToInitialWeights(Job* job, JobOrigin origin, const std::string& run_folder) {
  if (job->initial_weights.empty()) return;
  std::error_code ignored;
  const bool is_gone = !std::filesystem::exists(job->initial_weights, ignored);
  if (is_gone && !run_folder.empty()) TakeHashOfRun(job, run_folder);
  const bool has_hash = !job->initial_weights_sha256.empty();
  if (has_hash && is_gone) return;
  const std::string found = HashOf(*job, origin);
  if (has_hash) RequireHash(*job, found);
  job->initial_weights_sha256 = found;
}

bool BeganFromWeights(const std::string& weights_sha256, const std::string& folder) {
  if (weights_sha256.empty()) return false;
  const nlohmann::json job = KeptJob(folder);
  return job.contains(HashOfWeights()) && job.at(HashOfWeights()) == weights_sha256;
}

void RequireWeightsOf(const Job& job, const ModelReader& file, const std::function<void()>& go_on) {
  if (!job.initial_weights_sha256.empty()) RequireHash(job, file.WeightsSha256(go_on));
}

std::string NotFiniteInitialWeight(const Job& job) {
  std::error_code ignored;
  if (!std::filesystem::exists(job.initial_weights, ignored)) return "";
  const ModelReader reader(job.initial_weights, *BuildModel(job));
  for (std::size_t index = 0; index < reader.Tensors().size(); ++index) {
    const std::optional<float> found = NotFiniteIn(reader, index);
    if (!found) continue;
    return fmt::format("{}: tensor '{}' has the value {}", job.initial_weights,
                       reader.Tensors()[index].name, *found);
  }
  return "";
}

}  // namespace acan
