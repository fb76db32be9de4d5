// acan devices: lists, measures and proves the devices of this machine.
#include <algorithm>

#include "acan/core/text/json_text.h"
#include "acan/handler/conformance.h"
#include "acan/module/loader.h"
#include "child.h"
#include "command.h"
#include "device_factory.h"
#include "device_list.h"
#include "driver_list.h"
#include "fmt/format.h"
#include "machine.h"
#include "nlohmann/json.hpp"
#include "process_setup.h"
#include "standard_output.h"
#include "watchdog.h"

namespace acan::cli {
namespace {

constexpr std::uint64_t kMeasuringBytes = std::uint64_t{64} << 20;  // limit while measuring

constexpr const char* kDevicesExample = R"(
For each device: the conformance battery (does it compute exact precision's bits?), the speed of
exact matrix products, and the rates of copies to and from it. Devices that cannot be used, and
missing drivers, are listed with the reason. ACAN_CPU_ISA=avx512, avx2 or portable chooses other
vector instructions; ACAN_MODULE_PATH is where the modules of OpenCL and CUDA are. The exit code is
1 if a usable device is not exact. --list skips the battery and the measurements, which take a
minute if an OpenCL driver has to compile the kernels first.

Examples:
  acan devices
  acan devices --list
  acan devices --json | jq '.[] | select(.usable) | {name, gflops}')";

const char* KindName(DeviceKind kind) {
  switch (kind) {
    case DeviceKind::kHostCpu:
      return "cpu";
    case DeviceKind::kGpu:
      return "gpu";
    case DeviceKind::kOther:
      break;
  }
  return "other";
}

nlohmann::json Described(const DeviceListing& listing) {
  const DeviceInfo& info = listing.info;
  nlohmann::json precisions = nlohmann::json::array();
  if (info.exact) precisions.push_back("exact");
  if (info.fast) precisions.push_back("fast");
  return {{"name", info.name},
          {"description", info.description},
          {"backend", info.backend},
          {"kind", KindName(listing.kind)},
          {"driver", listing.driver},
          {"vector_isa", info.vector_isa},
          {"threads", info.threads},
          {"parts", listing.parts},
          {"parted_by", listing.parted_by},
          {"memory_bytes", info.memory_bytes},
          {"same_as", listing.same_as
                          ? nlohmann::json(fmt::format("{}:{}", info.backend, *listing.same_as))
                          : nullptr},
          {"available_bytes", listing.free_bytes ? nlohmann::json(*listing.free_bytes) : nullptr},
          {"precisions", std::move(precisions)},
          {"usable", listing.unusable.empty()},
          {"problem", listing.unusable}};
}

// Proves and measures a device; a device that fails cannot be used and says why.
void Examine(Device& device, nlohmann::json& out) {
  const ConformanceResult conformance = RunConformance(device);
  const TransferRate transfer = MeasureTransfer(device);
  out["gflops"] = MeasureGflops(device);
  out["upload_gb_s"] = transfer.upload_gb_s;
  out["download_gb_s"] = transfer.download_gb_s;
  out["exact"] = device.info().exact && conformance.exact;
  out["conformance_hash"] = conformance.hash;
  out["first_difference"] = conformance.first_difference;
}

enum class Depth : std::uint8_t { kListed, kExamined };

nlohmann::json DescribeCpu(int threads, Depth depth) {
  DeviceSpec spec;
  spec.threads = threads;
  const std::unique_ptr<Device> device = MakeDevice(spec, kMeasuringBytes);
  DeviceListing listing;
  listing.info = device->info();
  listing.kind = DeviceKind::kHostCpu;
  listing.driver = "built in";
  listing.free_bytes = AvailableMemoryBytes();
  nlohmann::json out = Described(listing);
  if (depth == Depth::kExamined) Examine(*device, out);
  return out;
}

nlohmann::json DescribeListed(DeviceModule& module, int index, DeviceListing listing, Depth depth) {
  if ((listing.kind == DeviceKind::kHostCpu || listing.host_memory) && !listing.free_bytes) {
    listing.free_bytes = std::min(listing.info.memory_bytes, AvailableMemoryBytes());
  }
  nlohmann::json out = Described(listing);
  if (depth == Depth::kListed || !listing.unusable.empty()) return out;
  try {
    const std::uint64_t limit_bytes = std::min(kMeasuringBytes, listing.info.memory_bytes);
    Examine(*module.Make({index, std::nullopt, limit_bytes}), out);
  } catch (const std::exception& error) {
    out["usable"] = false;
    out["problem"] = error.what();
  }
  return out;
}

// The entry of a backend without a device.
nlohmann::json Missing(const std::string& backend, const std::string& problem) {
  DeviceListing listing;
  listing.info.name = backend;
  listing.info.backend = backend;
  listing.info.exact = listing.info.fast = false;
  listing.info.threads = 0;
  listing.unusable = problem;
  return Described(listing);
}

std::string SizesText(const nlohmann::json& device) {
  const auto gib = [&device](const char* key) {
    return device[key].get<double>() / static_cast<double>(std::uint64_t{1} << 30);
  };
  std::string text = fmt::format("{:.1f} GiB", gib("memory_bytes"));
  if (!device["available_bytes"].is_null()) {
    text += fmt::format(", {:.1f} GiB available", gib("available_bytes"));
  }
  return text;
}

std::string DeviceText(const nlohmann::json& device) {
  const auto text_of = [&device](const char* key) { return device[key].get<std::string>(); };
  const auto row = [](const char* name, const std::string& value) {
    return value.empty() ? "" : fmt::format("  {:<13} {}\n", name, value);
  };
  std::string text = text_of("name");
  if (!text_of("description").empty()) text += ": " + text_of("description");
  text += "\n" + row("driver", text_of("driver"));
  if (!device["usable"].get<bool>()) return text + row("NOT usable", text_of("problem"));
  text += row("memory", SizesText(device));
  text += row(device["backend"] == "cpu" ? "threads" : "compute units",
              std::to_string(device["threads"].get<int>()));
  text += row("instructions", text_of("vector_isa"));
  if (!device["same_as"].is_null()) {
    text += row("same GPU as", text_of("same_as") + ", by another driver, which auto uses");
  }
  if (device["parts"].get<int>() > 0) {
    text += row("parts", fmt::format("{0}/0 to {0}/{1}, each {2}", text_of("name"),
                                     device["parts"].get<int>() - 1, text_of("parted_by")));
  }
  std::string precisions;
  for (const nlohmann::json& each : device["precisions"]) {
    precisions += (precisions.empty() ? "" : ", ") + each.get<std::string>();
  }
  text += row("precisions", precisions);
  if (!device.contains("exact")) return text;
  text += row("exact speed", fmt::format("{:.1f} GFLOP/s", device["gflops"].get<double>()));
  text += row("copies", fmt::format("{:.1f} GB/s to it, {:.1f} GB/s from it",
                                    device["upload_gb_s"].get<double>(),
                                    device["download_gb_s"].get<double>()));
  return text + row("conformance", device["exact"].get<bool>()
                                       ? "exact, " + text_of("conformance_hash").substr(0, 16)
                                       : "NOT exact: the first operation that differs is " +
                                             text_of("first_difference"));
}

int RunDevices(bool json, Depth depth) {
  RequireLimits("acan devices");
  ListAllDevices();
  Watchdog watchdog(
      Watchdog::OnStderr("acan devices", "it is measuring a device, or a driver does not respond"));
  nlohmann::json devices = nlohmann::json::array();
  bool exact = true;
  const auto add = [&](nlohmann::json device) {
    watchdog.Beat();
    if (device.contains("exact")) exact = exact && device["exact"].get<bool>();
    if (!json) Print(DeviceText(device));
    devices.push_back(std::move(device));
  };
  add(DescribeCpu(1, depth));
  if (UsableCores() > 1) add(DescribeCpu(UsableCores(), depth));
  for (const char* backend : kModuleBackends) {
    const DeviceList& list = DevicesOf(backend);
    if (list.devices.empty()) add(Missing(backend, list.problem));
    for (std::size_t i = 0; i < list.devices.size(); ++i) {
      DeviceModule& module = *LoadModule(backend).module;
      add(DescribeListed(module, static_cast<int>(i), list.devices[i], depth));
    }
  }
  if (json) PrintLine(JsonText(devices));
  return exact ? 0 : 1;
}

}  // namespace

void AddDevices(Command& app, Chosen& chosen) {
  struct Flags {
    bool json = false;
    bool list = false;
    std::string backend;  // of which it is the listing child
    int parent = 0;       // of that child
  };
  const auto flags = std::make_shared<Flags>();
  Command command = app.AddCommand("devices", "List, verify and measure this machine's devices");
  command.AddFlag("--json", flags->json, "one line of JSON: an array of devices");
  command.AddFlag("--list", flags->list,
                  "only lists the devices, without verifying or measuring them");
  command.AddOption(kListingFlag, flags->backend, "").Hidden();
  command.AddOption(kChildFlag, flags->parent, "").Hidden();
  command.Footer(kDevicesExample);
  command.OnParsed([flags, &chosen] {
    chosen.run = [flags] {
      if (flags->parent != 0 && !AdoptParent(flags->parent)) return 1;
      if (!flags->backend.empty()) PrintDevicesAndExit(flags->backend);
      return RunDevices(flags->json, flags->list ? Depth::kListed : Depth::kExamined);
    };
  });
}

}  // namespace acan::cli
