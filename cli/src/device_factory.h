// Makes the devices that users name.
#pragma once

#include <cstdint>
#include <memory>

#include "acan/core/device.h"
#include "device_list.h"

namespace acan::cli {

// A device that may hold `memory_bytes`. ACAN_CPU_ISA (avx512, avx2 or portable) chooses the vector
// instructions; the best that the processor has without it. Throws Error (usage).
std::unique_ptr<Device> MakeDevice(const DeviceSpec& spec, std::uint64_t memory_bytes);

}  // namespace acan::cli
