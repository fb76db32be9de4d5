// gpu_bench: kernels beside those that only move bytes.
#include <fmt/format.h>
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/device.h"
#include "gpu_counters.h"
#include "gpu_parts.h"
#include "gpu_timing.h"
#include "gpu_ways.h"
#include "kernel_probes.h"

namespace acan::cuda {

using nlohmann::json;

namespace {
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
}  // namespace

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

bool ProfileKernel(const Sizes& sizes, const std::string& name, const Profile& profile) {
  for (const bench::MatrixShape& s : sizes.kernels) {
    const auto device = Make(sizes);
    for (const bench::Probe& probe : KernelProbes(AreaFor(*device, s), s)) {
      if (probe.facts.is_null() || NameOf(probe) != name) continue;
      profile([&] { probe.run(1); });
      return true;
    }
  }
  return false;
}

}  // namespace acan::cuda
