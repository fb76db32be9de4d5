// acan manager: trains a job with the handlers that a broker has.
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "acan/core/access_roles.h"
#include "acan/core/error.h"
#include "acan/core/text/size_text.h"
#include "acan/manager/initial_weights.h"
#include "acan/manager/job_files.h"
#include "acan/manager/load_data.h"
#include "acan/manager/manager.h"
#include "acan/manager/output_names.h"
#include "acan/manager/overwritten_inputs.h"
#include "acan/manager/receipt.h"
#include "acan/manager/text_file.h"
#include "acan/manager/unreadable.h"
#include "access_file.h"
#include "command.h"
#include "fmt/format.h"
#include "job_flags.h"
#include "local_run.h"
#include "machine.h"
#include "meeting_point.h"
#include "nlohmann/json.hpp"
#include "out_folder.h"
#include "process_setup.h"
#include "progress_display.h"
#include "role.h"
#include "watchdog.h"

namespace acan::cli {
namespace {

// Reading and hashing more than this takes seconds.
constexpr std::uintmax_t kLargeInputBytes = 256 << 20;

struct ManagerFlags {
  JobFlags job;
  Setting connect;
  Setting out;
  bool resume = false;
  bool standby = false;
  std::string audit_log;
  StopFlag stop;
  Setting keys;
  Setting direct;
  bool json = false;
  RoleFlags role;
};

constexpr const char* kManagerExample = R"(
Waits for the broker and for handlers; handlers may come and go while it trains. If a manager was
killed, start it again with --resume, on this host or another one; a manager with --standby takes
over by itself. After a first stop signal it writes a snapshot of the last finished step before it
ends. Without --connect it looks for a broker of the same user: see acan broker --help.

Examples:
  acan manager --connect tcp://127.0.0.1:5555 examples/regression.toml --out out/regression
  acan manager --connect tcp://127.0.0.1:5555 examples/regression.toml --out out/regression --resume)";

// The text of the receipt in `out_dir`; empty: there is none. Throws Error.
std::string ReceiptIn(const std::string& out_dir) {
  const std::string path = (std::filesystem::path(out_dir) / kReceiptName).string();
  try {
    return ReadTextFile(path, kMaxReceiptBytes, "a receipt");
  } catch (const Unreadable&) {
    std::error_code error;
    if (!std::filesystem::exists(path, error) && !error) return "";
    throw;
  }
}

// What a user should know of a run that was stopped.
std::string StoppedText(const Manager& manager) {
  if (!manager.HasBegun()) return "stopped before the first step: no file was written or replaced";
  const std::string how = "to continue, run the same command with --resume";
  if (!manager.LeftStepsInSpace()) return "stopped; " + how;
  return "stopped; the space has the last steps as long as the broker runs: " + how;
}

// What the flags say; the rest is for the caller.
ManagerOptions OptionsOf(const ManagerFlags& flags) {
  ManagerOptions options;
  options.endpoint = EndpointToConnect(flags.connect);
  options.source = flags.job.path;
  options.machine = ThisMachine().id;
  options.resume = flags.resume;
  options.standby = flags.standby;
  options.audit_log = flags.audit_log;
  // `acan chaos` gives its manager no key, since it is on its own host.
  if (flags.role.parent == 0) options.access = AccessOf(flags.keys, kManagerRole);
  if (flags.direct.set()) {
    if (flags.direct.value != "on" && flags.direct.value != "off") {
      throw UsageError(
          fmt::format("{}: \"{}\" must be on or off", flags.direct.origin, flags.direct.value));
    }
    options.direct = flags.direct.value == "on";
  }
  return options;
}

// `earlier_receipt` is the text of the receipt that was in the folder before the run.
int ReportEnd(const Receipt& receipt, const Job& job, const std::string& out_dir,
              const std::string& earlier_receipt, const ManagerFlags& flags, Log& log) {
  // Another manager may have finished the job, with its own folder.
  const std::string written = ReceiptIn(out_dir);
  const bool here = !written.empty();
  if (!here) {
    log.Info(fmt::format(
        "another manager finished the job: the outputs are in its --out, not in {}", out_dir));
  }
  const Outputs outputs = written == earlier_receipt ? Outputs::kFound : Outputs::kWritten;
  if (here && outputs == Outputs::kFound) {
    RequireItsEnd(receipt, job, out_dir);
    RequireItsWeights(receipt, out_dir);
  }
  return ReportRun(receipt, here ? out_dir : "", flags.json, outputs);
}

int RunManager(const ManagerFlags& flags) {
  RequireLimits("acan manager");
  RoleProcess role(flags.role, "manager");
  AvoidPreemption();
  ManagerOptions options = OptionsOf(flags);
  Job job = ReadJob(flags.job);
  options.out_dir = flags.out.set() ? flags.out.value : DefaultOutDir(flags.job.path);
  if (const int code = role.AwaitHost(options.endpoint, flags.connect.origin)) return code;
  std::optional<Watchdog> reading(std::in_place, OfReading(role.log()));
  const bool resumes = options.resume || options.standby;
  HoldToInitialWeights(&job, JobOrigin::kUser, resumes ? options.out_dir : "");
  RequireOtherInputs(job, options.out_dir);
  RequireOtherAuditLog(options.audit_log, options.out_dir);
  const std::uintmax_t input_bytes = BytesOf(FilesOf(job));
  if (input_bytes >= kLargeInputBytes) {
    role.log().Info(fmt::format("reading {} of input files", SizeText(input_bytes)));
  }
  Data data = LoadData(job, resumes ? options.out_dir : "");
  reading.reset();
  LogJob(job, data, role.log());
  if (!resumes) {
    WarnOfReplacedRun(options.out_dir, job, data, "the same command with --resume", role.log());
  } else if (options.standby) {
    WarnOfOthersRun(options.out_dir, job, data, role.log());
  }
  const EmptyFolders empty_folders(options.out_dir);
  Watchdog watchdog(OfManager(role.log()));
  options.alive = [&watchdog] { watchdog.Beat(); };
  ProgressDisplay display(role.log());
  options.progress = [&display](const Progress& progress) { display.Show(progress); };
  options.log = [&role](const std::string& line) { role.log().Info(line); };
  const std::string out_dir = options.out_dir;
  const std::string earlier_receipt = ReceiptIn(out_dir);
  Manager manager(std::move(options), job, std::move(data));
  std::optional<Receipt> receipt;
  const int code =
      role.Serve([&] { receipt = manager.Run(); }, [&] { manager.Stop(flags.stop.within()); });
  role.log().terminal().EndLive();
  if (!receipt) {
    role.log().Info(StoppedText(manager));
    return code == 0 ? 1 : code;
  }
  return ReportEnd(*receipt, job, out_dir, earlier_receipt, flags, role.log());
}

}  // namespace

void AddManager(Command& app, Chosen& chosen) {
  const auto flags = std::make_shared<ManagerFlags>();
  Command command = app.AddCommand("manager", "Train a job with the handlers of a broker");
  AddJobFlags(command, flags->job);
  AddSetting(command, flags->connect, "--connect", "ACAN_CONNECT",
             std::string("the broker's endpoint, or the endpoints where it may be started, "
                         "separated by commas (default: ") +
                 kDefaultPlace + ")")
      .TypeName("ENDPOINT");
  AddSetting(command, flags->out, "--out", "ACAN_OUT",
             "the folder for the outputs (default: out/NAME for NAME.toml)")
      .TypeName("DIR");
  command.AddFlag("--resume", flags->resume,
                  "continues from what an earlier manager of this job left: the weights in the "
                  "space, or its newest snapshot in --out");
  command.AddFlag("--standby", flags->standby,
                  "waits while another manager trains this job, then continues as --resume does");
  AddAuditLog(command, flags->audit_log);
  AddStopWithin(command, flags->stop);
  command.AddFlag("--json", flags->json, "the last line on stdout is the receipt as JSON");
  AddKeys(command, flags->keys, "the key file, for a broker with keys");
  AddSetting(
      command, flags->direct, "--direct", "ACAN_MANAGER_DIRECT",
      "whether handlers on other hosts fetch data from this manager over tcp, not from the broker: "
      "on (default; listens on a free port of the address that reaches the broker) or off")
      .TypeName("on|off");
  AddRoleFlags(command, flags->role);
  command.Footer(kManagerExample);
  command.OnParsed([flags, &chosen] { chosen.run = [flags] { return RunManager(*flags); }; });
}

}  // namespace acan::cli
