// gpu_bench: what cuda:0 computes and copies, as one JSON object. It compares exact products, with
// each tile size and with the chosen one, with cuBLAS in fp32; fast products through the device
// with direct calls of cuBLAS; sums over groups of rows in one call with those that it replaces;
// kernels with those that only move bytes; copies through the device with direct copies of pinned
// memory. "slower" lists what reaches less than gpu_expectations.h expects, and the probable
// counter.
//
//   gpu_bench                 measures everything, for GPUs
//   gpu_bench --quick         small shapes, each timed once: shows that it runs, no speeds
//   gpu_bench --expect SHARE  expects this share of everything, for tests
//   gpu_bench --out FILE      writes the results so far after each part, for a machine whose time
//                             may run out: "complete" says whether all parts are included
//   gpu_bench --only NAME     calls only the kernel that has this name in "slower", for a profiler
//                             that was started with --profile-from-start off
#include <cuda_profiler_api.h>

#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "acan/cuda/cuda_devices.h"
#include "check.h"
#include "flags.h"
#include "gpu_expectations.h"
#include "gpu_parts.h"
#include "gpu_sizes.h"

namespace acan::cuda {
namespace {

using nlohmann::json;

const DeviceListing& UsableDevice() {
  static const DeviceList kList = ListDevices();
  if (kList.devices.empty()) throw std::runtime_error("no GPU: " + kList.problem);
  const DeviceListing& device = kList.devices.front();
  if (!device.unusable.empty()) throw std::runtime_error("no usable GPU: " + device.unusable);
  return device;
}

// The available figures that are slower than expected.
json SlowerOf(std::vector<bench::Figure> figures, const std::optional<double>& expect) {
  json out = json::array();
  for (bench::Figure& figure : figures) figure.expected = expect.value_or(figure.expected);
  for (const bench::Slower& each : bench::SlowerThanExpected(figures)) {
    out.push_back({{"name", each.figure.name},
                   {"share", each.share},
                   {"of", each.figure.limit},
                   {"expected", each.figure.expected},
                   {"counter", each.counter},
                   {"counters", each.figure.counters},
                   {"sentence", bench::SentenceOf(each)}});
  }
  return out;
}

// Readers of the file always find a complete object.
void Write(const std::string& path, const json& what) {
  const std::string beside = path + ".part";
  std::ofstream file(beside, std::ios::trunc);
  file << what.dump(2) << "\n" << std::flush;
  if (!file) throw std::runtime_error("cannot write " + beside);
  std::filesystem::rename(beside, path);
}

// out_path: empty for none.
json RunAll(const Sizes& sizes, const std::optional<double>& expect, const std::string& out_path) {
  const DeviceListing& device = UsableDevice();
  json out = {{"device", device.info.description},
              {"driver", device.driver},
              {"products", json::array()},
              {"groups", json::array()},
              {"kernels", json::array()},
              {"copies", json::array()},
              {"slower", json::array()}};
  std::vector<bench::Figure> figures;
  const auto save = [&](bool complete) {
    out["complete"] = complete;
    out["compared"] = figures.size();
    out["slower"] = SlowerOf(figures, expect);
    if (!out_path.empty()) Write(out_path, out);
  };
  for (const Shape& s : sizes.products) {
    out["products"].push_back(Products(sizes, s, device.info.threads, figures));
    save(false);
  }
  for (const GroupsShape& s : sizes.groups) {
    out["groups"].push_back(Groups(sizes, s, figures));
    save(false);
  }
  for (const bench::MatrixShape& s : sizes.kernels) {
    for (json& each : Kernels(sizes, s, device.info.threads, figures)) {
      out["kernels"].push_back(std::move(each));
    }
    save(false);
  }
  for (const std::size_t bytes : sizes.copies) {
    out["copies"].push_back(Copies(sizes, bytes, figures));
  }
  save(true);
  return out;
}

// Calls once to warm up and once for the profiler.
void CallProfiled(const std::function<void()>& call) {
  call();
  Check(cudaProfilerStart(), "cudaProfilerStart", "cuda:0");
  call();
  Check(cudaProfilerStop(), "cudaProfilerStop", "cuda:0");
}

// Returns false if there is no kernel of this name.
bool RunOnly(const Sizes& sizes, const std::string& name) {
  UsableDevice();
  return ProfileProduct(sizes, name, CallProfiled) || ProfileGroups(sizes, name, CallProfiled) ||
         ProfileKernel(sizes, name, CallProfiled);
}

}  // namespace
}  // namespace acan::cuda

int main(int argc, char** argv) {
  bool quick = false;
  std::string only;
  std::string out_path;
  std::optional<double> expect;
  acan::cli::CommandLine line("Measures acan's products, kernels and copies on cuda:0");
  acan::cli::Command& program = line.program();
  program.AddFlag("--quick", quick, "Small shapes, each timed once: shows that it runs, no speeds");
  program.AddOption("--expect", expect, "Expect this share of everything, for tests");
  program.AddOption("--out", out_path, "Also write what is measured so far to this file");
  program.AddOption("--only", only, "Call this way alone, for a profiler");
  if (const std::optional<int> code = line.Parse(argc, argv)) return *code;
  try {
    const auto& sizes = quick ? acan::cuda::QuickSizes() : acan::cuda::FullSizes();
    if (only.empty()) {
      std::cout << acan::cuda::RunAll(sizes, expect, out_path).dump(2) << "\n";
    } else if (!acan::cuda::RunOnly(sizes, only)) {
      throw std::runtime_error("there is no kernel \"" + only + "\" to run alone");
    }
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "gpu_bench: %s\n", error.what());
    return 1;
  }
}
