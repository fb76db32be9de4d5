#include "local_run.h"

#include <filesystem>
#include <sstream>
#include <utility>

#include "acan/core/error.h"
#include "acan/manager/manager.h"
#include "fmt/format.h"
#include "progress_display.h"
#include "role.h"

namespace acan::cli {

std::optional<Receipt> RunLocally(const LocalRun& run, const Job& job, Data data, Log& log,
                                  StopSignals& signals) {
  // From here on there is something to clean up: a signal waits until the manager can obey it.
  const StopGuard starting(
      signals, [] {}, [] {});
  ProgressDisplay display(log);
  LocalCluster cluster(run.cluster, log);
  InterruptNobody();
  ManagerOptions options;
  options.endpoint = cluster.endpoint();
  options.out_dir = run.out_dir;
  options.expected_handlers = static_cast<int>(run.cluster.handlers.size());
  options.fixed_handlers = true;
  options.resume = run.resume;
  options.source = run.source;
  options.audit_log = run.audit_log;
  options.progress = [&display](const Progress& progress) { display.Show(progress); };
  options.log = [&log](const std::string& line) { log.Info(line); };
  Manager manager(std::move(options), job, std::move(data));
  std::optional<Receipt> receipt;
  {
    const StopGuard guard(
        signals, [&] { manager.Stop(run.stop_within); }, [&cluster] { cluster.Kill(); });
    cluster.OnFailure([&manager] { manager.Stop(); });
    try {
      receipt = manager.Run();
    } catch (...) {
      cluster.OnFailure(nullptr);
      throw;
    }
    cluster.OnFailure(nullptr);
    cluster.Stop();
  }
  if (!receipt && signals.received() == 0) {
    throw FailureError(cluster.failure().value_or("the run ended before the job was done"));
  }
  return receipt;
}

void LogJob(const Job& job, const Data& data, Log& log) {
  const std::string samples =
      fmt::format("{} samples to train on, {} to test with", data.train.samples, data.test.samples);
  if (log.format() == LogFormat::kJson) {
    log.Event("job", "",
              {{"job", JobToJson(job)},
               {"train_samples", data.train.samples},
               {"test_samples", data.test.samples}});
    return;
  }
  log.Info("the job, with all defaults:");
  std::istringstream lines(JobToToml(job));
  for (std::string line; std::getline(lines, line);) {
    if (!line.empty()) log.Raw("    " + line);
  }
  log.Info(samples);
}

std::string LayersText(const std::vector<std::int64_t>& layers) {
  std::string text;
  for (const std::int64_t layer : layers) {
    text += (text.empty() ? "" : ", ") + std::to_string(layer);
  }
  return text;
}

std::string TestText(const Receipt& receipt) {
  std::string text;
  if (receipt.test_accuracy)
    text = fmt::format("test accuracy {:.2f} %", *receipt.test_accuracy * 100);
  if (receipt.test_loss) {
    text += fmt::format("{}test loss {:.4f}", text.empty() ? "" : ", ", *receipt.test_loss);
  }
  return text;
}

std::string SummaryText(const Receipt& receipt, const std::string& out_dir) {
  std::string text;
  const std::string test = TestText(receipt);
  if (!test.empty()) text += test + "\n";
  if (receipt.final_train_loss)
    text += fmt::format("last loss {:.4f}\n", *receipt.final_train_loss);
  text += fmt::format(
      "{} steps in {:.1f} s by {} handler{}: {} tasks done, {} re-issued, {} duplicated\n",
      receipt.steps, receipt.seconds, receipt.handlers.size(),
      receipt.handlers.size() == 1 ? "" : "s", receipt.tasks_done, receipt.tasks_reissued,
      receipt.tasks_duplicated);
  text += "weights_sha256 " + receipt.weights_sha256 + "\n";
  if (!out_dir.empty()) {
    for (const char* name : {"model.safetensors", "metrics.jsonl", "receipt.json"}) {
      text += fmt::format("wrote {}\n", (std::filesystem::path(out_dir) / name).string());
    }
  }
  return text;
}

}  // namespace acan::cli
