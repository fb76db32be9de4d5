// The devices that the tests of backends run on: all that this machine has, in every way in which
// they can compute.
#pragma once

#include <functional>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "acan/core/device.h"

namespace acan::test {

struct TestDevice {
  std::string name;          // "cpu_avx2", "opencl_tile": of tests, so letters and _ only
  std::vector<int> threads;  // that are worth testing; only the CPU's can be chosen
  // Why this machine does not have it; empty: it does. Asked late: it may start a driver.
  std::function<std::string()> missing;
  std::function<std::unique_ptr<Device>(int threads, std::uint64_t limit_bytes)> make;
};
std::ostream& operator<<(std::ostream& out, const TestDevice& device);

// It is another one by its products alone, and has the other kernels of "cuda".
inline bool DiffersByProducts(const TestDevice& device) {
  return device.name.starts_with("cuda_");
}

// Always the same ones in the same order, here or not: cpu_portable, cpu_avx2, cpu_avx512;
// opencl (as users get it), opencl_tile (the products of GPUs), opencl_soft (as if its division
// rounded wrongly), opencl_part (a sub-device), cuda (as users get it), cuda_tile128, cuda_tile64,
// cuda_tile32 (one size for all products).
std::vector<TestDevice> AllTestDevices();
// Those whose kernels beside products are computed in a way of their own: without opencl_tile,
// opencl_part, cuda_tile128 and cuda_tile64. cuda_tile32 is there, as it is another one of the fake
// GPUs.
std::vector<TestDevice> KernelTestDevices();
// Those whose products are computed in a way of their own: without opencl_soft, and with
// cuda_ring128 and the like, which are CUDA's tiles for compute capability 8.0 and later.
std::vector<TestDevice> ProductTestDevices();

// Whether it is a fake GPU, which takes a thousand times as long as a CPU.
inline bool IsFakeGpu([[maybe_unused]] const TestDevice& device) {
#if defined(ACAN_TEST_FAKE_GPUS)
  return device.name.starts_with("cuda");
#else
  return false;
#endif
}

}  // namespace acan::test

// Runs the rest of a test only where the device is there, and says so where it is not.
#define ACAN_SKIP_WITHOUT(device)                                 \
  if (const std::string why = (device).missing(); !why.empty()) { \
    GTEST_SKIP() << (device).name << " is not tested: " << why;   \
  }
