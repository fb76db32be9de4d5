// What the driver offers, and what of it acan can use.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "acan/module/module.h"

namespace acan::cuda {

// What is asked of a device before it may be used.
struct DeviceFacts {
  int major = 0;  // compute capability
  int minor = 0;
  bool prohibited = false;  // nobody may compute on it
};

// Why no handler can use it; empty: one can. `architectures` is what the kernels were compiled for,
// as in CMAKE_CUDA_ARCHITECTURES but with commas: "75-real,90".
std::string Unfit(const DeviceFacts& facts, std::string_view architectures);

// Why there is no device: `driver` and `runtime` are CUDA versions as 1000 * major + 10 * minor, 0
// for a driver that is missing; `error` has the words of the failed call.
std::string NoDriverText(int driver, int runtime, std::string_view error);

// All devices, or `problem`. Number i is CUDA's own.
DeviceList FindDevices();

}  // namespace acan::cuda
