// What identifies the hardware of a device, whichever driver lists it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "driver/cl.h"

namespace acan::opencl {

struct PciAddress {
  std::optional<std::uint32_t> domain;  // unset: the driver does not tell
  std::uint32_t bus = 0;
  std::uint32_t device = 0;
  std::uint32_t function = 0;
};

struct Hardware {
  std::string uuid;               // 16 bytes; empty: unknown
  std::optional<PciAddress> pci;  // unset: unknown, or it is not on such a bus
};

// `extensions`: the device's list of them.
Hardware HardwareOf(cl_device_id device, const std::string& extensions);

// Whether both addresses are known and equal, as far as both drivers tell.
bool SamePci(const Hardware& a, const Hardware& b);
// Whether both UUIDs are known and equal. Some drivers give two GPUs one UUID, so known addresses
// must not differ.
bool SameUuid(const Hardware& a, const Hardware& b);

}  // namespace acan::opencl
