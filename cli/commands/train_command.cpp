// acan train: trains a job on this machine with one command.
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "acan/core/error.h"
#include "acan/manager/finished_run.h"
#include "acan/manager/initial_weights.h"
#include "acan/manager/load_data.h"
#include "acan/manager/manager.h"
#include "acan/manager/output_names.h"
#include "acan/manager/overwritten_inputs.h"
#include "acan/manager/replaced_run.h"
#include "acan/manager/training_id.h"
#include "command.h"
#include "fmt/format.h"
#include "job_flags.h"
#include "local_run.h"
#include "nlohmann/json.hpp"
#include "out_folder.h"
#include "process_setup.h"
#include "watchdog.h"

namespace acan::cli {
namespace {

struct TrainFlags {
  JobFlags job;
  ClusterFlags cluster;
  Setting out;
  std::string resume;
  std::string audit_log;
  StopFlag stop;
  Setting log_format;
  bool json = false;
};

constexpr const char* kTrainExample = R"(
Starts a broker and the handlers as its own processes, watches them, and ends them when the job is
done or a signal comes (Ctrl-C: exit code 130). Writes model.safetensors, metrics.jsonl and
receipt.json and, while it runs, snapshots, from which --resume continues after any process was
killed. After a first signal it writes a snapshot of the last finished step before it ends (see
--stop-within); after a second one it ends at once. Flags override ACAN_* variables, which override
the job file, which overrides the defaults. A loss or weights that are not finite end the run with
exit code 1; the last good weights stay in the folder snapshots (see train.stop_if_not_finite in
docs/jobs.md).

Examples:
  acan train examples/regression.toml
  acan train examples/fashion-mnist.toml --handlers 4xcpu:1@512KiB --out out/mnist
  acan train --resume out/mnist
  acan train job.toml --set train.epochs=3 --set train.seed=7 --handlers cpu:1,cpu:2 --memory 64MiB
  acan train job.toml --json | tail -n 1 | jq .weights_sha256)";

// --resume of a finished run: with the same training there is nothing left to do.
int ReportDone(const TrainFlags& flags, Log& log) {
  const std::string path = (std::filesystem::path(flags.resume) / kReceiptName).string();
  if (flags.job.path.empty()) {
    RequireNoOverrides(flags.job, "the run in " + flags.resume + " is done");
  } else {
    Job job = ReadJob(flags.job);
    HoldToInitialWeights(&job, JobOrigin::kUser, flags.resume);
    const Data data = LoadData(job, flags.resume);
    RequireNoOtherFinishedRun(flags.resume, job,
                              TrainingId(job, data.train_sha256(), data.test_sha256()));
    RequireItsEnd(ReadReceipt(path), job, flags.resume);
  }
  const Receipt receipt = ReadReceipt(path);
  RequireItsWeights(receipt, flags.resume);
  log.Info(fmt::format("the run in {} is done already", flags.resume));
  return ReportRun(receipt, flags.resume, flags.json, Outputs::kFound);
}

// Loads the data of the job that a run keeps in its folder. They may be elsewhere now.
Data LoadKeptData(const Job& job, const std::string& folder) {
  try {
    return LoadData(job, folder);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kUsage) throw;
    throw UsageError(fmt::format("{}; if the job's files are elsewhere now: {}", error.what(),
                                 HowToNameJob(folder)));
  }
}

// A folder that cannot be read may have some: the run itself reports it.
bool HasSnapshots(const std::string& out_dir) {
  std::error_code error;
  if (NewestSnapshot(out_dir, error) >= 0) return true;
  return error && error != std::errc::no_such_file_or_directory;
}

// The job of a run does without its initial weights if there are snapshots: the file may be gone,
// or another one by now. If no snapshot can be used, the run itself checks the file.
void HoldKeptJob(Job* job, const std::string& out_dir) {
  const bool has_snapshots = HasSnapshots(out_dir);
  if (has_snapshots && !job->initial_weights_sha256.empty()) return;
  if (!has_snapshots) RequireInitialWeightsFile(*job, HowToNameJob(out_dir));
  HoldToInitialWeights(job, JobOrigin::kRun);
}

// What a user should know of a run that was stopped. Its broker has ended, so only snapshots are
// left.
std::string StoppedTrainText(bool can_resume, const std::string& out_dir,
                             const std::string& resume_command) {
  if (!can_resume) return "stopped before the first step: no file was written or replaced";
  if (HasSnapshots(out_dir)) return "stopped; to continue: " + resume_command;
  return "stopped; there is no snapshot, so this begins anew: " + resume_command;
}

int RunTrain(const TrainFlags& flags) {
  RequireLimits("acan train");
  StopSignals signals(StopSignals::Mode::kAll);
  Log log(ParseLogFormat(flags.log_format), "train");
  const LocalClusterOptions cluster = ParseCluster(flags.cluster);
  const bool resume = !flags.resume.empty();
  if (resume && flags.out.set() && flags.out.value != flags.resume) {
    throw UsageError(fmt::format("--resume {} continues in that folder: leave out {} {}",
                                 flags.resume, flags.out.origin, flags.out.value));
  }
  if (!resume && flags.job.path.empty()) {
    throw UsageError(
        "no job was given: name a job file (see examples/), or a folder with --resume");
  }
  if (resume && std::filesystem::exists(std::filesystem::path(flags.resume) / kReceiptName)) {
    return ReportDone(flags, log);
  }
  const bool is_kept = flags.job.path.empty();
  Job job = is_kept ? ReadKeptJob(flags.resume, flags.job) : ReadJob(flags.job);
  const std::string out_dir = resume            ? flags.resume
                              : flags.out.set() ? flags.out.value
                                                : DefaultOutDir(flags.job.path);
  CheckFolderIsFree(out_dir);
  std::optional<Watchdog> reading(std::in_place, OfReading(log));
  if (is_kept) {
    HoldKeptJob(&job, out_dir);
  } else {
    HoldToInitialWeights(&job, JobOrigin::kUser, flags.resume);
  }
  RequireOtherInputs(job, out_dir);
  RequireOtherAuditLog(flags.audit_log, out_dir);
  Data data = is_kept ? LoadKeptData(job, out_dir) : LoadData(job, resume ? out_dir : "");
  reading.reset();
  LogJob(job, data, log);
  const std::string resume_command = fmt::format("acan train --resume {}", out_dir);
  if (!resume) WarnOfReplacedRun(out_dir, job, data, resume_command, log);
  const EmptyFolders empty_folders(out_dir);
  const std::string source = is_kept ? flags.resume : flags.job.path;
  bool can_resume = resume;
  const auto receipt = RunLocally(
      {cluster, out_dir, source, resume, flags.audit_log, flags.stop.within(), &can_resume}, job,
      std::move(data), log, signals);
  if (!receipt) {
    log.Info(StoppedTrainText(can_resume, out_dir, resume_command));
    return 128 + signals.received();
  }
  return ReportRun(*receipt, out_dir, flags.json);
}

}  // namespace

void AddTrain(Command& app, Chosen& chosen) {
  const auto flags = std::make_shared<TrainFlags>();
  Command command =
      app.AddCommand("train", "Train a job on this machine, with its own broker and handlers");
  AddJobFlags(command, flags->job, /*required=*/false);
  AddClusterFlags(command, flags->cluster);
  AddSetting(command, flags->out, "--out", "ACAN_OUT",
             "the folder for model.safetensors, metrics.jsonl and receipt.json (default: out/NAME "
             "for NAME.toml)")
      .TypeName("DIR");
  command
      .AddOption("--resume", flags->resume,
                 "continues the run in DIR from its last snapshot; JOB.toml must be the same job, "
                 "or may be left out")
      .TypeName("DIR");
  AddAuditLog(command, flags->audit_log);
  AddStopWithin(command, flags->stop);
  command.AddFlag("--json", flags->json, "the last line on stdout is the receipt as JSON");
  AddLogFormat(command, flags->log_format);
  command.Footer(kTrainExample);
  command.OnParsed([flags, &chosen] { chosen.run = [flags] { return RunTrain(*flags); }; });
}

}  // namespace acan::cli
