#include "acan/manager/finished_run.h"

#include <fmt/format.h>

#include <filesystem>

#include "acan/core/error.h"
#include "acan/manager/output_names.h"
#include "acan/manager/training_id.h"
#include "nlohmann/json.hpp"

namespace acan {
namespace {

std::string PathIn(const std::string& folder, const std::string& name) {
  return (std::filesystem::path(folder) / name).string();
}

}  // namespace

std::string ReceiptPathIn(const std::string& folder) {
  std::error_code error;
  std::string path = PathIn(folder, kReceiptName);
  // Whether it is there may be unknown: then opening it says why.
  if (std::filesystem::exists(path, error) || error) return path;
  const bool began = std::filesystem::exists(PathIn(folder, kJobName), error);
  throw UsageError(fmt::format("{}: has no {}; {}", folder, kReceiptName,
                               began ? "its run is not done yet: acan train --resume continues it"
                                     : "name the output folder (--out) of a run that is done"));
}

FinishedRun ReadFinishedRun(const std::string& folder) {
  std::error_code ignored;
  const std::string path = ReceiptPathIn(folder);
  FinishedRun run;
  run.folder = folder;
  nlohmann::json receipt = ReadReceiptJson(path);
  // The folder has a copy of the graph file, so it may be moved to where the original is not.
  const nlohmann::json::json_pointer file("/job/model/file");
  const std::string copy = PathIn(folder, kGraphName);
  if (std::filesystem::exists(copy, ignored) && receipt.contains(file)) receipt[file] = copy;
  run.receipt = ReceiptFromJson(receipt, path);
  run.job = JobFromJson(run.receipt.job, path);
  const bool ended_early = run.receipt.not_finite && run.receipt.not_finite->kept_version;
  run.model_path = PathIn(
      folder, ended_early ? SnapshotName(*run.receipt.not_finite->kept_version) : kModelName);
  run.model = BuildModel(run.job);
  return run;
}

std::unique_ptr<ModelReader> FinishedRun::OpenWeights() const {
  auto reader = std::make_unique<ModelReader>(model_path, *model);
  const std::string found = reader->WeightsSha256();
  if (found != receipt.weights_sha256) {
    throw FailureError(
        fmt::format("{}: its weights_sha256 is {}, but {} says {}: one of them was changed after "
                    "the run",
                    model_path, found, PathIn(folder, kReceiptName), receipt.weights_sha256));
  }
  return reader;
}

void RequireNoOtherFinishedRun(const std::string& folder, const Job& job,
                               const std::string& job_id) {
  std::error_code error;
  if (!std::filesystem::exists(PathIn(folder, kReceiptName), error) && !error) return;
  const FinishedRun run = ReadFinishedRun(folder);
  const std::string its_id = TrainingIdOf(run.receipt, run.job);
  if (its_id == job_id) return;
  std::string why = FirstDifference(job, run.job);
  if (run.receipt.numerics_revision != kNumericsRevision) {
    why += (why.empty() ? "" : ", ") + std::string("with another revision of the numerics");
  }
  if (why.empty()) why = "with other data";
  throw UsageError(fmt::format(
      "the run in {} is done, and it trained another job ({}): its id is {}, this job's is {}. "
      "--resume cannot extend or change a finished run; a new run can start from "
      "its weights, with model.initial_weights = \"{}\" and another --out",
      folder, why, its_id, job_id, run.model_path));
}

}  // namespace acan
