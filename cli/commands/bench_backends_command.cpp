// acan bench backends: compares all devices of this machine with their own limits.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "acan/core/error.h"
#include "acan/core/text/json_text.h"
#include "acan/core/text/system_error_text.h"
#include "backends_bench.h"
#include "command.h"
#include "device_factory.h"
#include "device_list.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "standard_output.h"
#include "terminal.h"

namespace acan::cli {
namespace {

constexpr const char* kBenchBackendsExample = R"(
Runs products, kernels, transfers and tiny tasks on each device, alternating with a measurement of
that device's own limit: the vendor's BLAS for products, plain fills and additions for kernels,
memcpy on the host for transfers. `acan devices` says which devices cannot be used, and why. The exit
code is 1 if a device fails.

Examples:
  acan bench backends
  acan bench backends --device cpu:2,opencl:0 --svg backends.svg
  acan bench backends --quick --json | jq '.kernels[] | {device, kernel, variant, ratio}')";

struct BenchBackendsFlags {
  bench::BackendsBenchOptions options;
  std::optional<int> repeats;
  std::string devices;
  std::string svg;
  bool json = false;
};

// Checks the path before a minute of measuring, not after it.
void CheckSvgPath(const std::string& path) {
  const std::filesystem::path file(path);
  const std::filesystem::path folder = file.has_parent_path() ? file.parent_path() : ".";
  const bool exists = ::access(path.c_str(), F_OK) == 0;
  const int refused = exists ? ::access(path.c_str(), W_OK) : ::access(folder.c_str(), W_OK | X_OK);
  std::error_code ignored;
  if (refused != 0 || !file.has_filename() || std::filesystem::is_directory(file, ignored)) {
    throw UsageError(
        fmt::format("--svg: \"{}\" cannot be written ({}); give a file in an existing folder", path,
                    refused != 0 ? SystemErrorText(errno) : "it is a folder"));
  }
}

void WriteSvg(const std::string& path, const std::string& svg) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << svg;
  file.close();
  if (!file) throw FailureError(fmt::format("writing {}: {}", path, SystemErrorText(errno)));
}

std::vector<DeviceSpec> ChosenSpecs(const std::string& list) {
  if (list.empty()) return PresentDevices();
  std::vector<DeviceSpec> once;
  for (const DeviceSpec& spec : ChooseDevices(ParseDeviceList(list, "--device"))) {
    const auto same = [&spec](const DeviceSpec& each) { return each.Name() == spec.Name(); };
    if (std::none_of(once.begin(), once.end(), same)) once.push_back(spec);
  }
  return once;
}

bench::BenchDevice MakeBenchDevice(const DeviceSpec& spec, std::size_t devices, bool quick) {
  const std::uint64_t bytes = bench::BackendsBenchBytes(quick);
  bench::BenchDevice made;
  made.device = MakeDevice(
      spec, spec.memory_bytes.value_or(std::min(bytes, DefaultMemoryBytes(spec, devices, 1))));
  if (spec.backend != "cpu" && UsesHostCores(spec)) {
    DeviceSpec cores;
    cores.threads = std::clamp(made.device->info().threads, 1, kMaxThreadsPerHandler);
    made.library = MakeDevice(cores, bytes);
  }
  return made;
}

int RunBackends(const BenchBackendsFlags& flags) {
  bench::BackendsBenchOptions options = flags.options;
  options.repeats =
      flags.repeats.value_or(options.quick ? bench::kMinBackendsRepeats : options.repeats);
  if (!flags.svg.empty()) CheckSvgPath(flags.svg);
  const std::vector<DeviceSpec> specs = ChosenSpecs(flags.devices);
  Terminal terminal;
  options.progress = [&terminal](const std::string& line) { terminal.Live(line); };
  std::vector<bench::BenchDevice> devices;
  for (const DeviceSpec& spec : specs) {
    terminal.Live("opening " + spec.Name());
    devices.push_back(MakeBenchDevice(spec, specs.size(), options.quick));
  }
  nlohmann::json result = bench::RunBackendsBench(devices, options);
  terminal.EndLive();
  result["acan"] = ACAN_VERSION;
  if (flags.json) {
    PrintLine(JsonText(result));
  } else {
    Print(bench::BackendsText(result));
  }
  if (!flags.svg.empty()) WriteSvg(flags.svg, bench::BackendsSvg(result));
  const auto failed = [](const nlohmann::json& device) { return !device["problem"].is_null(); };
  return std::any_of(result["devices"].begin(), result["devices"].end(), failed) ? 1 : 0;
}

}  // namespace

void AddBackendsBench(Command& bench, Chosen& chosen) {
  const auto flags = std::make_shared<BenchBackendsFlags>();
  Command command = bench.AddCommand("backends", "Every device compared with its own limits");
  command
      .AddOption("--device", flags->devices,
                 "devices separated by commas (default: cpu:1, all cores, and all that modules "
                 "offer)")
      .TypeName("LIST");
  command
      .AddOption("--repeats", flags->repeats,
                 fmt::format("the number of repeats, at least {} (default: {}; with --quick {})",
                             bench::kMinBackendsRepeats, flags->options.repeats,
                             bench::kMinBackendsRepeats))
      .Between(bench::kMinBackendsRepeats, bench::kMaxBackendsRepeats);
  command.AddFlag("--quick", flags->options.quick, "small sizes: a trial run of a few seconds");
  command.AddOption("--svg", flags->svg, "also draw the result into this file").TypeName("FILE");
  command.AddFlag("--json", flags->json, "one line of JSON");
  command.Footer(kBenchBackendsExample);
  command.OnParsed([flags, &chosen] { chosen.run = [flags] { return RunBackends(*flags); }; });
}

}  // namespace acan::cli
