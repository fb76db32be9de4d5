#include "acan/manager/replaced_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>

#include "acan/manager/finished_run.h"
#include "acan/manager/output_names.h"
#include "acan/manager/snapshot.h"
#include "acan/manager/training_id.h"

namespace acan {
namespace {

namespace fs = std::filesystem;

// A run that cannot be read counts as one of another job.
bool IsFinishedRunOf(const std::string& folder, const std::string& job_id) {
  try {
    const FinishedRun run = ReadFinishedRun(folder);
    return TrainingIdOf(run.receipt, run.job) == job_id;
  } catch (const std::exception&) {
    return false;
  }
}

// The newest one stands for all of them.
bool HasSnapshotsOfOthers(const std::string& folder, const std::string& job_id) {
  std::error_code ignored;
  const std::int64_t newest = NewestSnapshot(folder, ignored);
  if (newest < 0) return false;
  const std::string id = TrainingIdOfSnapshot((fs::path(folder) / SnapshotName(newest)).string());
  return !id.empty() && id != job_id;
}

}  // namespace

std::int64_t NewestSnapshot(const std::string& folder, std::error_code& error) {
  constexpr std::size_t kPrefixLength = 5;  // "step-"
  std::int64_t newest = -1;
  fs::directory_iterator at(fs::path(folder) / kSnapshotsName, error);
  for (const fs::directory_iterator end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (name.size() <= kPrefixLength) continue;
    const std::int64_t version = std::strtoll(name.c_str() + kPrefixLength, nullptr, 10);
    if (name == SnapshotFileName(version)) newest = std::max(newest, version);
  }
  return newest;
}

std::string ReplacedRunText(const std::string& folder, const std::string& job_id,
                            const std::string& resume) {
  std::error_code ignored;
  if (fs::exists(fs::path(folder) / kReceiptName, ignored)) {
    if (IsFinishedRunOf(folder, job_id)) return "";
    return fmt::format("{} has a finished run of another job, which this run replaces", folder);
  }
  const std::int64_t newest = NewestSnapshot(folder, ignored);
  if (newest < 0) return "";
  return fmt::format(
      "{} has snapshots of an unfinished run up to step {}; this run begins anew and removes them "
      "(to continue it: {})",
      folder, newest, resume);
}

std::string OthersRunText(const std::string& folder, const std::string& job_id) {
  std::error_code ignored;
  const bool finished = fs::exists(fs::path(folder) / kReceiptName, ignored);
  const bool others =
      finished ? !IsFinishedRunOf(folder, job_id) : HasSnapshotsOfOthers(folder, job_id);
  if (!others) return "";
  return fmt::format(
      "{} has {} of another job, which this manager replaces when it takes over: to keep {}, "
      "choose another --out",
      folder, finished ? "a finished run" : "snapshots", finished ? "it" : "them");
}

}  // namespace acan
