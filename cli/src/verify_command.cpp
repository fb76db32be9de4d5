// acan verify: checks that a receipt, its model file and, if asked, a second training agree.
#include <filesystem>

#include "CLI/CLI.hpp"
#include "acan/manager/audit_log.h"
#include "acan/manager/model_file.h"
#include "acan/manager/receipt.h"
#include "command.h"
#include "fmt/format.h"
#include "job_flags.h"
#include "local_run.h"
#include "process_setup.h"

namespace acan::cli {
namespace {

struct Flags {
  std::string path;
  ClusterFlags cluster;
  Setting log_format;
  bool rerun = false;
  std::string audit_log;
};

constexpr const char* kExample = R"(
Computes weights_sha256 of the model file beside the receipt and compares. With --rerun the job is
trained again, by one handler unless --handlers says otherwise, in a temporary folder that is removed:
the weights must be the same bits. The exit code is 0 if all is equal, 1 if anything differs.

Examples:
  acan verify out/fashion-mnist
  acan verify out/fashion-mnist/receipt.json --rerun --handlers cpu:2)";

// A difference is a result, not a mistake of the user: it goes to stdout.
class Verdict {
 public:
  void Check(bool equal, const std::string& what, const std::string& details) {
    PrintLine((equal ? "equal      " : "DIFFERENT  ") + what +
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

void CheckModel(const std::string& path, const Receipt& receipt, const Job& job, Verdict& verdict) {
  const ModelReader reader(path);
  const auto layers = reader.Layers();
  verdict.Check(layers == job.model.layers, "layers of " + path,
                Comparison(LayersText(layers), LayersText(job.model.layers)));
  const std::string sha256 = reader.WeightsSha256();
  verdict.Check(sha256 == receipt.weights_sha256, "weights_sha256 of " + path,
                Comparison(sha256, receipt.weights_sha256));
}

// The exit code of the second training: 0, or 128 + a signal.
int Rerun(const Flags& flags, const Receipt& receipt, const Job& job, Verdict& verdict) {
  RequireLimits("acan verify");
  StopSignals signals(StopSignals::Mode::kAll);
  Log log(ParseLogFormat(flags.log_format), "verify");
  ClusterFlags cluster = flags.cluster;
  if (!cluster.handlers.set()) cluster.handlers = {"cpu:1", "--handlers"};
  Data data = LoadData(job);
  verdict.Check(data.train.sha256 == receipt.train_sha256, "training data",
                Comparison(data.train.sha256, receipt.train_sha256));
  if (!receipt.test_sha256.empty()) {
    verdict.Check(data.test.sha256 == receipt.test_sha256, "test data",
                  Comparison(data.test.sha256, receipt.test_sha256));
  }
  const auto again = RunLocally({ParseCluster(cluster), "", flags.path, false}, job,
                                std::move(data), log, signals);
  if (!again) return 128 + signals.received();
  verdict.Check(again->weights_sha256 == receipt.weights_sha256,
                "weights_sha256 of the second training",
                Comparison(again->weights_sha256, receipt.weights_sha256));
  return 0;
}

void CheckLog(const std::string& path, const Receipt& receipt, Verdict& verdict) {
  const AuditLogCheck check = CheckAuditLog(path);
  verdict.Check(!check.problem, "chain of " + path,
                check.problem.value_or(fmt::format("{} records", check.records)));
  if (check.problem) return;
  // What is torn off was never acknowledged by a receipt; only a run that still goes on has it.
  verdict.Check(!check.torn, "end of " + path,
                check.torn ? "the last line was cut short, as by a kill" : "");
  const std::string said =
      receipt.audit_log_head.empty() ? "that there was no log" : receipt.audit_log_head;
  verdict.Check(check.head == receipt.audit_log_head, "audit_log_head of " + path,
                Comparison(check.head, said));
}

int RunVerify(const Flags& flags) {
  std::filesystem::path path = flags.path;
  if (std::filesystem::is_directory(path)) path /= "receipt.json";
  const Receipt receipt = ReadReceipt(path.string());
  const Job job = JobFromJson(receipt.job, path.string());
  Verdict verdict;
  CheckModel((path.parent_path() / "model.safetensors").string(), receipt, job, verdict);
  if (!flags.audit_log.empty()) {
    CheckLog(flags.audit_log, receipt, verdict);
  } else if (!receipt.audit_log_head.empty()) {
    PrintLine("unchecked  the run's audit log: name it with --audit-log");
  }
  if (flags.rerun) {
    const int code = Rerun(flags, receipt, job, verdict);
    if (code != 0) return code;
  }
  return verdict.exit_code();
}

}  // namespace

void AddVerify(CLI::App& app, Chosen& chosen) {
  const auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("verify", "Check a receipt against its model, or train again");
  command->add_option("receipt", flags->path, "a receipt.json, or the folder that has it")
      ->required()
      ->type_name("DIR|receipt.json");
  command->add_flag("--rerun", flags->rerun, "train the receipt's job again and compare");
  command
      ->add_option("--audit-log", flags->audit_log,
                   "the run's audit log: is its chain unbroken, and its end the receipt's?")
      ->type_name("FILE");
  AddClusterFlags(*command, flags->cluster, "cpu:1; for --rerun only");
  AddLogFormat(*command, flags->log_format);
  command->footer(kExample);
  command->callback([flags, &chosen] { chosen.run = [flags] { return RunVerify(*flags); }; });
}

}  // namespace acan::cli
