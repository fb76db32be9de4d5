#include "job_flags.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/core/text/system_error_text.h"
#include "acan/manager/text_file.h"
#include "device_factory.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace acan::cli {

void AddAuditLog(Command& app, std::string& path) {
  app.AddOption("--audit-log", path,
                "appends a line for every result to FILE: its key, hash and handler, each line "
                "chained to the one before; acan verify checks it")
      .TypeName("FILE");
}

void AddStopWithin(Command& app, StopFlag& flag) {
  constexpr double kMaxS = 86'400;
  app.AddOption("--stop-within", flag.within_s,
                "the time limit for a snapshot of the last finished step after a first stop signal "
                "(SIGINT, SIGTERM, SIGHUP); 0 stops at once, as a second signal does (default: 10)")
      .TypeName("SECONDS")
      .Between(0.0, kMaxS);
}

void AddJobFlags(Command& app, JobFlags& flags, bool required) {
  app.AddOption("job", flags.path, "the job file (see docs/jobs.md, or the files in examples/)")
      .Required(required)
      .TypeName("JOB.toml");
  AddOverrides(app, flags);
}

void AddOverrides(Command& app, JobFlags& flags) {
  app.AddOption("--set", flags.set,
                "overrides a key of the job, like train.epochs=3; may be repeated [$ACAN_SET, "
                "separated by ';']")
      .TypeName("KEY=VALUE")
      .Repeated();
}

namespace {

// The overrides in ACAN_SET.
std::vector<std::string> OverridesOfVariable() {
  std::vector<std::string> overrides;
  const char* variable = std::getenv("ACAN_SET");
  const std::string text = variable == nullptr ? "" : variable;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(';', begin), text.size());
    if (end > begin) overrides.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return overrides;
}

}  // namespace

void RequireNoOverrides(const JobFlags& flags, const std::string& kept) {
  if (!flags.set.empty()) throw UsageError(fmt::format("--set needs the job file; {}", kept));
  const std::vector<std::string> variable = OverridesOfVariable();
  if (variable.empty()) return;
  throw UsageError(fmt::format("ACAN_SET (here {}) needs the job file; {}. Unset the variable",
                               fmt::join(variable, ";"), kept));
}

std::string HowToNameJob(const std::string& folder) {
  return fmt::format("to continue from snapshots, name the job: acan train JOB.toml --resume {}",
                     folder);
}

void RequireInitialWeightsFile(const Job& job, const std::string& how) {
  std::error_code error;
  if (job.initial_weights.empty() || std::filesystem::exists(job.initial_weights, error)) return;
  if (error) return;  // whoever opens the file reports this
  throw UsageError(fmt::format(
      "model.initial_weights: {}: cannot open: {}; if the job's files are elsewhere now: {}",
      job.initial_weights, SystemErrorText(ENOENT), how));
}

Job ReadKeptJob(const std::string& folder, const JobFlags& flags) {
  const std::string path = folder + "/job.json";
  RequireNoOverrides(flags, path + " cannot be overridden");
  if (!std::filesystem::exists(path)) {
    if (std::filesystem::exists(folder + "/snapshots")) {
      throw UsageError(fmt::format("{}: cannot open: {}; {}", path, SystemErrorText(ENOENT),
                                   HowToNameJob(folder)));
    }
    throw UsageError(
        fmt::format("{}: cannot open: {}; --resume takes the folder (--out) of an earlier run",
                    path, SystemErrorText(ENOENT)));
  }
  const std::string text = ReadTextFile(path, kMaxJobBytes, "the job that a run keeps");
  const auto json = ParseJsonOrDiscard(text);
  if (json.is_discarded()) throw UsageError(fmt::format("{}: is not valid JSON", path));
  return JobFromJson(json, path);
}

Job ReadJob(const JobFlags& flags) {
  std::vector<std::string> overrides = OverridesOfVariable();
  overrides.insert(overrides.end(), flags.set.begin(), flags.set.end());
  return LoadJob(flags.path, overrides);
}

void AddClusterFlags(Command& app, ClusterFlags& flags, const std::string& handlers_by_default) {
  AddSetting(
      app, flags.handlers, "--handlers", "ACAN_HANDLERS",
      "the handlers, like cpu:1,opencl:0 or 4xcpu:1@64KiB (default: " + handlers_by_default + ")")
      .TypeName("LIST");
  AddSetting(app, flags.memory, "--memory", "ACAN_MEMORY",
             "the memory limit of each handler, like 64MiB (default: a share of half of the free "
             "memory; on a GPU, of nine tenths, less what its driver needs)")
      .TypeName("SIZE");
  AddSetting(app, flags.transport, "--transport", "ACAN_TRANSPORT",
             "how the processes communicate: ipc (default), or tcp on loopback, to which any local "
             "user can connect")
      .TypeName("KIND");
}

LocalClusterOptions ParseCluster(const ClusterFlags& flags) {
  LocalClusterOptions options;
  options.handlers = ChooseDevices(
      flags.handlers.set() ? ParseDeviceList(flags.handlers.value, flags.handlers.origin)
                           : ParseDeviceList("auto", "--handlers"));
  std::optional<std::uint64_t> each_bytes;
  if (flags.memory.set()) each_bytes = ParseMemory(flags.memory.value, flags.memory.origin);
  std::map<std::pair<std::string, int>, std::size_t> sharing;
  for (const DeviceSpec& spec : options.handlers) ++sharing[{spec.backend, HardwareIndex(spec)}];
  for (DeviceSpec& spec : options.handlers) {
    if (!spec.memory_bytes) spec.memory_bytes = each_bytes;
    if (spec.memory_bytes) continue;
    spec.memory_bytes = DefaultMemoryBytes(spec, options.handlers.size(),
                                           sharing[{spec.backend, HardwareIndex(spec)}]);
  }
  if (flags.transport.set() && flags.transport.value == "tcp") {
    options.transport = Transport::kTcp;
  } else if (flags.transport.set() && flags.transport.value != "ipc") {
    throw UsageError(fmt::format("{}: \"{}\" is not a transport; write ipc or tcp",
                                 flags.transport.origin, flags.transport.value));
  }
  return options;
}

std::string DefaultOutDir(const std::string& path) {
  const std::string stem = std::filesystem::path(path).stem().string();
  // "...toml" would lead to out/.., the current folder, whose files the run would replace.
  if (stem.empty() || stem == "." || stem == "..") {
    throw UsageError(fmt::format(
        "{}: its name gives the output folder no name (out/{}): name a folder with --out", path,
        stem));
  }
  return (std::filesystem::path("out") / stem).string();
}

}  // namespace acan::cli
