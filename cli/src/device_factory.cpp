#include "device_factory.h"

#include <cstdlib>
#include <string>

#include "acan/core/error.h"
#include "acan/cpu/cpu_device.h"

namespace acan::cli {
namespace {

std::optional<CpuIsa> ChosenIsa() {
  const char* variable = std::getenv("ACAN_CPU_ISA");
  const std::string name = variable == nullptr ? "" : variable;
  if (name.empty()) return std::nullopt;
  const std::optional<CpuIsa> isa = ParseCpuIsa(name);
  if (!isa) {
    throw UsageError("ACAN_CPU_ISA: \"" + name +
                     "\" names no vector instructions; write avx512, avx2 or portable");
  }
  if (!CpuIsaAvailable(*isa)) {
    throw UsageError("ACAN_CPU_ISA: this processor has no " + name + "; its best is " +
                     std::string(CpuIsaName(DetectCpuIsa())));
  }
  return isa;
}

}  // namespace

std::unique_ptr<Device> MakeDevice(const DeviceSpec& spec, std::uint64_t memory_bytes) {
  CpuDeviceOptions options;
  options.threads = spec.threads;
  options.memory_limit_bytes = memory_bytes;
  options.isa = ChosenIsa();
  return MakeCpuDevice(options);
}

}  // namespace acan::cli
