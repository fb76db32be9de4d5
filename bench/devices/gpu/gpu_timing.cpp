#include "gpu_timing.h"

#include <algorithm>
#include <functional>
#include <map>
#include <utility>

#include "acan/cuda/cuda_devices.h"
#include "clock.h"
#include "summary.h"

namespace acan::cuda {

using bench::NowS;
using nlohmann::json;

namespace {
// The seconds of one call, from `inner` calls.
double Seconds(const std::function<void()>& call, const std::function<void()>& wait, int inner) {
  wait();
  const double begin = NowS();
  for (int i = 0; i < inner; ++i) call();
  wait();
  return (NowS() - begin) / inner;
}
}  // namespace

std::unique_ptr<Device> Make(const Sizes& sizes, FastMath math, const GemmWay& wish) {
  DeviceOptions options;
  options.memory_limit_bytes = sizes.limit_bytes;
  options.fast_math = math;
  options.tile = wish.tile;
  options.cut_k = wish.cut_k;
  return MakeDevice(options);
}

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

void Settle(const Sizes& sizes, const Way& way) {
  const double end = NowS() + sizes.settling_seconds;
  while (NowS() < end) way.Run();
}

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

}  // namespace acan::cuda
