// What users write for devices and bytes: "cpu:2", "cpu:1@64KiB,4xcpu:1", "1.5GiB".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace acan::cli {

inline constexpr int kMaxHandlers = 1024;  // of one LIST
inline constexpr int kMaxThreadsPerHandler = 1024;
inline constexpr int kMaxDeviceNumber = 1023;

// One handler: what it runs on and, if said, the most bytes it may hold.
struct DeviceSpec {
  int threads = 1;  // cpu only
  std::optional<std::uint64_t> memory_bytes;
  std::string backend = "cpu";             // "cpu", "opencl", "cuda", or "auto": see ChooseDevice
  int index = 0;                           // which of its backend; not for cpu
  std::optional<int> part = std::nullopt;  // of the device; nothing: all of it

  std::string Name() const;  // "cpu:2", "opencl:0", "opencl:0/1", "auto"
  friend bool operator==(const DeviceSpec&, const DeviceSpec&) = default;
};

// In all of these `origin` is where the text came from ("--memory", "ACAN_MEMORY"). They throw
// Error (usage) that names the origin, the text and what would be right.

// A number of bytes above 0.
std::uint64_t ParseMemory(const std::string& text, const std::string& origin);
// "cpu" (all cores that this process may use), "cpu:THREADS", "opencl:N", "opencl:N/PART",
// "cuda:N", "auto", each with "@SIZE" or without. "opencl" alone is "opencl:0".
DeviceSpec ParseDevice(const std::string& text, const std::string& origin);
// Devices separated by commas; "Nx" before one stands for N of it.
std::vector<DeviceSpec> ParseDeviceList(const std::string& text, const std::string& origin);

}  // namespace acan::cli
