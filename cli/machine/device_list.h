// Parses what users write for devices and bytes: "cpu:2", "cpu:1@64KiB,4xcpu:1", "1.5GiB".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace acan::cli {

inline constexpr int kMaxHandlers = 1024;  // of one LIST
inline constexpr int kMaxThreadsPerHandler = 1024;
inline constexpr int kMaxDeviceNumber = 1023;

// One handler: its device and, if given, the most bytes that it may hold.
struct DeviceSpec {
  int threads = 1;  // cpu only
  std::optional<std::uint64_t> memory_bytes;
  std::string backend = "cpu";             // "cpu", "opencl", "cuda", or "auto": see ChooseDevice
  int index = 0;                           // the device's number in its backend; not for cpu
  std::optional<int> part = std::nullopt;  // of the device; unset: the whole device

  std::string Name() const;  // "cpu:2", "opencl:0", "opencl:0/1", "auto"
  friend bool operator==(const DeviceSpec&, const DeviceSpec&) = default;
};

// In all of these, `origin` is the source of the text ("--memory", "ACAN_MEMORY"). They throw Error
// (usage), which names the origin, the text and the valid forms.

// A number of bytes above 0.
std::uint64_t ParseMemory(const std::string& text, const std::string& origin);
// "cpu" (all cores that this process may use), "cpu:THREADS", "opencl:N", "opencl:N/PART",
// "cuda:N", "auto", each with or without "@SIZE". "opencl" alone is "opencl:0".
DeviceSpec ParseDevice(const std::string& text, const std::string& origin);
// Devices separated by commas; "Nx" before a device repeats it N times.
std::vector<DeviceSpec> ParseDeviceList(const std::string& text, const std::string& origin);

}  // namespace acan::cli
