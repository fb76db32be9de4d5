// acan devices: what this machine has, measured and proved.
#include "CLI/CLI.hpp"
#include "acan/handler/conformance.h"
#include "command.h"
#include "device_factory.h"
#include "device_list.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"

namespace acan::cli {
namespace {

constexpr std::uint64_t kMeasuringBytes = std::uint64_t{64} << 20;  // what the measurement may hold

constexpr const char* kExample = R"(
Runs the conformance battery (does the device compute exact precision's bits?) and measures the
speed of exact matrix products. ACAN_CPU_ISA=avx2 or portable chooses other vector instructions.
The exit code is 1 if a device is not exact.

Examples:
  acan devices
  acan devices --json | jq '.[].gflops')";

nlohmann::json Examine(const DeviceSpec& spec) {
  const std::unique_ptr<Device> device = MakeDevice(spec, kMeasuringBytes);
  const ConformanceResult conformance = RunConformance(*device);
  const DeviceInfo& info = device->info();
  return {{"name", info.name},
          {"description", info.description},
          {"backend", info.backend},
          {"vector_isa", info.vector_isa},
          {"threads", info.threads},
          {"memory_bytes", info.memory_bytes},
          {"available_bytes", AvailableMemoryBytes()},
          {"gflops", MeasureGflops(*device)},
          {"exact", conformance.exact},
          {"conformance_hash", conformance.hash},
          {"first_difference", conformance.first_difference}};
}

std::string DeviceText(const nlohmann::json& device) {
  const auto gib = [&device](const char* key) {
    return device[key].get<double>() / static_cast<double>(std::uint64_t{1} << 30);
  };
  std::string text = fmt::format(
      "{}: {}\n  instructions  {}\n  memory        {:.1f} GiB, {:.1f} GiB available\n"
      "  exact speed   {:.1f} GFLOP/s\n  conformance   ",
      device["name"].get<std::string>(), device["description"].get<std::string>(),
      device["vector_isa"].get<std::string>(), gib("memory_bytes"), gib("available_bytes"),
      device["gflops"].get<double>());
  if (device["exact"].get<bool>()) {
    text += "exact, " + device["conformance_hash"].get<std::string>().substr(0, 16) + "\n";
  } else {
    text += "NOT exact: the first operation that differs is " +
            device["first_difference"].get<std::string>() + "\n";
  }
  return text;
}

int RunDevices(bool json) {
  std::vector<DeviceSpec> specs = {{1, std::nullopt}};
  if (UsableCores() > 1) specs.push_back({UsableCores(), std::nullopt});
  nlohmann::json devices = nlohmann::json::array();
  bool exact = true;
  for (const DeviceSpec& spec : specs) {
    devices.push_back(Examine(spec));
    exact = exact && devices.back()["exact"].get<bool>();
    if (!json) Print(DeviceText(devices.back()));
  }
  if (json) PrintLine(devices.dump());
  return exact ? 0 : 1;
}

}  // namespace

void AddDevices(CLI::App& app, Chosen& chosen) {
  const auto json = std::make_shared<bool>(false);
  CLI::App* command =
      app.add_subcommand("devices", "Show, prove and measure this machine's devices");
  command->add_flag("--json", *json, "one line of JSON: an array of devices");
  command->footer(kExample);
  command->callback([json, &chosen] { chosen.run = [json] { return RunDevices(*json); }; });
}

}  // namespace acan::cli
