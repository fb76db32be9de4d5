// A run of a job with a broker and handlers of its own, and what is said of any run.
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
  std::string source;                        // where the job came from, for messages
  bool resume = false;                       // from what an earlier run left in out_dir
  std::string audit_log = {};                // as ManagerOptions::audit_log
  std::chrono::milliseconds stop_within{0};  // after a first signal, to write a snapshot
  bool* can_resume = nullptr;  // if not null: set if a stopped run left what --resume needs
};

// Runs the job; progress goes to `log`. nullopt: stopped by a signal (see signals.received()). When
// it returns or throws, its processes and its temporary folder are gone. Throws Error.
std::optional<Receipt> RunLocally(const LocalRun& run, const Job& job, Data data, Log& log,
                                  StopSignals& signals);

// Says when a manager does not come round any more (ManagerOptions::alive). `log` must outlive it.
Watchdog::Options OfManager(Log& log);

// Logs the resolved job and the sizes of its data, and what is odd about the two together.
void LogJob(const Job& job, const Data& data, Log& log);
// Whether this command has written the outputs, or found those of a run that was done.
enum class Outputs : std::uint8_t { kWritten, kFound };
// Some lines for people: accuracy, time, speed, hash, the files that were written.
std::string SummaryText(const Receipt& receipt, const std::string& out_dir, Outputs outputs);
// What a command that trains says in the end: the summary, and with `json` the receipt. Returns the
// exit code. Throws Error (failure) if the run ended early because it diverged: where, what it
// kept, what to try.
int ReportRun(const Receipt& receipt, const std::string& out_dir, bool json,
              Outputs outputs = Outputs::kWritten);
// "test accuracy 88.12 %, test loss 0.3412".
std::string TestText(const Receipt& receipt);

}  // namespace acan::cli
