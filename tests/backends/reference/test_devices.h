// The devices that the backend tests run on: all devices of this machine, in every configuration in
// which they can compute.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "acan/core/device.h"

namespace acan::test {

struct TestDevice {
  std::string name;  // "cpu_avx2", "opencl_tile": parts of test names, so letters and _ only
  std::vector<int> threads;  // thread counts worth testing; only the CPU's can be chosen
  // The reason why this machine lacks the device; empty: it has it. Call it late: it may start a
  // driver.
  std::function<std::string()> missing;
  std::function<std::unique_ptr<Device>(int threads, std::uint64_t limit_bytes)> make;
};
std::ostream& operator<<(std::ostream& out, const TestDevice& device);

// Whether the device differs from "cuda" only in its products and has the same other kernels.
inline bool DiffersByProducts(const TestDevice& device) {
  return device.name.starts_with("cuda_");
}

// Always the same devices in the same order, whether or not they are present: cpu_portable,
// cpu_avx2, cpu_avx512; opencl (as users get it), opencl_tile (the products of GPUs), opencl_gpu
// (the products and kernels of GPUs, and as if its division rounded wrongly), opencl_part (a
// sub-device); cuda (as users get it), cuda_tile128, cuda_tile64 and cuda_tile32 (one tile size for
// all products).
std::vector<TestDevice> AllTestDevices();
// The devices whose kernels other than products differ: all but opencl_tile, opencl_part,
// cuda_tile128 and cuda_tile64. cuda_tile32 stays because it runs on another fake GPU.
std::vector<TestDevice> KernelTestDevices();
// The devices whose products differ: all but opencl_gpu, and additionally cuda_ring128 and similar
// ones, which use CUDA's tiles for compute capability 8.0 and later.
std::vector<TestDevice> ProductTestDevices();

// Why this machine lacks the device of this name (of AllTestDevices); empty: it has it.
std::string WhyMissing(const std::string& name);

// Whether it is a fake GPU, which is about a thousand times slower than a CPU.
inline bool IsFakeGpu([[maybe_unused]] const TestDevice& device) {
#if defined(ACAN_TEST_FAKE_GPUS)
  return device.name.starts_with("cuda");
#else
  return false;
#endif
}

// As ProductTestDevices, but without fake GPUs that differ from "cuda" only in their products. Only
// cuda_tile32 stays of these, as another GPU. For tests of whole models, which take long there.
inline std::vector<TestDevice> ModelTestDevices() {
  std::vector<TestDevice> devices = ProductTestDevices();
  std::erase_if(devices, [](const TestDevice& device) {
    return IsFakeGpu(device) && DiffersByProducts(device) && device.name != "cuda_tile32";
  });
  return devices;
}

}  // namespace acan::test

// Skips the rest of a test, with the reason, if this machine lacks the device.
#define ACAN_SKIP_WITHOUT(device)                                 \
  if (const std::string why = (device).missing(); !why.empty()) { \
    GTEST_SKIP() << (device).name << " is not tested: " << why;   \
  }
