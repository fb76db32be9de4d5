#include "local_run.h"

#include <filesystem>
#include <sstream>
#include <utility>
#include <vector>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/core/text/one_line.h"
#include "acan/manager/expected_handlers.h"
#include "acan/manager/manager.h"
#include "acan/manager/output_names.h"
#include "acan/manager/safetensors_file.h"
#include "acan/manager/snapshot.h"
#include "acan/manager/trained_model.h"
#include "acan/manager/training_id.h"
#include "device_list.h"
#include "fmt/format.h"
#include "machine.h"
#include "nlohmann/json.hpp"
#include "progress_display.h"
#include "role.h"
#include "standard_output.h"

namespace acan::cli {
namespace {

// REQUIRES: each has its memory set.
std::vector<ExpectedHandler> ExpectedOf(const std::vector<DeviceSpec>& handlers) {
  std::vector<ExpectedHandler> expected;
  for (const DeviceSpec& spec : handlers) {
    expected.push_back({spec.Name(), spec.memory_bytes.value()});
  }
  return expected;
}

}  // namespace

std::optional<Receipt> RunLocally(const LocalRun& run, const Job& job, Data data, Log& log,
                                  StopSignals& signals) {
  // From here on there is something to clean up, so a signal waits until the manager can obey it.
  const StopGuard starting(
      signals, [] {}, [] {});
  ProgressDisplay display(log);
  LocalClusterOptions cluster_options = run.cluster;
  cluster_options.stopped = [&signals] { return signals.received() != 0; };
  std::optional<LocalCluster> started;
  try {
    started.emplace(std::move(cluster_options), log);
  } catch (const LocalCluster::Stopped&) {
    return std::nullopt;
  }
  LocalCluster& cluster = *started;
  AvoidPreemption();
  ManagerOptions options;
  options.endpoint = cluster.endpoint();
  options.out_dir = run.out_dir;
  options.expected_handlers = static_cast<int>(run.cluster.handlers.size());
  options.fixed_handlers = true;
  options.coming_handlers = [&cluster] { return ExpectedOf(cluster.ComingHandlers()); };
  options.started_handlers = ExpectedOf(run.cluster.handlers);
  options.resume = run.resume;
  options.source = run.source;
  options.machine = ThisMachine().id;
  options.audit_log = run.audit_log;
  options.progress = [&display](const Progress& progress) { display.Show(progress); };
  options.log = [&log](const std::string& line) { log.Info(line); };
  std::optional<Watchdog> watchdog;
  options.alive = [&watchdog] {
    if (watchdog) watchdog->Beat();
  };
  Manager manager(std::move(options), job, std::move(data));
  std::optional<Receipt> receipt;
  {
    const StopGuard guard(
        signals, [&] { manager.Stop(run.stop_within); }, [&cluster] { cluster.Kill(); });
    watchdog.emplace(OfManager(log));
    // The cluster outlives the manager, so nothing between this and the `try` may throw.
    cluster.OnFailure([&manager] { manager.Stop(); });
    try {
      receipt = manager.Run();
    } catch (...) {
      cluster.OnFailure(nullptr);
      throw;
    }
    watchdog.reset();
    if (run.can_resume != nullptr) *run.can_resume = manager.HasBegun();
    cluster.OnFailure(nullptr);
    cluster.Stop();
  }
  if (!receipt && signals.received() == 0) {
    throw FailureError(cluster.failure().value_or("the run ended before the job was done"));
  }
  return receipt;
}

Watchdog::Options OfManager(Log& log) {
  return {"the manager", "it is computing, or a disk or file server does not respond",
          [&log](const std::string& line) { log.Warning(line); }};
}

Watchdog::Options OfReading(Log& log) {
  return {"the command", kReadingText, [&log](const std::string& line) { log.Warning(line); }};
}

void LogJob(const Job& job, const Data& data, Log& log) {
  const std::string problem = NormProblem(*BuildModel(job), job.training, data.train_samples());
  if (!problem.empty()) log.Warning(problem);
  const std::string samples =
      fmt::format("{} training sample{}, {} test sample{}", data.train_samples(),
                  data.train_samples() == 1 ? "" : "s", data.test_samples(),
                  data.test_samples() == 1 ? "" : "s");
  const std::string id = TrainingId(job, data.train_sha256(), data.test_sha256());
  if (log.format() == LogFormat::kJson) {
    log.Event("job", "",
              {{"job", JobToJson(job)},
               {"id", id},
               {"train_samples", data.train_samples()},
               {"test_samples", data.test_samples()}});
    return;
  }
  log.Info("the job, with all defaults:");
  std::istringstream lines(JobToToml(job));
  for (std::string line; std::getline(lines, line);) {
    // A resumed folder may be of somebody else, and TOML escapes only the controls of ASCII.
    if (!line.empty()) log.Raw("    " + OneLine(line));
  }
  log.Info(fmt::format("the job's id is {}", id));
  log.Info(samples);
}

std::string TestText(const Receipt& receipt) {
  std::string text;
  if (receipt.test_accuracy)
    text = fmt::format("test accuracy {:.2f} %", *receipt.test_accuracy * 100);
  if (receipt.test_loss) {
    text += fmt::format("{}test loss {:.4f}", text.empty() ? "" : ", ", *receipt.test_loss);
  }
  if (receipt.test_perplexity) {
    text += fmt::format(", test perplexity {:.4f}", *receipt.test_perplexity);
  }
  return text;
}

std::string AuditsText(const AuditSummary& audits) {
  if (audits.passed == 0 && audits.skipped == 0) return "";
  std::string text = fmt::format("audits: {} passed", audits.passed);
  if (audits.skipped > 0) {
    text +=
        fmt::format(", {} skipped (nobody else could confirm; handlers with one key count as one)",
                    audits.skipped);
  }
  return text;
}

namespace {

// Only if all results were audited is it certain that those that count were confirmed.
bool IsInDoubt(const Receipt& receipt) {
  const bool all_audited = receipt.audits.share >= 1 && receipt.audits.skipped == 0;
  return !receipt.conflicts.empty() && !all_audited;
}

// Continues a sentence.
std::string ConflictsText(const Receipt& receipt) {
  const std::vector<ResultConflict>& conflicts = receipt.conflicts;
  return fmt::format(
      "{} result{} had different bytes when computed again, so a handler computes wrong results: "
      "{}. Train again with tasks.audit = 1{}, which finds the faulty one, or without it",
      conflicts.size(), conflicts.size() == 1 ? "" : "s", conflicts.front().text,
      receipt.audits.share < 1
          ? ""
          : " and at least two handlers, with different keys if they have keys");
}

std::string DivergedText(const Receipt& receipt, const std::string& out_dir) {
  const NotFinite& found = *receipt.not_finite;
  const bool loss = found.what == NotFinite::What::kLoss;
  const std::string kept = (std::filesystem::path(out_dir) / SnapshotName(*found.kept_version));
  std::string text = fmt::format(
      "the run in {} ended at step {} (counted from 0, as in metrics.jsonl): its {} not finite, at "
      "a learning rate of {}",
      out_dir, found.step, loss ? "loss was" : "weights were", found.learning_rate);
  if (IsInDoubt(receipt)) {
    return text +
           fmt::format(
               ". It may not have diverged: {}. If it ends in the same way then, try a lower "
               "train.learning_rate. The weights after {} step{} are in {}",
               ConflictsText(receipt), *found.kept_version, *found.kept_version == 1 ? "" : "s",
               kept);
  }
  if (loss && found.step == 0) {
    text += fmt::format(
        ". It was the first step: check the data, and model.initial_weights if the job sets it; "
        "the weights before that step are in {}",
        kept);
  } else {
    text += fmt::format(
        ". The last good weights, after {} step{}, are in {}. Try a lower train.learning_rate or "
        "more train.warmup_steps, from the beginning or from those weights: acan train JOB.toml "
        "--set "
        "model.initial_weights={} --out ANOTHER",
        *found.kept_version, *found.kept_version == 1 ? "" : "s", kept, kept);
  }
  return text +
         ". The same job would end here again; with train.stop_if_not_finite = false and without "
         "--resume, it trains all its steps";
}

}  // namespace

int ReportRun(const Receipt& receipt, const std::string& out_dir, bool json, Outputs outputs) {
  const bool ended_early = receipt.not_finite && receipt.not_finite->kept_version;
  std::string problem;
  if (ended_early) {
    problem = DivergedText(receipt, out_dir);
  } else if (IsInDoubt(receipt)) {
    problem = "the job is done, but the weights are in doubt: " + ConflictsText(receipt);
  }
  try {
    if (!ended_early) Print(SummaryText(receipt, out_dir, outputs));
    if (json) PrintLine(JsonTextReplacing(ReceiptToJson(receipt)));
  } catch (const ReaderGone&) {
    if (problem.empty()) throw;
  }
  if (!problem.empty()) throw FailureError(problem);
  return 0;
}

void RequireItsEnd(const Receipt& receipt, const Job& job, const std::string& out_dir) {
  const bool ended_early = receipt.not_finite && receipt.not_finite->kept_version;
  if (!ended_early || job.stop_if_not_finite) return;
  const std::string kept =
      (std::filesystem::path(out_dir) / SnapshotName(*receipt.not_finite->kept_version)).string();
  throw UsageError(
      fmt::format("train.stop_if_not_finite = false: the run in {} ended early at step {} and is "
                  "not continued: train anew without --resume, or from the weights that it kept, "
                  "with --set model.initial_weights={} and another --out",
                  out_dir, receipt.not_finite->step, kept));
}

void RequireItsWeights(const Receipt& receipt, const std::string& out_dir) try {
  const bool ended_early = receipt.not_finite && receipt.not_finite->kept_version;
  const std::string name =
      ended_early ? SnapshotName(*receipt.not_finite->kept_version) : kModelName;
  const SafetensorsFile whole((std::filesystem::path(out_dir) / name).string());
} catch (const Error& error) {
  throw FailureError(fmt::format(
      "the run in {} is done already, but the file of its weights is missing or damaged: "
      "{}. To write it anew, train the job again without --resume",
      out_dir, error.what()));
}

std::string SummaryText(const Receipt& receipt, const std::string& out_dir, Outputs outputs) {
  std::string text;
  const std::string test = TestText(receipt);
  if (!test.empty()) text += test + "\n";
  if (receipt.final_train_loss)
    text += fmt::format("last loss {:.4f}\n", *receipt.final_train_loss);
  if (receipt.not_finite) {
    const bool loss = receipt.not_finite->what == NotFinite::What::kLoss;
    text += loss ? fmt::format("the loss was not finite from step {} on (counted from 0)\n",
                               receipt.not_finite->step)
                 : "the weights are not finite\n";
  }
  text += fmt::format(
      "{} step{} in {:.1f} s by {} handler{}: {} tasks done, {} re-issued, {} duplicated\n",
      receipt.steps, receipt.steps == 1 ? "" : "s", receipt.seconds, receipt.handlers.size(),
      receipt.handlers.size() == 1 ? "" : "s", receipt.tasks_done, receipt.tasks_reissued,
      receipt.tasks_duplicated);
  const std::string audits = AuditsText(receipt.audits);
  if (!audits.empty()) text += audits + "\n";
  text += "weights_sha256 " + receipt.weights_sha256 + "\n";
  if (!out_dir.empty() && outputs == Outputs::kWritten) {
    std::vector<const char*> names = {kModelName, kMetricsName, kReceiptName};
    if (receipt.job.contains("output")) names.insert(names.begin() + 1, kConfigName);
    for (const char* name : names) {
      text += fmt::format("wrote {}\n", (std::filesystem::path(out_dir) / name).string());
    }
  }
  return text;
}

}  // namespace acan::cli
