#include "device_list.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "acan/core/error.h"
#include "acan/core/text/size_text.h"
#include "fmt/format.h"
#include "machine.h"

namespace acan::cli {
namespace {

constexpr const char* kDeviceForm =
    "\"cpu\", \"cpu:THREADS\", \"opencl:N\", \"opencl:N/PART\", \"cuda:N\" or \"auto\", each "
    "optionally followed by \"@SIZE\"";

// A decimal number in [least, most], or empty.
std::optional<int> ParseNumber(std::string_view text, int least, int most) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  if (value < least || value > most) return std::nullopt;
  return value;
}

std::optional<int> ParseCount(std::string_view text, int most) {
  return ParseNumber(text, 1, most);
}

// "4xcpu:1" gives 4 and "cpu:1"; other texts give 1 and the text itself.
std::pair<int, std::string> SplitRepeat(const std::string& text, const std::string& origin) {
  const std::size_t cross = text.find('x');
  const std::size_t digits = text.find_first_not_of("0123456789");
  if (cross == std::string::npos || cross == 0 || digits != cross) return {1, text};
  const auto count = ParseCount(std::string_view(text).substr(0, cross), kMaxHandlers);
  if (!count) {
    throw UsageError(fmt::format("{}: \"{}\" asks for {} handlers; from 1 to {} are possible",
                                 origin, text, text.substr(0, cross), kMaxHandlers));
  }
  return {*count, text.substr(cross + 1)};
}

// "0" or "0/1" after "opencl:".
void ParseIndex(const std::string& text, const std::string& number, const std::string& origin,
                DeviceSpec& spec) {
  const std::size_t slash = number.find('/');
  const auto index = ParseNumber(std::string_view(number).substr(0, slash), 0, kMaxDeviceNumber);
  if (index) spec.index = *index;
  if (index && slash == std::string::npos) return;
  if (index) {
    spec.part = ParseNumber(std::string_view(number).substr(slash + 1), 0, kMaxDeviceNumber);
    if (spec.part) return;
  }
  throw UsageError(
      fmt::format("{}: \"{}\": \"{}\" is not a device number; write {}:0, or {}:0/1 for its second "
                  "part (`acan devices` lists the devices)",
                  origin, text, number, spec.backend, spec.backend));
}

std::string Trimmed(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

}  // namespace

std::string DeviceSpec::Name() const {
  if (backend == "auto") return backend;
  if (backend == "cpu") return fmt::format("cpu:{}", threads);
  return part ? fmt::format("{}:{}/{}", backend, index, *part)
              : fmt::format("{}:{}", backend, index);
}

std::uint64_t ParseMemory(const std::string& text, const std::string& origin) {
  const std::optional<std::uint64_t> bytes = ParseSize(Trimmed(text));
  if (!bytes) {
    throw UsageError(
        fmt::format("{}: \"{}\" is not a size; write a number of bytes, or a number with B, KiB, "
                    "MiB, GiB or TiB, like 65536, "
                    "64KiB or 1.5GiB",
                    origin, text));
  }
  if (*bytes == 0) {
    throw UsageError(fmt::format("{}: \"{}\" must be at least 1 byte", origin, text));
  }
  return *bytes;
}

DeviceSpec ParseDevice(const std::string& text, const std::string& origin) {
  DeviceSpec spec;
  std::string device = Trimmed(text);
  const std::size_t at = device.find('@');
  if (at != std::string::npos) {
    spec.memory_bytes =
        ParseMemory(device.substr(at + 1), fmt::format("{}, in \"{}\"", origin, text));
    device = device.substr(0, at);
  }
  const std::size_t colon = device.find(':');
  const std::string backend = device.substr(0, colon);
  const bool of_module = backend == "opencl" || backend == "cuda";
  if (device == "auto" || of_module) {
    spec.backend = backend;
    if (colon != std::string::npos) ParseIndex(text, device.substr(colon + 1), origin, spec);
    return spec;
  }
  if (device == "cpu") {
    spec.threads = UsableCores();
    return spec;
  }
  if (backend != "cpu") {
    throw UsageError(
        fmt::format("{}: \"{}\" is not a device; write {}", origin, text, kDeviceForm));
  }
  const auto threads =
      ParseCount(std::string_view(device).substr(colon + 1), kMaxThreadsPerHandler);
  if (!threads) {
    throw UsageError(
        fmt::format("{}: \"{}\": \"{}\" is not a number of threads; write 1 to {}, like cpu:2",
                    origin, text, device.substr(colon + 1), kMaxThreadsPerHandler));
  }
  spec.threads = *threads;
  return spec;
}

std::vector<DeviceSpec> ParseDeviceList(const std::string& text, const std::string& origin) {
  std::vector<DeviceSpec> list;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t comma = std::min(text.find(',', begin), text.size());
    const std::string entry = Trimmed(text.substr(begin, comma - begin));
    begin = comma + 1;
    if (entry.empty()) {
      throw UsageError(
          fmt::format("{}: \"{}\" has an empty entry; write devices separated by commas, "
                      "like cpu:1,cpu:2 or 4xcpu:1@64KiB",
                      origin, text));
    }
    const auto [count, device] = SplitRepeat(entry, origin);
    const DeviceSpec spec = ParseDevice(device, origin);
    if (list.size() + static_cast<std::size_t>(count) > kMaxHandlers) {
      throw UsageError(
          fmt::format("{}: \"{}\" names more than {} handlers", origin, text, kMaxHandlers));
    }
    list.insert(list.end(), static_cast<std::size_t>(count), spec);
  }
  return list;
}

}  // namespace acan::cli
