// The devices of the drivers, listed by child processes. A driver may end the process that loads
// it: the OpenCL loader loads all drivers, and two of them that each bring an LLVM abort.
#pragma once

#include <optional>
#include <string>

#include "acan/module/module.h"

namespace acan::cli {

// The hidden flag of `acan devices` with which this program starts itself as such a child.
inline constexpr const char* kListingFlag = "--list-backend";

// The devices of a backend, or why there are none: also that its module is missing, or that its
// driver ended the process or did not answer within a minute. The first call lists them, and later
// calls return the same list. One thread at a time, which must not end during a call.
const DeviceList& DevicesOf(const std::string& backend);
// Lists those of all backends with modules, at the same time; then DevicesOf returns at once.
void ListAllDevices();

// In the child: writes the list of `backend` to stdout, and ends the process.
[[noreturn]] void PrintDevicesAndExit(const std::string& backend);

// A list as one line of JSON, and back. nullopt for other lines.
std::string DeviceListLine(const DeviceList& list);
std::optional<DeviceList> ParseDeviceListLine(const std::string& line);

}  // namespace acan::cli
