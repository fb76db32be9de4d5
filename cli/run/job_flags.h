// Flags that several commands share: the job with its overrides, and the handlers of a local run.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "acan/manager/job.h"
#include "flags.h"
#include "local_cluster.h"
#include "setting.h"

namespace acan::cli {

struct JobFlags {
  std::string path;
  std::vector<std::string> set;
};
// The job file and --set.
void AddJobFlags(Command& app, JobFlags& flags, bool required = true);
// --set alone, for a command whose job file has a flag of its own.
void AddOverrides(Command& app, JobFlags& flags);
// --audit-log.
void AddAuditLog(Command& app, std::string& path);
// --stop-within, by default kStopWithinS.
inline constexpr double kStopWithinS = 10;
struct StopFlag {
  double within_s = kStopWithinS;
  std::chrono::milliseconds within() const {
    return std::chrono::milliseconds(static_cast<std::int64_t>(within_s * 1e3));
  }
};
void AddStopWithin(Command& app, StopFlag& flag);
// For a job that must stay unchanged; `kept` gives the reason as the second half of a sentence.
// Throws Error (usage) if --set or ACAN_SET would change the job.
void RequireNoOverrides(const JobFlags& flags, const std::string& kept);
// Advice for a run in `folder` that cannot be resumed from the job that it keeps there.
std::string HowToNameJob(const std::string& folder);
// Called for a job whose run needs its initial weights. If the file that it names does not exist,
// throws Error (usage), which ends with `how`: what to do if the job's files were moved.
void RequireInitialWeightsFile(const Job& job, const std::string& how);
// The job of the run in `folder` (its --out). Throws Error (usage).
Job ReadKeptJob(const std::string& folder, const JobFlags& flags);
// Reads the job. Flags override ACAN_SET ("key=value;key=value"), which overrides the file.
Job ReadJob(const JobFlags& flags);

struct ClusterFlags {
  Setting handlers;
  Setting memory;
  Setting transport;
};
// --handlers (its help says `handlers_by_default`), --memory, --transport.
void AddClusterFlags(
    Command& app, ClusterFlags& flags,
    const std::string& handlers_by_default = "auto, every GPU and a cpu:1 for each core");
// With defaults filled in: every GPU and a cpu:1 for each core; an equal share of half of the free
// memory, and nine tenths of each GPU's memory.
LocalClusterOptions ParseCluster(const ClusterFlags& flags);

// The default folder for the outputs of a job at `path`: "out/mnist" for "jobs/mnist.toml". Throws
// Error (usage) if the file's name has no part that can be the folder's name.
std::string DefaultOutDir(const std::string& path);

}  // namespace acan::cli
