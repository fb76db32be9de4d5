// A run of a job with its own broker and handlers, and the reports of any run.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "acan/manager/job.h"
#include "acan/manager/receipt.h"
#include "acan/manager/sample_set.h"
#include "local_cluster.h"
#include "log.h"
#include "stop_signals.h"
#include "watchdog.h"

namespace acan::cli {

struct LocalRun {
  LocalClusterOptions cluster;
  std::string out_dir;                       // empty: nothing is written
  std::string source;                        // the job's source, for messages
  bool resume = false;                       // from what an earlier run has left in out_dir
  std::string audit_log = {};                // as ManagerOptions::audit_log
  std::chrono::milliseconds stop_within{0};  // the time to write a snapshot after a first signal
  bool* can_resume = nullptr;  // if not null: set if a stopped run left what --resume needs
};

// Runs the job; progress goes to `log`. nullopt if a signal stopped it (see signals.received()).
// When it returns or throws, its processes and its temporary folder are gone. Throws Error.
std::optional<Receipt> RunLocally(const LocalRun& run, const Job& job, Data data, Log& log,
                                  StopSignals& signals);

// Reports a manager that makes no progress (ManagerOptions::alive). `log` must outlive it.
Watchdog::Options OfManager(Log& log);

// Reports that reading the files of a job takes long. `log` must outlive it.
Watchdog::Options OfReading(Log& log);
inline constexpr const char* kReadingText =
    "it is reading files, or a disk or file server does not respond";

// Logs the resolved job, the sizes of its data, and anything unusual about their combination.
void LogJob(const Job& job, const Data& data, Log& log);
// Whether this command has written the outputs, or found those of a finished run.
enum class Outputs : std::uint8_t { kWritten, kFound };
// "audits: 40 passed, 2 skipped (...)"; empty if there were none.
std::string AuditsText(const AuditSummary& audits);
// A few lines for people: accuracy, time, speed, audits, hash, and the written files.
std::string SummaryText(const Receipt& receipt, const std::string& out_dir, Outputs outputs);
// The final report of a command that trains: the summary, and with `json` the receipt. Returns the
// exit code. Throws Error (failure) if the run ended early because it diverged; the message says
// where, what it kept, and what to try.
int ReportRun(const Receipt& receipt, const std::string& out_dir, bool json,
              Outputs outputs = Outputs::kWritten);
// Throws Error (usage) if the finished run in `out_dir` ended early because it diverged, but `job`
// is to go on (train.stop_if_not_finite): nothing continues such a run.
void RequireItsEnd(const Receipt& receipt, const Job& job, const std::string& out_dir);
// Throws Error (failure) if the finished run in `out_dir` does not have a whole file of the weights
// that it wrote: its snapshots are gone, so nothing can write the file again but a new training.
// Does not compare the weights with the receipt, as `acan verify` does.
void RequireItsWeights(const Receipt& receipt, const std::string& out_dir);
// "test accuracy 88.12 %, test loss 0.3412".
std::string TestText(const Receipt& receipt);

}  // namespace acan::cli
