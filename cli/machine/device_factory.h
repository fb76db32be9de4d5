// Makes the devices that users name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "acan/core/device.h"
#include "device_list.h"

namespace acan::cli {

// A device that may hold `memory_bytes`. ACAN_CPU_ISA (avx512, avx2 or portable) chooses the vector
// instructions; the best that the processor has without it. REQUIRES: `spec` is not "auto". Throws
// Error (usage) for what is not there, saying what is; what the device's module throws.
std::unique_ptr<Device> MakeDevice(const DeviceSpec& spec, std::uint64_t memory_bytes,
                                   FastMath fast_math = FastMath::kFp32);

// Throws Error (usage) if ACAN_CPU_ISA names no instructions that this processor has.
void CheckCpuIsa();

// "fp32", "tf32" or "bf16". `origin` as in device_list.h. Throws Error (usage) for others.
FastMath ParseFastMath(const std::string& text, const std::string& origin);

// What "auto" means for one handler: the first GPU that can be used, else all cores. Others are
// returned as they are.
DeviceSpec ChooseDevice(const DeviceSpec& spec);
// What "auto" means in a list: every GPU that can be used, and a "cpu:1" for each core. OpenCL
// devices that are the machine's own cores are left out: they would be used twice. Throws Error for
// devices of the list that are not there or cannot be used.
std::vector<DeviceSpec> ChooseDevices(const std::vector<DeviceSpec>& list);

// "cpu:1", "cpu:N" with all cores, and every device of a module that can be used. OpenCL devices
// that are the machine's own cores are among them.
std::vector<DeviceSpec> PresentDevices();
// Whether the device computes on the machine's own cores, whatever its backend. Throws Error for
// one whose module is not there.
bool UsesHostCores(const DeviceSpec& spec);

// What one of `handlers` handlers on this machine, this one on `spec`, may hold when nobody said:
// of the machine's memory a share of half of what is free, of a device's own nine tenths of what is
// free by `sharing`, the handlers of the list on that device. Never more than the device has.
std::uint64_t DefaultMemoryBytes(const DeviceSpec& spec, std::size_t handlers, std::size_t sharing);

// The only device of a command: what its flags --device and --memory say. No memory: the default.
// Throws Error (usage) that names the flag, and what MakeDevice throws.
std::unique_ptr<Device> MakeOneDevice(const std::string& device, const std::string& memory);

}  // namespace acan::cli
