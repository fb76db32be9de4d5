// acan verify: checks that a receipt, its model file and, if requested, a second training agree.
#include <algorithm>
#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "acan/core/error.h"
#include "acan/core/range.h"
#include "acan/core/task.h"
#include "acan/core/text/json_text.h"
#include "acan/core/text/one_line.h"
#include "acan/manager/audit_log.h"
#include "acan/manager/finished_run.h"
#include "acan/manager/initial_weights.h"
#include "acan/manager/load_data.h"
#include "acan/manager/logged_steps.h"
#include "acan/manager/model_file.h"
#include "acan/manager/output_names.h"
#include "acan/manager/receipt.h"
#include "acan/manager/snapshot.h"
#include "acan/manager/training_id.h"
#include "acan/manager/unreadable.h"
#include "command.h"
#include "fmt/format.h"
#include "job_flags.h"
#include "local_run.h"
#include "nlohmann/json.hpp"
#include "process_setup.h"
#include "standard_output.h"
#include "watchdog.h"

namespace acan::cli {
namespace {

struct VerifyFlags {
  std::string path;
  JobFlags job;  // --job; empty: the receipt's job
  ClusterFlags cluster;
  Setting log_format;
  bool rerun = false;
  std::string audit_log;
};

constexpr const char* kVerifyExample = R"(
Checks whether the receipt was changed after it was written (it contains its own hash), computes
weights_sha256 of the model file next to it, and compares. With --rerun it trains the job again, with
one handler unless --handlers says otherwise, and writes nothing: the weights must have the same
bits, and each field of the receipt that depends on the job alone (steps, losses, accuracy, data)
must have the same value. The exit code is 0 if everything is equal, and 1 if anything differs.

The receipt says where the data were. If they are elsewhere now, name a job file that says where
(--job). All else that decides the weights must be as in the receipt.

Examples:
  acan verify out/fashion-mnist
  acan verify out/fashion-mnist/receipt.json --rerun --handlers cpu:2
  acan verify copied/run --rerun --job job.toml)";

// The files may be of somebody else, who could forge further lines with a tensor's name.
void PrintFinding(const std::string& line) {
  PrintLine(OneLine(line));
}

// A difference is a result and not a user's mistake, so it goes to stdout.
class Verdict {
 public:
  void Check(bool equal, const std::string& what, const std::string& details) {
    PrintFinding((equal ? "equal      " : "DIFFERENT  ") + what +
                 (details.empty() ? "" : ": " + details));
    all_equal_ = all_equal_ && equal;
  }
  int exit_code() const { return all_equal_ ? 0 : 1; }

 private:
  bool all_equal_ = true;
};

std::string Comparison(const std::string& found, const std::string& expected) {
  return found == expected ? found : fmt::format("{}, the receipt says {}", found, expected);
}

std::string OrNone(const std::string& sha256) {
  return sha256.empty() ? "none" : sha256;
}

// The first tensor that is neither one of the model, under its own name, nor a step counter:
// initial weights may have such tensors, but no run writes them, and weights_sha256 does not cover
// them.
std::string NotOfTheRun(const SafetensorsFile& file, const ModelReader& reader,
                        const TrainedModel& model) {
  std::set<std::string> written(model.training.step_counters().begin(),
                                model.training.step_counters().end());
  for (const TensorInfo& tensor : reader.Tensors()) written.insert(tensor.name);
  const auto extra = std::ranges::find_if(
      file.tensors(), [&](const auto& tensor) { return !written.contains(tensor.first); });
  return extra == file.tensors().end() ? "" : extra->first;
}

void CheckModel(const std::string& path, const Receipt& receipt, const Job& job, bool snapshot,
                Verdict& verdict) {
  std::string sha256;
  try {
    const auto file = std::make_shared<const SafetensorsFile>(path);
    const std::shared_ptr<const TrainedModel> model = BuildModel(job);
    const ModelReader reader(
        file, *model, snapshot ? ModelReader::Take::kWithStates : ModelReader::Take::kWeights);
    const std::string extra = NotOfTheRun(*file, reader, *model);
    verdict.Check(extra.empty(), "tensors of " + path,
                  extra.empty() ? fmt::format("{}", reader.Tensors().size())
                                : fmt::format("no run writes '{}' for this job", extra));
    sha256 = reader.WeightsSha256();
  } catch (const Unreadable&) {
    throw;
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kUsage) throw;
    verdict.Check(false, "tensors of " + path, error.what());
    return;
  }
  verdict.Check(sha256 == receipt.weights_sha256, "weights_sha256 of " + path,
                Comparison(sha256, receipt.weights_sha256));
}

void CheckHash(const std::string& path, const nlohmann::json& json, Verdict& verdict) {
  const ReceiptHash hash = CheckReceiptHash(json);
  if (hash == ReceiptHash::kNone) {
    PrintFinding(
        fmt::format("unchecked  {}: an earlier version of acan wrote it without a hash", path));
    return;
  }
  const bool right = hash == ReceiptHash::kRight;
  verdict.Check(right, path, right ? "as it was written" : "was changed after it was written");
}

// In exact precision, these depend only on the job and its data; not on who computed them, how
// fast, or how often the run was restarted.
constexpr std::array kDecidedByTheJob = {"/weights_sha256",   "/steps",      "/epochs",
                                         "/test_accuracy",    "/test_loss",  "/test_perplexity",
                                         "/final_train_loss", "/not_finite", "/data/train_samples"};

void Compare(const Receipt& again, const Receipt& receipt, Verdict& verdict) {
  const nlohmann::json found = ReceiptToJson(again);
  const nlohmann::json expected = ReceiptToJson(receipt);
  const auto text = [](const nlohmann::json& value) {
    return value.is_string() ? value.get<std::string>() : JsonText(value);
  };
  for (const char* field : kDecidedByTheJob) {
    const nlohmann::json::json_pointer at(field);
    const std::string what = fmt::format("{} of the second training", field + 1);
    const nlohmann::json is = found.value(at, nlohmann::json());
    if (expected.contains(at)) {
      const nlohmann::json& said = expected.at(at);
      verdict.Check(is == said, what, Comparison(text(is), text(said)));
    } else if (found.contains(at)) {
      PrintFinding(
          fmt::format("unchecked  {}: {}; receipts of earlier versions lack it", what, text(is)));
    }
  }
  // A run of which one life had fewer audits than the job says has the smaller share.
  verdict.Check(receipt.audits.share <= again.audits.share, "audits/share of the second training",
                Comparison(text(found["audits"]["share"]), text(expected["audits"]["share"])));
}

// What to do if the files that the receipt names were moved.
std::string HowToNameJobOf(const VerifyFlags& flags) {
  return fmt::format("acan verify {} --rerun --job JOB.toml", flags.path);
}

// The job to train again. `path` is the receipt, which has `job`.
Job JobOfRerun(const VerifyFlags& flags, const std::string& path, const Receipt& receipt, Job job) {
  if (flags.job.path.empty()) {
    RequireInitialWeightsFile(job, HowToNameJobOf(flags));
    HoldToInitialWeights(&job, JobOrigin::kRun);
    return job;
  }
  Job named = ReadJob(flags.job);
  HoldToInitialWeights(&named, JobOrigin::kUser);
  if (TrainingIdOf(receipt, named) != TrainingIdOf(receipt, job)) {
    throw UsageError(fmt::format("{}: trains other weights than the job of {}: {}", flags.job.path,
                                 path, FirstDifference(named, job)));
  }
  job.data = named.data;
  job.initial_weights = named.initial_weights;
  return job;
}

Data LoadDataOf(const Job& job, const std::string& folder, const VerifyFlags& flags) {
  try {
    return LoadData(job, folder);
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kUsage || !flags.job.path.empty()) throw;
    throw UsageError(fmt::format("{}; if the job's files are elsewhere now: {}", error.what(),
                                 HowToNameJobOf(flags)));
  }
}

// `folder` has the receipt. Returns the exit code of the second training: 0, or 128 + a signal.
int Rerun(const VerifyFlags& flags, const std::string& folder, const Receipt& receipt,
          const Job& job, Verdict& verdict) {
  RequireLimits("acan verify");
  StopSignals signals(StopSignals::Mode::kAll);
  Log log(ParseLogFormat(flags.log_format), "verify");
  ClusterFlags cluster = flags.cluster;
  if (!cluster.handlers.set()) cluster.handlers = {"cpu:1", "--handlers"};
  std::optional<Watchdog> reading(std::in_place, OfReading(log));
  Data data = LoadDataOf(job, folder, flags);
  reading.reset();
  // Reported before hours of training.
  verdict.Check(data.train_sha256() == receipt.train_sha256, "training data",
                Comparison(data.train_sha256(), receipt.train_sha256));
  verdict.Check(data.test_sha256() == receipt.test_sha256, "test data",
                Comparison(OrNone(data.test_sha256()), OrNone(receipt.test_sha256)));
  const auto again = RunLocally({ParseCluster(cluster), "", flags.path, false}, job,
                                std::move(data), log, signals);
  if (!again) return 128 + signals.received();
  Compare(*again, receipt, verdict);
  if (verdict.exit_code() != 0 && receipt.numerics_revision != kNumericsRevision) {
    PrintLine(fmt::format(
        "note       the receipt is of numerics revision {}, and this acan computes revision {}, so "
        "other weights show no fault",
        receipt.numerics_revision, kNumericsRevision));
  }
  if (verdict.exit_code() != 0 && job.training.precision == Precision::kFast) {
    PrintLine(
        "note       the job has train.precision = \"fast\", which does not promise equal bits: a "
        "second training may differ by rounding, so this shows no fault");
  }
  return 0;
}

// What the records of an audit log say about the run of a receipt.
class RunInLog {
 public:
  RunInLog(std::string head, LoggedSteps steps)
      : head_(std::move(head)), steps_(std::move(steps)) {}

  void On(const std::string& chain, std::string_view record) {
    if (lines_) return;
    ++read_;
    if (chain == head_) lines_ = read_;
    steps_.On(record);
  }

  // The number of lines through the one with the head; nullopt: there is none.
  const std::optional<std::int64_t>& lines() const { return lines_; }
  // Of these lines.
  const LoggedSteps& steps() const { return steps_; }

 private:
  const std::string head_;
  LoggedSteps steps_;
  std::int64_t read_ = 0;
  std::optional<std::int64_t> lines_;
};

std::int64_t TileElementsOf(const Job& job) {
  try {
    return TileElements(*BuildModel(job));
  } catch (const Error& error) {
    if (error.kind() != Error::Kind::kUsage) throw;
    return 0;  // CheckModel has said what is wrong with the model
  }
}

std::string StepsText(const Range& steps) {
  if (steps.size() == 1) return fmt::format("step {}", steps.end);
  if (steps.begin == 0) return fmt::format("the first {} steps", steps.end);
  return fmt::format("the steps {} to {}", steps.begin + 1, steps.end);
}

void PrintMissingSteps(const std::string& path, const LoggedSteps& steps) {
  for (const Range& gap : steps.gaps()) {
    PrintFinding(fmt::format(
        "note       {} does not say who computed {}: the run did not write to it then, or records "
        "were lost",
        path, StepsText(gap)));
  }
  if (steps.steps_of_done_run() == 0) return;
  PrintFinding(fmt::format(
      "note       {} says who computed {} only if the run of this job that was done earlier in it "
      "is the same run",
      path, StepsText({0, steps.steps_of_done_run()})));
}

void CheckLog(const std::string& path, const Receipt& receipt, const Job& job, Verdict& verdict) {
  RunInLog run(receipt.audit_log_head,
               LoggedSteps(TrainingIdOf(receipt, job), TileElementsOf(job)));
  const AuditLogCheck check = CheckAuditLog(
      path, {}, [&](const std::string& chain, std::string_view record) { run.On(chain, record); });
  verdict.Check(!check.problem, "chain of " + path,
                check.problem.value_or(fmt::format("{} records", check.records)));
  if (check.problem) return;
  const std::int64_t later = run.lines() ? check.records - *run.lines() : 0;
  // No receipt ever acknowledged a torn line; only a run that is still active has one.
  const bool torn = check.torn && later == 0;
  verdict.Check(!torn, "end of " + path,
                torn ? "the last line is incomplete, as after a kill" : "");
  std::string head = check.head;
  if (later > 0) {
    head = fmt::format("{}, at line {}; the file has {} line{} after the run's end",
                       receipt.audit_log_head, *run.lines(), later, later == 1 ? "" : "s");
  } else if (!run.lines()) {
    head = Comparison(
        head, receipt.audit_log_head.empty() ? "that there was no log" : receipt.audit_log_head);
  }
  verdict.Check(run.lines().has_value(), "audit_log_head of " + path, head);
  if (run.lines()) PrintMissingSteps(path, run.steps());
}

int RunVerify(const VerifyFlags& flags) {
  if (flags.job.path.empty() && !flags.job.set.empty()) {
    throw UsageError("--set changes the job that --job names: name one, or leave out --set");
  }
  if (!flags.job.path.empty() && !flags.rerun) {
    throw UsageError("--job names the job to train again: add --rerun, or leave out --job");
  }
  if (flags.rerun && flags.job.path.empty()) {
    RequireNoOverrides(flags.job, "without --job the job of the receipt is trained again");
  }
  std::optional<Watchdog> reading(std::in_place, Watchdog::OnStderr("acan verify", kReadingText));
  std::filesystem::path path = flags.path;
  if (std::filesystem::is_directory(path)) path = ReceiptPathIn(flags.path);
  const nlohmann::json json = ReadReceiptJson(path.string());
  const Receipt receipt = ReceiptFromJson(json, path.string());
  const Job job = JobFromJson(receipt.job, path.string());
  Verdict verdict;
  CheckHash(path.string(), json, verdict);
  // A run that diverged has no model, only the last good weights.
  const bool ended_early = receipt.not_finite && receipt.not_finite->kept_version;
  const std::string model =
      ended_early ? SnapshotName(*receipt.not_finite->kept_version) : "model.safetensors";
  CheckModel((path.parent_path() / model).string(), receipt, job, ended_early, verdict);
  if (!flags.audit_log.empty()) {
    CheckLog(flags.audit_log, receipt, job, verdict);
  } else if (!receipt.audit_log_head.empty()) {
    PrintLine("unchecked  the run's audit log: name it with --audit-log");
  }
  if (receipt.audits.skipped > 0) PrintLine("note       " + AuditsText(receipt.audits));
  if (flags.rerun) {
    const std::string folder = std::filesystem::absolute(path).parent_path().string();
    const Job job_again = JobOfRerun(flags, path.string(), receipt, job);
    reading.reset();
    const int code = Rerun(flags, folder, receipt, job_again, verdict);
    if (code != 0) return code;
  }
  return verdict.exit_code();
}

}  // namespace

void AddVerify(Command& app, Chosen& chosen) {
  const auto flags = std::make_shared<VerifyFlags>();
  Command command =
      app.AddCommand("verify", "Check a receipt against its model, or train again and compare");
  command.AddOption("receipt", flags->path, "a receipt.json, or the folder that contains it")
      .Required()
      .TypeName("DIR|receipt.json");
  command.AddFlag("--rerun", flags->rerun, "trains the receipt's job again and compares");
  command
      .AddOption("--job", flags->job.path,
                 "for --rerun: the receipt's job, as a file that says where its data are now")
      .TypeName("JOB.toml");
  AddOverrides(command, flags->job);
  command
      .AddOption("--audit-log", flags->audit_log,
                 "the run's audit log: checks its chain, and that it has the run up to its end")
      .TypeName("FILE");
  AddClusterFlags(command, flags->cluster, "cpu:1; for --rerun only");
  AddLogFormat(command, flags->log_format);
  command.Footer(kVerifyExample);
  command.OnParsed([flags, &chosen] { chosen.run = [flags] { return RunVerify(*flags); }; });
}

}  // namespace acan::cli
