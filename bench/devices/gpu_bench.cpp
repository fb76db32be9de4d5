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
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <vector>

#include "acan/core/operators/operators.h"
#include "acan/cuda/cuda_devices.h"
#include "check.h"
#include "clock.h"
#include "cublas.h"
#include "flags.h"
#include "gpu_bare.h"
#include "gpu_counters.h"
#include "gpu_expectations.h"
#include "gpu_groups.h"
#include "gpu_sizes.h"
#include "gpu_ways.h"
#include "handles.h"
#include "kernel_probes.h"
#include "products/exact_products.h"
#include "random_matrix.h"
#include "summary.h"

namespace acan::cuda {
namespace {

using bench::NowS;
using bench::RandomMatrix;
using nlohmann::json;

// The seconds of one call, from `inner` calls.
double Seconds(const std::function<void()>& call, const std::function<void()>& wait, int inner) {
  wait();
  const double begin = NowS();
  for (int i = 0; i < inner; ++i) call();
  wait();
  return (NowS() - begin) / inner;
}

using Rates = std::map<std::string, double>;  // medians, by way

// Runs all ways alternately, so that changes of the clock affect all of them. Returns work /
// seconds.
json Compare(const Sizes& sizes, const std::vector<Way>& ways, double work, Rates& medians) {
  std::map<std::string, std::vector<double>> rates;
  std::map<std::string, int> inner;
  for (const Way& way : ways) {
    Seconds(way.call, way.wait, 1);
    const double once = Seconds(way.call, way.wait, 1);
    inner[way.name] = std::max(1, static_cast<int>(sizes.least_seconds / once));
  }
  for (int i = 0; i < sizes.repeats; ++i) {
    for (const Way& way : ways) {
      rates[way.name].push_back(work / Seconds(way.call, way.wait, inner[way.name]));
    }
  }
  json out;
  for (const auto& [name, values] : rates) {
    out[name] = bench::Summary(values);
    medians[name] = out[name]["median"].get<double>();
  }
  return out;
}

std::unique_ptr<Device> Make(const Sizes& sizes, FastMath math = FastMath::kFp32,
                             const GemmWay& wish = {}) {
  DeviceOptions options;
  options.memory_limit_bytes = sizes.limit_bytes;
  options.fast_math = math;
  options.tile = wish.tile;
  options.cut_k = wish.cut_k;
  return MakeDevice(options);
}

// One device with the three matrices of a product.
class OnDevice {
 public:
  OnDevice(std::unique_ptr<Device> device, const Shape& s)
      : device_(std::move(device)), form_(s.form) {
    const bool a_k_first = SumIndexComesFirst(s.form, 0);
    const bool b_k_first = SumIndexComesFirst(s.form, 1);
    a_ = RandomMatrix(*device_, a_k_first ? s.k : s.m, a_k_first ? s.m : s.k, 0);
    b_ = RandomMatrix(*device_, b_k_first ? s.k : s.n, b_k_first ? s.n : s.k, 1);
    c_ = RandomMatrix(*device_, s.m, s.n, 2);
  }
  Way As(const std::string& name, Precision precision) {
    return {
        name,
        [this, precision] { device_->Gemm(form_, precision, 64, a_.matrix, b_.matrix, c_.matrix); },
        [this] { device_->Synchronize(); }};
  }

 private:
  std::unique_ptr<Device> device_;
  GemmForm form_;
  bench::Operand a_, b_, c_;
};

constexpr const char* kForms[] = {"forward", "backward", "gradient"};

std::string NameOf(const Shape& s) {
  return fmt::format("{} {} {} {}", kForms[static_cast<int>(s.form)], s.m, s.n, s.k);
}

// This product on a device of `sizes`, as the choice of exact kernels sees it.
Product ProductOf(const Shape& s) {
  Product product;
  product.m = s.m;
  product.n = s.n;
  product.k = s.k;
  product.block = 64;
  product.a.k_stride = SumIndexComesFirst(s.form, 0) ? s.m : 1;
  product.b.k_stride = SumIndexComesFirst(s.form, 1) ? s.n : 1;
  return product;
}
GemmGpu GpuOf(const Sizes& sizes, int multiprocessors) {
  GemmGpu gpu = GemmGpuOf(0, multiprocessors, "cuda:0");
  gpu.workspace_bytes = WorkspaceBytesOf(sizes.limit_bytes);
  return gpu;
}

// `counters`: of the way "exact".
void AddFigures(const std::string& name, double flops, const Rates& rates,
                const bench::Counters& counters, std::vector<bench::Figure>& figures) {
  for (const bench::Expected& each : bench::ExpectedOfProducts()) {
    const auto rate = rates.find(std::string(each.way));
    const auto limit = rates.find(std::string(each.limit));
    if (rate == rates.end() || limit == rates.end()) continue;
    figures.push_back({name + " " + rate->first, rate->second, limit->first, limit->second,
                       flops < bench::kLargeProductFlops ? each.small_share : each.share,
                       each.way == "exact" ? counters : bench::Counters{}});
  }
}

// The power that tensor cores draw lowers the clock, which recovers only after a while.
void Settle(const Sizes& sizes, const Way& way) {
  const double end = NowS() + sizes.settling_seconds;
  while (NowS() < end) {
    way.call();
    way.wait();
  }
}

json Products(const Sizes& sizes, const Shape& s, int multiprocessors,
              std::vector<bench::Figure>& figures) {
  std::vector<Way> ways;         // in fp32
  std::vector<Way> tensor_ways;  // on tensor cores
  std::vector<std::unique_ptr<OnDevice>> own;
  std::vector<std::unique_ptr<Bare>> bare;
  const GemmGpu gpu = GpuOf(sizes, multiprocessors);
  for (const OwnWay& each : kOwnWays) {
    const bool fast = each.precision == Precision::kFast;
    if (fast && !CublasProblem().empty()) continue;
    if (each.wish.tile && !MayHaveTile(gpu, *each.wish.tile)) continue;
    own.push_back(std::make_unique<OnDevice>(Make(sizes, each.math, each.wish), s));
    std::vector<Way>& among = each.math == FastMath::kFp32 ? ways : tensor_ways;
    among.push_back(own.back()->As(each.name, each.precision));
    if (!fast) continue;
    bare.push_back(std::make_unique<Bare>(s, each.math));
    among.push_back(bare.back()->As(std::string("cublas") + std::strchr(each.name, '_')));
  }
  const double flops =
      2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  Rates rates;
  Settle(sizes, ways.front());
  json tflops = Compare(sizes, ways, 1e-12 * flops, rates);
  if (!tensor_ways.empty()) tflops.update(Compare(sizes, tensor_ways, 1e-12 * flops, rates));
  const GemmPlan plan = PlanOf(ProductOf(s), gpu);
  json out = {{"form", kForms[static_cast<int>(s.form)]},
              {"m", s.m},
              {"n", s.n},
              {"k", s.k},
              {"chosen_tile", NameOf(plan.tile)},
              {"chosen_parts", plan.parts},
              {"tflops", std::move(tflops)}};
  if (CublasProblem().empty()) out["exact_to_cublas_fp32"] = rates["exact"] / rates["cublas_fp32"];
  AddFigures(NameOf(s), flops, rates, CountersOfProduct(s.form, ProductOf(s), gpu), figures);
  return out;
}

std::string NameOf(const GroupsShape& s) {
  return fmt::format("groups {} {} {} {}", s.m, s.n, s.group_rows, s.groups);
}

// The ways to compute a sum over groups of rows, and their devices, the chosen way's first.
struct GroupsWays {
  std::vector<std::unique_ptr<GroupsOnDevice>> devices;
  std::vector<Way> ways;
};
GroupsWays WaysOf(const Sizes& sizes, const GroupsShape& s) {
  GroupsWays out;
  out.devices.push_back(std::make_unique<GroupsOnDevice>(Make(sizes), s));
  GroupsOnDevice& own = *out.devices.front();
  out.ways = {own.AsChosen("exact", Precision::kExact), own.AsSingleCalls("exact_single_calls")};
  if (CublasProblem().empty()) out.ways.push_back(own.AsChosen("fast_fp32", Precision::kFast));
  const GemmWay parts{std::nullopt, true};
  auto in_one = std::make_unique<GroupsOnDevice>(Make(sizes, FastMath::kFp32, parts), s);
  if (in_one->RunInOneCall(Precision::kExact)) {
    out.ways.push_back(in_one->AsChosen("exact_one_call", Precision::kExact));
    out.devices.push_back(std::move(in_one));
  }
  return out;
}

json Groups(const Sizes& sizes, const GroupsShape& s, std::vector<bench::Figure>& figures) {
  const GroupsWays of = WaysOf(sizes, s);
  const bool in_one = of.devices.front()->RunInOneCall(Precision::kExact);
  const double flops = 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) *
                       static_cast<double>(s.group_rows * s.groups);
  Rates rates;
  Settle(sizes, of.ways.front());
  json tflops = Compare(sizes, of.ways, 1e-12 * flops, rates);
  json us;
  for (const auto& [way, rate] : rates) us[way] = 1e-6 * flops / rate;
  AddFigures(NameOf(s), flops, rates, {}, figures);
  json out = {{"m", s.m},
              {"n", s.n},
              {"group_rows", s.group_rows},
              {"groups", s.groups},
              {"chosen", in_one ? "one call" : "single calls"},
              {"tflops", std::move(tflops)},
              {"us", std::move(us)}};
  return out;
}

// What is expected of a probe. gelu is excluded: it computes for longer than it reads.
std::optional<double> ExpectedOf(const bench::Probe& probe) {
  if (probe.facts.is_null() || probe.facts["variant"] == "gelu") return std::nullopt;
  return bench::ExpectedOfKernel(probe.facts["kernel"].get<std::string>());
}

// The probes of kernels with an expectation, and those that limit them. For large matrices: the
// probes of all kernels.
std::vector<bench::Probe> KernelProbes(const std::shared_ptr<bench::WorkArea>& area,
                                       const bench::MatrixShape& shape) {
  constexpr std::int64_t kLargeRows = 4096;
  std::vector<bench::Probe> probes;
  for (const bool of_weights : {true, false}) {
    for (bench::Probe& each : bench::KernelGroup(area, nullptr, of_weights, shape).probes) {
      const bool any = shape.rows >= kLargeRows && !each.facts.is_null();
      if (any || ExpectedOf(each) || each.limit) probes.push_back(std::move(each));
    }
  }
  return probes;
}

std::string NameOf(const bench::Probe& probe) {
  const json& facts = probe.facts;
  const auto variant = facts["variant"].get<std::string>();
  return fmt::format("{}{}{} {} {}", facts["kernel"].get<std::string>(), variant.empty() ? "" : " ",
                     variant, facts["rows"].get<std::int64_t>(), facts["cols"].get<std::int64_t>());
}

std::shared_ptr<bench::WorkArea> AreaFor(Device& device, const bench::MatrixShape& shape) {
  return std::make_shared<bench::WorkArea>(device, bench::ProbeSizes{{}, {}, shape, shape, {}});
}

json Kernels(const Sizes& sizes, const bench::MatrixShape& shape, int multiprocessors,
             std::vector<bench::Figure>& figures) {
  const auto device = Make(sizes);
  const std::vector<bench::Probe> probes = KernelProbes(AreaFor(*device, shape), shape);
  json out = json::array();
  double limit = 0;
  std::vector<bench::Figure> found;
  for (const bench::Probe& probe : probes) {
    Rates rates;
    const Way way{"rate", probe.launch, [&device] { device->Synchronize(); }};
    const json rate = Compare(sizes, {way}, 1e-9 * probe.work, rates)["rate"];
    if (probe.limit) limit = std::max(limit, rates["rate"]);
    if (probe.facts.is_null()) continue;
    out.push_back(probe.facts);
    out.back()["gb_per_s"] = rate;
    out.back()["us"] = 1e-3 * probe.work / rates["rate"];
    const std::optional<double> expected = ExpectedOf(probe);
    if (!expected) continue;
    const auto kernel = probe.facts["kernel"].get<std::string>();
    found.push_back({NameOf(probe), rates["rate"], "the fastest plain kernel", 0, *expected,
                     CountersOfKernel(kernel, shape.rows, shape.cols, multiprocessors)});
  }
  for (bench::Figure& figure : found) {
    figure.limit_rate = limit;
    figures.push_back(std::move(figure));
  }
  return out;
}

json Copies(const Sizes& sizes, std::size_t bytes, std::vector<bench::Figure>& figures) {
  const auto device = Make(sizes);
  const std::vector<std::byte> host(bytes, std::byte{1});
  const tuplespace::Payload payload = tuplespace::Payload::Copy(host.data(), host.size());
  const BufferPtr buffer = device->Upload(payload);
  const auto words = static_cast<std::int64_t>(bytes / 4);
  const PinnedBytes keep = NewPinned(bytes);
  void* const pinned = keep.get();
  void* memory = nullptr;
  Check(cudaMalloc(&memory, bytes), "cudaMalloc", "cuda:0");
  const DeviceBytes keep_too(memory);
  const auto wait = [&] { device->Synchronize(); };
  const auto bare = [=](void* to, const void* from, cudaMemcpyKind kind) {
    return [=] { CopyBare(to, from, bytes, kind); };
  };
  Rates rates;
  json out = {{"bytes", bytes},
              {"gb_per_s",
               Compare(sizes,
                       {{"upload", [&] { device->Upload(payload); }, wait},
                        {"download",
                         [&] {
                           device->Download(buffer, {buffer.get(), 0, 1, words, words});
                         },
                         wait},
                        {"host_memcpy", [&] { std::memcpy(pinned, host.data(), bytes); }, [] {}},
                        {"bare_to_device", bare(memory, pinned, cudaMemcpyHostToDevice), wait},
                        {"bare_from_device", bare(pinned, memory, cudaMemcpyDeviceToHost), wait}},
                       1e-9 * static_cast<double>(bytes), rates)}};
  for (const auto& [way, limit] :
       {std::pair{"upload", "bare_to_device"}, std::pair{"download", "bare_from_device"}}) {
    const auto expected = bench::ExpectedOfCopy(way, static_cast<double>(bytes));
    if (!expected) continue;
    bench::Counters counters;
    if (std::strcmp(way, "upload") == 0) {
      counters["host_memcpy"] = std::min(1.0, rates["host_memcpy"] / rates[limit]);
    }
    figures.push_back({fmt::format("{} {}", way, bytes), rates[way], limit, rates[limit], *expected,
                       std::move(counters)});
  }
  return out;
}

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
void Profile(const std::function<void()>& call) {
  call();
  Check(cudaProfilerStart(), "cudaProfilerStart", "cuda:0");
  call();
  Check(cudaProfilerStop(), "cudaProfilerStop", "cuda:0");
}

void Profile(const Way& way) {
  Profile([&] {
    way.call();
    way.wait();
  });
}

// Returns false if there is no kernel of this name.
bool RunOnly(const Sizes& sizes, const std::string& name) {
  UsableDevice();
  for (const Shape& s : sizes.products) {
    for (const OwnWay& each : kOwnWays) {
      if (NameOf(s) + " " + each.name != name) continue;
      OnDevice on(Make(sizes, each.math, each.wish), s);
      Profile(on.As(each.name, each.precision));
      return true;
    }
  }
  for (const GroupsShape& s : sizes.groups) {
    if (!name.starts_with(NameOf(s) + " ")) continue;
    const GroupsWays of = WaysOf(sizes, s);
    for (const Way& way : of.ways) {
      if (NameOf(s) + " " + way.name != name) continue;
      Profile(way);
      return true;
    }
  }
  for (const bench::MatrixShape& s : sizes.kernels) {
    const auto device = Make(sizes);
    for (const bench::Probe& probe : KernelProbes(AreaFor(*device, s), s)) {
      if (probe.facts.is_null() || NameOf(probe) != name) continue;
      Profile([&] { probe.run(1); });
      return true;
    }
  }
  return false;
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
