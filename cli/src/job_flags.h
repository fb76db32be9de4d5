// What the commands that train or evaluate share: the job and its overrides, and a local run of it.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "acan/manager/dataset.h"
#include "acan/manager/job.h"
#include "acan/manager/receipt.h"
#include "device_list.h"
#include "local_cluster.h"
#include "log.h"
#include "setting.h"
#include "stop_signals.h"

namespace CLI {
class App;
}

namespace acan::cli {

struct JobFlags {
  std::string path;
  std::vector<std::string> set;
};
// The job file and --set.
void AddJobFlags(CLI::App& app, JobFlags& flags);
// Reads the job: the flags beat ACAN_SET ("key=value;key=value"), which beats the file.
Job ReadJob(const JobFlags& flags);

struct ClusterFlags {
  Setting handlers;
  Setting memory;
  Setting transport;
};
// --handlers, --memory, --transport.
void AddClusterFlags(CLI::App& app, ClusterFlags& flags);
// With defaults filled in: one cpu:1 for each core, half of the free memory shared out.
LocalClusterOptions ParseCluster(const ClusterFlags& flags);

// A folder for the outputs of a job at `path` when nobody named one: "out/mnist" for "jobs/mnist.toml".
std::string DefaultOutDir(const std::string& path);

struct LocalRun {
  LocalClusterOptions cluster;
  std::string out_dir;  // empty: nothing is written
  std::string source;   // where the job came from, for messages
};
// Runs a job with a broker and handlers of its own; progress goes to `log`. nullopt: stopped by a
// signal (see signals.received()). Throws Error.
std::optional<Receipt> RunLocally(LocalRun run, const Job& job, Data data, Log& log,
                                  StopSignals& signals);

// A few lines for people: accuracy, time, speed, hash, files.
std::string SummaryText(const Receipt& receipt, const std::string& out_dir);

}  // namespace acan::cli
