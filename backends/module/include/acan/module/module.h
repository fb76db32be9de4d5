// A device module: a shared object "acan_BACKEND.so" that provides the devices of one kind of
// driver. acan itself links no driver; it loads the modules that it finds (loader.h).
//
// A module exports two C symbols; the loader uses no others:
//
//   acan_module_version   a text; the loader refuses a module whose text differs from its own
//                         without calling it, since the classes below may differ
//   acan_module           returns the one DeviceModule of the process
//
// ACAN_DEVICE_MODULE(Type) defines both. A module is never unloaded, because its buffers may be
// released at any time and drivers do not unload reliably.
//
// Exceptions (std::exception and its subclasses, acan::Error, OutOfMemory, DeviceLost) propagate
// from the module to the program unchanged. Both must be built with the same C++ library.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "acan/core/device.h"

namespace acan {

enum class DeviceKind : std::uint8_t {
  kHostCpu,  // the cores and the memory of this machine, which "cpu:N" uses too
  kGpu,
  kOther,
};

// A device as its driver describes it.
struct DeviceListing {
  DeviceInfo info;  // name: what --device takes; exact, fast: what Make()'s device would claim
  DeviceKind kind = DeviceKind::kOther;
  std::string driver;                       // "PoCL 3.1", with the driver's version
  std::uint32_t vendor_id = 0;              // PCI vendor, if the driver tells
  std::optional<std::uint64_t> free_bytes;  // free device memory, if the driver tells
  bool host_memory = false;  // its memory is the machine's own, as that of an integrated GPU is
  int parts = 0;          // "BACKEND:N/0" to "BACKEND:N/(parts - 1)" are its parts; 0: it has none
  std::string parted_by;  // what one part is: "1 compute unit"; empty if there are no parts
  std::string unusable;   // why no handler can use the device; empty: one can
  // The index in the same list of the same hardware by another driver. Set if that listing is the
  // one to use.
  std::optional<int> same_as;
};

struct DeviceList {
  std::vector<DeviceListing> devices;  // devices[i] has index i
  std::string problem;                 // why there are no devices, in the driver's words, or empty
};

struct DeviceChoice {
  int index = 0;            // in DeviceList::devices
  std::optional<int> part;  // a part of the device; unset: the whole device
  std::uint64_t memory_limit_bytes = 0;
  FastMath fast_math = FastMath::kFp32;  // a preference: backends without such products ignore it
};

// Any thread may call these functions. List and Make may be slow, because drivers are.
class DeviceModule {
 public:
  virtual ~DeviceModule() = default;

  // Lists all devices of the driver, including unusable ones. Does not throw if the driver is
  // missing or has no device; `problem` reports that.
  virtual DeviceList List() = 0;

  // Throws Error (usage) for an index, part or limit that is not possible, and names what is; Error
  // (failure) for a device that cannot be used; std::runtime_error with the driver's words
  // otherwise.
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
