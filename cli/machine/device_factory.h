// Makes the devices that users name.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "acan/core/device.h"
#include "device_list.h"

namespace acan {
struct DeviceList;
struct DeviceListing;
}  // namespace acan

namespace acan::cli {

// A device that may hold `memory_bytes`. ACAN_CPU_ISA (avx512, avx2 or portable) selects the vector
// instructions; by default, the best that the processor has. REQUIRES: `spec` is not "auto". Throws
// Error (usage) for a device that does not exist, naming those that do, and what the device's
// module throws.
std::unique_ptr<Device> MakeDevice(const DeviceSpec& spec, std::uint64_t memory_bytes,
                                   FastMath fast_math = FastMath::kFp32);

// Throws Error (usage) if ACAN_CPU_ISA names no instructions that this processor has.
void CheckCpuIsa();

// "fp32", "tf32" or "bf16". `origin` as in device_list.h. Throws Error (usage) for others.
FastMath ParseFastMath(const std::string& text, const std::string& origin);

// The device that "auto" stands for in one handler: the first usable GPU, otherwise all cores.
// Returns other devices unchanged.
DeviceSpec ChooseDevice(const DeviceSpec& spec);
// The devices that "auto" stands for in a list: every usable GPU, and a "cpu:1" for each core.
// OpenCL devices that are the machine's own cores are left out, since the cores would be used
// twice. Throws Error for listed devices that do not exist or cannot be used.
std::vector<DeviceSpec> ChooseDevices(const std::vector<DeviceSpec>& list);

// The GPUs of one backend that "auto" uses: those of `list` that are usable, each once, even if
// several drivers list it. With `has_cuda`, NVIDIA's GPUs are left out.
std::vector<DeviceSpec> AutomaticGpus(const std::string& backend, const DeviceList& list,
                                      bool has_cuda);

// "cpu:1", "cpu:N" with all cores, and every usable device of a module, including OpenCL devices
// that are the machine's own cores.
std::vector<DeviceSpec> PresentDevices();
// Whether the device computes on the machine's own cores, whatever its backend. Throws Error if its
// module is missing.
bool UsesHostCores(const DeviceSpec& spec);

// The number of a device, which its listings by several drivers share. Handlers with one number
// share the hardware's memory.
int HardwareIndex(const DeviceSpec& spec);
int HardwareIndex(const DeviceSpec& spec, const DeviceList& list);

// The default for what this handler, one of `handlers` on this machine, may hold on `spec`. On the
// machine's memory, which integrated GPUs use, too: an equal share of half of what is free. On a
// device's own memory: nine tenths of what is free without what the processes need beside their
// buffers, divided by `sharing`, the number of handlers in the list on that device's hardware.
std::uint64_t DefaultMemoryBytes(const DeviceSpec& spec, std::size_t handlers, std::size_t sharing);
// The same for a device as its module (acan/module/module.h) lists it.
std::uint64_t DefaultMemoryBytes(const DeviceListing& device, std::size_t handlers,
                                 std::size_t sharing);

// The only device of a command, from its flags --device and --memory. Without a memory, the
// default. Throws Error (usage), which names the flag, and what MakeDevice throws.
std::unique_ptr<Device> MakeOneDevice(const std::string& device, const std::string& memory);

}  // namespace acan::cli
