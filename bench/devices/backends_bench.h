// Compares what each device achieves (matrix products, kernels, transfers and tiny tasks) with the
// device's own limits, measured in the same minute.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "acan/core/device.h"

namespace acan::bench {

struct BenchDevice {
  std::unique_ptr<Device> device;
  // Another device with the same hardware, with whose speed `device` is compared: the CPU backend
  // for an OpenCL device that is the machine's cores. Null: `device` is compared only with itself.
  std::unique_ptr<Device> library;
};

inline constexpr int kMinBackendsRepeats = 3;
inline constexpr int kMaxBackendsRepeats = 1000;

struct BackendsBenchOptions {
  int repeats = 5;
  bool quick = false;  // small sizes and short runs, to check that everything works
  std::function<void(const std::string&)> progress;  // takes text lines, often; may be empty
};

// The bytes that a device must be able to hold for this benchmark.
std::uint64_t BackendsBenchBytes(bool quick);

// Every repeat runs everything on all devices, one after the other. So other load on the machine
// affects all devices alike, and each ratio is of runs that followed each other.
//
// {quick, repeats, seconds, openblas_core, devices, products, kernels, transfers, overhead}.
// devices: {name, description, backend, threads, exact, fast, fast_is ("library", "exact product"
// or null), product_limit (a name, or null), shares_host_memory, problem (null, or why the device
// was left out)}. The others are rows:
//   products   device, form, precision, batch, inputs, outputs, gflops, limit_gflops, ratio
//   kernels    device, kernel, variant, rows, cols, gb_s, limit_gb_s, ratio; gb_s counts every
//              operand once; the limit is the fastest of kFill, kAdd and kAdd in place
//   transfers  device, direction, bytes, gb_s, limit_gb_s, ratio; the limit is one memcpy on the
//              host. If the memory is the host's, a part is copied, because whole buffers are not
//   overhead   device, task
// each with microseconds. Numbers are {median, min, max, repeats}; limits and ratios (rate / limit)
// are missing if there is no limit. Throws std::invalid_argument for options out of range. What a
// device throws becomes its `problem`.
nlohmann::json RunBackendsBench(const std::vector<BenchDevice>& devices,
                                const BackendsBenchOptions& options);

// The result of RunBackendsBench for people: tables, and an SVG picture.
std::string BackendsText(const nlohmann::json& result);
std::string BackendsSvg(const nlohmann::json& result);

}  // namespace acan::bench
