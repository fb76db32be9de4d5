// A device module: a shared object "acan_BACKEND.so" with the devices of one kind of driver. acan
// itself links no driver; it loads the modules that it finds (loader.h).
//
// A module exports two C names, and nothing else that matters:
//
//   acan_module_version   a text; a module whose text is not the loader's is refused unread, since
//                         the classes below need not mean the same in it
//   acan_module           returns the one DeviceModule of the process
//
// Both are defined by ACAN_DEVICE_MODULE(Type). A module is never unloaded: its buffers may be
// released at any time, and drivers do not like to go.
//
// Exceptions pass between module and program as they are (std::exception's family, acan::Error,
// OutOfMemory, DeviceLost). Both sides must have been built with one C++ library.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "acan/core/device.h"

namespace acan {

enum class DeviceKind : std::uint8_t {
  kHostCpu,  // the cores and the memory of this machine: what "cpu:N" uses too
  kGpu,
  kOther,
};

// A device as its driver describes it.
struct DeviceListing {
  DeviceInfo info;  // name: what --device takes; info.exact, info.fast: what Make()'s would claim
  DeviceKind kind = DeviceKind::kOther;
  std::string driver;                       // "PoCL 3.1", with the driver's version
  std::uint32_t vendor_id = 0;              // PCI vendor, if the driver tells
  std::optional<std::uint64_t> free_bytes;  // of its memory, if the driver tells
  int parts = 0;          // "BACKEND:N/0" to "BACKEND:N/(parts - 1)" are parts of it; 0: uncut
  std::string parted_by;  // what one part is: "1 compute unit"; empty if it has none
  std::string unusable;   // why no handler can use it; empty: one can
};

struct DeviceList {
  std::vector<DeviceListing> devices;  // device i of it has number i
  std::string problem;                 // why there is none, in the driver's words; else empty
};

struct DeviceChoice {
  int index = 0;            // of the list
  std::optional<int> part;  // a part of the device; nothing: the whole
  std::uint64_t memory_limit_bytes = 0;
  FastMath fast_math = FastMath::kFp32;  // a wish: backends without such products ignore it
};

// Any thread; List and Make may be slow, as drivers are.
class DeviceModule {
 public:
  virtual ~DeviceModule() = default;

  // All devices of the driver, those that cannot be used among them. Throws nothing for a driver
  // that is missing or has no device: that is `problem`.
  virtual DeviceList List() = 0;

  // Throws Error (usage) for a number, part or limit that cannot be, and says which can; Error
  // (failure) for a device that cannot be used; std::runtime_error with the driver's words.
  virtual std::unique_ptr<Device> Make(const DeviceChoice& choice) = 0;
};

}  // namespace acan

#define ACAN_DEVICE_MODULE(Type)                                                          \
  extern "C" __attribute__((visibility("default"))) const char acan_module_version[];     \
  extern "C" const char acan_module_version[] = ACAN_MODULE_VERSION;                      \
  extern "C" __attribute__((visibility("default"))) acan::DeviceModule* acan_module() {   \
    static auto* const module = new Type; /* never destroyed: buffers may outlive main */ \
    return module;                                                                        \
  }
