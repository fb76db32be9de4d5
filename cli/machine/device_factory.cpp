#include "device_factory.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "acan/core/error.h"
#include "acan/cpu/cpu_device.h"
#include "acan/module/loader.h"
#include "acan/module/module.h"
#include "driver_list.h"
#include "fmt/format.h"
#include "machine.h"

namespace acan::cli {
namespace {

constexpr std::uint32_t kNvidia = 0x10de;

std::optional<CpuIsa> ChosenIsa() {
  const char* variable = std::getenv("ACAN_CPU_ISA");
  const std::string name = variable == nullptr ? "" : variable;
  if (name.empty()) return std::nullopt;
  const std::optional<CpuIsa> isa = ParseCpuIsa(name);
  if (!isa) {
    throw UsageError("ACAN_CPU_ISA: \"" + name +
                     "\" is not a set of vector instructions; write avx512, avx2 or portable");
  }
  if (!CpuIsaAvailable(*isa)) {
    throw UsageError("ACAN_CPU_ISA: this processor, or this build of acan, does not support " +
                     name + "; the best is " + std::string(CpuIsaName(DetectCpuIsa())));
  }
  return isa;
}

DeviceModule& ModuleOf(const DeviceSpec& spec) {
  const LoadedModule& loaded = LoadModule(spec.backend);
  if (loaded.module == nullptr) {
    throw FailureError(fmt::format("{} cannot be used: {}", spec.Name(), loaded.problem));
  }
  return *loaded.module;
}

// Checks that a module has the device, before processes are started for it.
void CheckListed(const DeviceSpec& spec) {
  const DeviceList& list = DevicesOf(spec.backend);
  if (list.devices.empty()) {
    throw FailureError(fmt::format("{} cannot be used: {}", spec.Name(), list.problem));
  }
  if (static_cast<std::size_t>(spec.index) >= list.devices.size()) {
    throw UsageError(fmt::format("{} does not exist: the last one is {}", spec.Name(),
                                 list.devices.back().info.name));
  }
  const DeviceListing& device = list.devices[static_cast<std::size_t>(spec.index)];
  if (!device.unusable.empty()) {
    throw FailureError(fmt::format("{} cannot be used: {}", spec.Name(), device.unusable));
  }
  if (spec.part && *spec.part >= device.parts) {
    throw UsageError(fmt::format("{} does not exist: {} has {} parts", spec.Name(),
                                 device.info.name, device.parts));
  }
}

// Every usable GPU, once: NVIDIA's GPUs by CUDA if that works, and then not also by OpenCL, and a
// GPU of several OpenCL drivers by one of them.
std::vector<DeviceSpec> UsableGpus() {
  std::vector<DeviceSpec> gpus;
  ListAllDevices();
  for (const char* backend : kModuleBackends) {
    const bool has_cuda = !gpus.empty() && gpus.front().backend == "cuda";
    for (DeviceSpec& each : AutomaticGpus(backend, DevicesOf(backend), has_cuda)) {
      gpus.push_back(std::move(each));
    }
  }
  return gpus;
}

}  // namespace

std::vector<DeviceSpec> AutomaticGpus(const std::string& backend, const DeviceList& list,
                                      bool has_cuda) {
  std::vector<DeviceSpec> gpus;
  for (std::size_t i = 0; i < list.devices.size(); ++i) {
    const DeviceListing& device = list.devices[i];
    if (!device.unusable.empty() || device.kind != DeviceKind::kGpu || device.same_as) continue;
    if (has_cuda && backend == "opencl" && device.vendor_id == kNvidia) continue;
    DeviceSpec spec;
    spec.backend = backend;
    spec.index = static_cast<int>(i);
    gpus.push_back(spec);
  }
  return gpus;
}

void CheckCpuIsa() {
  ChosenIsa();
}

FastMath ParseFastMath(const std::string& text, const std::string& origin) {
  if (text == "fp32") return FastMath::kFp32;
  if (text == "tf32") return FastMath::kTf32;
  if (text == "bf16") return FastMath::kBf16;
  throw UsageError(fmt::format(
      "{}: \"{}\" is not a precision of fast products; write fp32, tf32 or bf16", origin, text));
}

std::unique_ptr<Device> MakeDevice(const DeviceSpec& spec, std::uint64_t memory_bytes,
                                   FastMath fast_math) {
  if (spec.backend != "cpu") {
    return ModuleOf(spec).Make({spec.index, spec.part, memory_bytes, fast_math});
  }
  CpuDeviceOptions options;
  options.threads = spec.threads;
  options.memory_limit_bytes = memory_bytes;
  options.isa = ChosenIsa();
  options.fast_math = fast_math;
  return MakeCpuDevice(options);
}

DeviceSpec ChooseDevice(const DeviceSpec& spec) {
  if (spec.backend != "auto") return spec;
  DeviceSpec chosen;
  const std::vector<DeviceSpec> gpus = UsableGpus();
  if (gpus.empty()) {
    chosen.threads = UsableCores();
  } else {
    chosen = gpus.front();
  }
  chosen.memory_bytes = spec.memory_bytes;
  return chosen;
}

std::vector<DeviceSpec> ChooseDevices(const std::vector<DeviceSpec>& list) {
  std::vector<DeviceSpec> chosen;
  for (const DeviceSpec& spec : list) {
    if (spec.backend != "auto") {
      if (spec.backend != "cpu") CheckListed(spec);
      chosen.push_back(spec);
      continue;
    }
    std::vector<DeviceSpec> all = UsableGpus();
    all.insert(all.end(), static_cast<std::size_t>(UsableCores()), DeviceSpec{});
    for (DeviceSpec& each : all) {
      each.memory_bytes = spec.memory_bytes;
      chosen.push_back(each);
    }
  }
  if (chosen.size() > kMaxHandlers) {
    throw UsageError(
        fmt::format("{} handlers are too many; the limit is {}", chosen.size(), kMaxHandlers));
  }
  return chosen;
}

std::vector<DeviceSpec> PresentDevices() {
  std::vector<DeviceSpec> present = {DeviceSpec{}};
  if (UsableCores() > 1) {
    DeviceSpec all_cores;
    all_cores.threads = UsableCores();
    present.push_back(all_cores);
  }
  ListAllDevices();
  for (const char* backend : kModuleBackends) {
    const DeviceList& list = DevicesOf(backend);
    for (std::size_t i = 0; i < list.devices.size(); ++i) {
      if (!list.devices[i].unusable.empty()) continue;
      DeviceSpec spec;
      spec.backend = backend;
      spec.index = static_cast<int>(i);
      present.push_back(spec);
    }
  }
  return present;
}

bool UsesHostCores(const DeviceSpec& spec) {
  if (spec.backend == "cpu") return true;
  ModuleOf(spec);  // throws if it is missing
  const std::vector<DeviceListing>& devices = DevicesOf(spec.backend).devices;
  const auto index = static_cast<std::size_t>(spec.index);
  return index < devices.size() && devices[index].kind == DeviceKind::kHostCpu;
}

int HardwareIndex(const DeviceSpec& spec) {
  return spec.backend == "cpu" ? spec.index : HardwareIndex(spec, DevicesOf(spec.backend));
}

int HardwareIndex(const DeviceSpec& spec, const DeviceList& list) {
  const auto index = static_cast<std::size_t>(spec.index);
  return index < list.devices.size() ? list.devices[index].same_as.value_or(spec.index)
                                     : spec.index;
}

namespace {

// What a process takes of a GPU beside its buffers: its context, and local memory for all threads
// that can run at once, up to 7 KB for each of 2,048 threads of a multiprocessor.
std::uint64_t OverheadBytes(const DeviceListing& gpu) {
  constexpr std::uint64_t kContextBytes = 512 << 20;
  constexpr std::uint64_t kMultiprocessorBytes = 14 << 20;
  return kContextBytes + static_cast<std::uint64_t>(gpu.info.threads) * kMultiprocessorBytes;
}

}  // namespace

std::uint64_t DefaultMemoryBytes(const DeviceSpec& spec, std::size_t handlers,
                                 std::size_t sharing) {
  const std::uint64_t of_machine = DefaultMemoryBytes(handlers);
  if (spec.backend == "cpu") return of_machine;
  ModuleOf(spec);  // throws if it is missing
  const std::vector<DeviceListing>& devices = DevicesOf(spec.backend).devices;
  const auto index = static_cast<std::size_t>(spec.index);
  if (index >= devices.size()) return of_machine;  // MakeDevice reports the error
  return DefaultMemoryBytes(devices[index], handlers, sharing);
}

std::uint64_t DefaultMemoryBytes(const DeviceListing& device, std::size_t handlers,
                                 std::size_t sharing) {
  const std::uint64_t free = device.free_bytes.value_or(device.info.memory_bytes);
  const std::uint64_t processes = std::max<std::size_t>(1, sharing);
  if (device.kind == DeviceKind::kHostCpu || device.host_memory) {
    return std::min(DefaultMemoryBytes(handlers), free / 10 * 9 / processes);
  }
  const std::uint64_t overhead = std::min(free / 2, processes * OverheadBytes(device));
  return (free - overhead) / 10 * 9 / processes;
}

std::unique_ptr<Device> MakeOneDevice(const std::string& device, const std::string& memory) {
  const DeviceSpec spec = ChooseDevice(ParseDevice(device, "--device"));
  std::uint64_t bytes = DefaultMemoryBytes(spec, 1, 1);
  if (!memory.empty()) bytes = ParseMemory(memory, "--memory");
  if (spec.memory_bytes) bytes = *spec.memory_bytes;
  return MakeDevice(spec, bytes);
}

}  // namespace acan::cli
