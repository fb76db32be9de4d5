// acan chaos: trains a job while it kills the job's processes, and compares the weights.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/manager/closest_word.h"
#include "acan/manager/initial_weights.h"
#include "acan/manager/load_data.h"
#include "acan/manager/manager.h"
#include "acan/manager/output_names.h"
#include "acan/manager/overwritten_inputs.h"
#include "acan/manager/snapshot.h"
#include "acan/manager/text_file.h"
#include "acan/manager/training_id.h"
#include "chaos_run.h"
#include "command.h"
#include "fmt/format.h"
#include "job_flags.h"
#include "local_run.h"
#include "out_folder.h"
#include "process_setup.h"
#include "scratch_folder.h"
#include "standard_output.h"
#include "watchdog.h"

namespace acan::cli {
namespace {

struct ChaosFlags {
  JobFlags job;
  ClusterFlags cluster;
  Setting out;
  Setting log_format;
  std::string kill, stop, throttle, cut;
  std::string undisturbed;
  bool standby = false;
  std::string every = "2s", pause = "3s";
  std::uint64_t seed = 1;
  bool json = false;
};

constexpr const char* kChaosExample = R"(
Trains the job twice: undisturbed, and while it kills, stops (SIGSTOP, later SIGCONT), throttles
(stops half of the time) or cuts off (nothing passes for --pause; then half of the connections
continue, the others end) what --kill, --stop, --throttle and --cut name: handlers (one of them),
broker, manager, or everything (all at the same moment). Killed processes are restarted. The exit
code is 0 only if both runs have the same weights. The same seed draws the same faults.

Examples:
  acan chaos examples/regression.toml
  acan chaos job.toml --handlers 4xcpu:1@1MiB --kill handlers,manager,broker --every 2s --seed 7
  acan chaos job.toml --kill handlers --stop handlers,broker --pause 500ms --throttle manager
  acan chaos job.toml --kill everything --cut handlers,manager --undisturbed out/job/receipt.json)";

std::vector<std::pair<Harm, Victim>> FaultsOf(const ChaosFlags& flags) {
  const std::map<std::string, Victim> victims = {{"handlers", Victim::kHandlers},
                                                 {"broker", Victim::kBroker},
                                                 {"manager", Victim::kManager},
                                                 {"everything", Victim::kEverything}};
  std::vector<std::pair<Harm, Victim>> faults;
  const auto add = [&](const std::string& flag, const std::string& list, Harm harm) {
    std::istringstream words(list);
    for (std::string word; std::getline(words, word, ',');) {
      const auto victim = victims.find(word);
      if (victim == victims.end()) {
        throw UsageError(
            fmt::format("{}: \"{}\" must be handlers, broker, manager or everything{}", flag, word,
                        DidYouMean(word, {"handlers", "broker", "manager", "everything"})));
      }
      faults.emplace_back(harm, victim->second);
    }
  };
  const bool none =
      flags.kill.empty() && flags.stop.empty() && flags.throttle.empty() && flags.cut.empty();
  add("--kill", none ? "handlers,manager,broker" : flags.kill, Harm::kKill);
  add("--stop", flags.stop, Harm::kStop);
  add("--throttle", flags.throttle, Harm::kThrottle);
  add("--cut", flags.cut, Harm::kCut);
  return faults;
}

// "2s", "500ms".
std::chrono::milliseconds ParseDuration(const std::string& flag, const std::string& text) {
  constexpr double kMaxMs = 3'600'000;
  std::size_t used = 0;
  double value = 0;
  try {
    value = std::stod(text, &used);
  } catch (const std::exception&) {
    used = 0;
  }
  const std::string unit = text.substr(used);
  const double ms = unit == "s" ? value * 1000 : value;
  if (used == 0 || (unit != "s" && unit != "ms") || !(ms >= 1 && ms <= kMaxMs)) {
    throw UsageError(
        fmt::format("{}: \"{}\" must be a time from 1ms to 3600s, like 2s or 500ms", flag, text));
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(ms));
}

double Quantile(std::vector<double> values, double q) {
  std::sort(values.begin(), values.end());
  const auto last = static_cast<double>(values.size() - 1);
  return values[static_cast<std::size_t>(std::ceil(q * last))];
}

std::string RecoveryText(const std::vector<double>& seconds) {
  return seconds.empty() ? "-"
                         : fmt::format("{:.2f} / {:.2f} / {:.2f} s", Quantile(seconds, 0.5),
                                       Quantile(seconds, 0.99), Quantile(seconds, 1));
}

struct Outcome {
  Receipt undisturbed;
  ChaosReport chaos;

  std::string hash() const { return chaos.receipt.at("weights_sha256").get<std::string>(); }
  bool same() const { return hash() == undisturbed.weights_sha256; }
  double goodput() const {
    return static_cast<double>(undisturbed.steps) /
           static_cast<double>(std::max(chaos.steps_done, undisturbed.steps));
  }
};

std::string ReportText(const Outcome& outcome) {
  const ChaosReport& chaos = outcome.chaos;
  std::string text = fmt::format("{:<20} {:>6}   {}\n", "fault", "times",
                                 "time to the next finished step: p50 / p99 / max");
  for (const auto& [fault, times] : chaos.faults) {
    const auto seconds = chaos.recovery_s.find(fault);
    text += fmt::format("{:<20} {:>6}   {}\n", fault, times,
                        seconds == chaos.recovery_s.end() ? "-" : RecoveryText(seconds->second));
  }
  text += fmt::format(
      "tasks: {} done, {} re-issued, {} duplicated\n", chaos.receipt.value("tasks_done", 0),
      chaos.receipt.value("tasks_reissued", 0), chaos.receipt.value("tasks_duplicated", 0));
  text += fmt::format("steps: {} needed, {} done, goodput {:.3f}\n", outcome.undisturbed.steps,
                      chaos.steps_done, outcome.goodput());
  text += fmt::format("time: {:.1f} s, undisturbed {:.1f} s\n", chaos.seconds,
                      outcome.undisturbed.seconds);
  text += fmt::format("weights_sha256 {}\n", outcome.hash());
  text += outcome.same() ? "the same weights as the undisturbed run\n"
                         : fmt::format("DIFFERENT from the undisturbed run's {}\n",
                                       outcome.undisturbed.weights_sha256);
  const std::optional<NotFinite>& diverged = outcome.undisturbed.not_finite;
  if (diverged && diverged->kept_version) {
    text += fmt::format(
        "the undisturbed run diverged and ended early at step {}: its weights are "
        "the last good ones, after {} steps\n",
        diverged->step, *diverged->kept_version);
  }
  return text;
}

nlohmann::json ReportJson(const Outcome& outcome) {
  const ChaosReport& chaos = outcome.chaos;
  return {{"same_weights", outcome.same()},
          {"weights_sha256", outcome.hash()},
          {"faults", chaos.faults},
          {"recovery_s", chaos.recovery_s},
          {"steps", outcome.undisturbed.steps},
          {"steps_done", chaos.steps_done},
          {"goodput", outcome.goodput()},
          {"seconds", chaos.seconds},
          {"seconds_undisturbed", outcome.undisturbed.seconds},
          {"receipt", chaos.receipt}};
}

// The relays between the processes and the broker, if links are to be cut.
struct Relays {
  ScratchFolder folder;  // of the relays' sockets
  std::unique_ptr<LinkRelay> handlers, manager;

  static std::unique_ptr<LinkRelay> To(const std::string& broker, const std::string& path) {
    const bool ipc = broker.starts_with("ipc://");
    return std::make_unique<LinkRelay>(ipc ? "ipc://" + path : "tcp://127.0.0.1:*", broker);
  }
};

std::optional<ChaosReport> Disturb(const ChaosFlags& flags, LocalClusterOptions cluster_options,
                                   const std::string& out_dir, Log& log, StopSignals& signals) {
  const StopGuard starting(
      signals, [] {}, [] {});
  std::optional<Relays> relays;
  if (!flags.cut.empty()) {
    relays.emplace();
    cluster_options.handlers_connect_to = [&relays](const std::string& broker) {
      relays->handlers = Relays::To(broker, relays->folder.path() + "/handlers");
      return relays->handlers->endpoint();
    };
  }
  LocalCluster cluster(cluster_options, log);
  const StopGuard guard(
      signals, [] {}, [&cluster] { cluster.Kill(); });
  ChaosOptions options;
  std::string endpoint = cluster.endpoint();
  if (relays) {
    relays->manager = Relays::To(endpoint, relays->folder.path() + "/manager");
    endpoint = relays->manager->endpoint();
    options.handler_links = relays->handlers.get();
    options.manager_links = relays->manager.get();
  }
  options.faults = FaultsOf(flags);
  options.every = ParseDuration("--every", flags.every);
  options.pause = ParseDuration("--pause", flags.pause);
  options.seed = flags.seed;
  options.standby = flags.standby;
  options.metrics_path = out_dir + "/metrics.jsonl";
  options.manager_words = {
      "manager",      "--connect",    endpoint,
      flags.job.path, "--out",        out_dir,
      "--json",       "--log-format", log.format() == LogFormat::kJson ? "json" : "text"};
  for (const std::string& set : flags.job.set) {
    options.manager_words.insert(options.manager_words.end(), {"--set", set});
  }
  ChaosRun run(std::move(options), cluster, log);
  auto report = run.Run([&signals] { return signals.received() != 0; });
  cluster.Stop();
  return report;
}

// Reads the receipt that --undisturbed names.
Receipt ReadUndisturbed(const ChaosFlags& flags, const Job& job, const Data& data) {
  Receipt receipt = ReadReceipt(flags.undisturbed);
  const std::string its_id = TrainingIdOf(receipt, JobFromJson(receipt.job, flags.undisturbed));
  if (its_id != TrainingId(job, data.train_sha256(), data.test_sha256())) {
    throw UsageError(fmt::format("--undisturbed {}: is the receipt of a different training than {}",
                                 flags.undisturbed, flags.job.path));
  }
  return receipt;
}

// The remains of an earlier run must not help the disturbed one.
void RemoveRemains(const std::string& out_dir) {
  const std::string snapshots = out_dir + "/" + kSnapshotsName;
  // Another process may have begun there since the first check, or put a link there, which would
  // lead to the snapshots of another folder.
  CheckFolderIsFree(out_dir);
  RequireNoLink(snapshots);
  SnapshotFolder(snapshots, "", nullptr, 0).RemoveAll();
  for (const char* name : {"/metrics.jsonl", "/receipt.json"}) {
    std::filesystem::remove(out_dir + name);
  }
}

int RunChaos(const ChaosFlags& flags) {
  RequireLimits("acan chaos");
  StopSignals signals(StopSignals::Mode::kAll);
  Log log(ParseLogFormat(flags.log_format), "chaos");
  const LocalClusterOptions cluster = ParseCluster(flags.cluster);
  FaultsOf(flags);
  ParseDuration("--every", flags.every);
  ParseDuration("--pause", flags.pause);
  Job job = ReadJob(flags.job);
  std::optional<Watchdog> reading(std::in_place, OfReading(log));
  HoldToInitialWeights(&job, JobOrigin::kUser);
  const std::string out_dir =
      flags.out.set() ? flags.out.value : DefaultOutDir(flags.job.path) + "-chaos";
  RequireOtherInputs(job, out_dir);
  CheckFolderIsFree(out_dir);
  RequireNoLink(out_dir + "/" + kSnapshotsName);
  Data data = LoadData(job);
  reading.reset();
  LogJob(job, data, log);
  WarnOfReplacedRun(out_dir, job, data, "acan train --resume " + out_dir, log);
  Outcome outcome;
  if (!flags.undisturbed.empty()) {
    outcome.undisturbed = ReadUndisturbed(flags, job, data);
  } else {
    log.Info("training without faults");
    auto undisturbed =
        RunLocally({cluster, "", flags.job.path, false}, job, std::move(data), log, signals);
    if (!undisturbed) return 128 + signals.received();
    outcome.undisturbed = std::move(*undisturbed);
  }
  log.Info("training with faults");
  RemoveRemains(out_dir);
  auto report = Disturb(flags, cluster, out_dir, log, signals);
  if (!report) return 128 + signals.received();
  outcome.chaos = std::move(*report);
  Print(ReportText(outcome));
  if (flags.json) PrintLine(JsonText(ReportJson(outcome)));
  if (outcome.chaos.faults.empty()) {
    throw FailureError(
        "the job finished before the first fault, so this run shows nothing: give it more epochs, "
        "or make faults more frequent (--every)");
  }
  return outcome.same() ? 0 : 1;
}

}  // namespace

void AddChaos(Command& app, Chosen& chosen) {
  const auto flags = std::make_shared<ChaosFlags>();
  Command command =
      app.AddCommand("chaos", "Train a job while killing its processes, and compare the weights");
  AddJobFlags(command, flags->job);
  AddClusterFlags(command, flags->cluster);
  command
      .AddOption("--kill", flags->kill,
                 "what to kill with SIGKILL (default, if none of --kill, --stop, --throttle and "
                 "--cut is given: handlers,manager,broker)")
      .TypeName("LIST");
  command.AddOption("--stop", flags->stop, "what to stop with SIGSTOP, until SIGCONT after --pause")
      .TypeName("LIST");
  command.AddOption("--throttle", flags->throttle, "what to slow to half its speed for --pause")
      .TypeName("LIST");
  command.AddOption("--cut", flags->cut, "what to cut off from the broker for --pause")
      .TypeName("LIST");
  command.AddFlag("--standby", flags->standby,
                  "runs a standby manager, instead of restarting a dead manager with --resume");
  command
      .AddOption("--undisturbed", flags->undisturbed,
                 "the receipt of an undisturbed run of the same job, instead of a first run")
      .TypeName("FILE");
  command.AddOption("--every", flags->every, "the average time between faults")
      .TypeName("TIME")
      .ShowDefault();
  command.AddOption("--pause", flags->pause, "how long a process stays stopped, slow or cut off")
      .TypeName("TIME")
      .ShowDefault();
  command.AddOption("--seed", flags->seed, "the seed of the faults").ShowDefault();
  AddSetting(command, flags->out, "--out", "ACAN_OUT",
             "the folder for the disturbed run's outputs (default: out/NAME-chaos for NAME.toml)")
      .TypeName("DIR");
  command.AddFlag("--json", flags->json, "the last line on stdout is the report as JSON");
  AddLogFormat(command, flags->log_format);
  command.Footer(kChaosExample);
  command.OnParsed([flags, &chosen] { chosen.run = [flags] { return RunChaos(*flags); }; });
}

}  // namespace acan::cli
