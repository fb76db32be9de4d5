// The devices that the driver offers, and those of them that acan can use.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "acan/module/module.h"

namespace acan::cuda {

// What acan checks before it uses a device.
struct DeviceFacts {
  int major = 0;  // compute capability
  int minor = 0;
  bool prohibited = false;  // its compute mode forbids computing
};

// Why no handler can use the device; empty if one can. `architectures`: what the kernels were
// compiled for, as in CMAKE_CUDA_ARCHITECTURES but with commas: "75-real,90".
std::string Unfit(const DeviceFacts& facts, std::string_view architectures);

// Why there is no device. `driver` and `runtime` are CUDA versions as 1000 * major + 10 * minor, 0
// for a missing driver; `error` has the words of the failed call.
std::string NoDriverText(int driver, int runtime, std::string_view error);

// All devices, or `problem`. Device i has CUDA's index i.
DeviceList FindDevices();

}  // namespace acan::cuda
