#include "backends_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <utility>

#include "backends_probes.h"
#include "clock.h"
#include "products/openblas.h"
#include "summary.h"

namespace acan::bench {
namespace {

constexpr double kRunSeconds = 0.01;  // short probes are repeated for about this long
constexpr double kQuickRunSeconds = 0.001;
constexpr int kMaxRuns = 100'000;

ProbeSizes Sizes(bool quick) {
  if (quick) {
    return {{32}, {{256, 256}, {157, 91}}, {256, 256}, {32, 256}, {64 << 10, 1 << 20}};
  }
  return {{128, 512},
          {{1024, 1024}, {4096, 4096}, {1511, 977}},
          {4096, 4096},
          {512, 4096},
          {64 << 10, 1 << 20, 16 << 20}};
}

double Time(const Probe& probe, int runs) {
  const auto begin = Clock::now();
  probe.run(runs);
  return std::max(Seconds(Clock::now() - begin), 1e-9);
}

// The number of runs that takes about `target` seconds. The first run, which may compile or tune,
// does not count.
int Calibrate(const Probe& probe, double target) {
  probe.run(1);
  int runs = 1;
  for (;;) {
    const double seconds = Time(probe, runs);
    const double wanted = runs * target / seconds;
    const bool known = seconds >= target / 4;
    runs = static_cast<int>(std::clamp(known ? wanted : std::min(wanted, 10.0 * runs), 1.0,
                                       static_cast<double>(kMaxRuns)));
    if (known || runs == kMaxRuns) return runs;
  }
}

// One device with everything that is timed on it.
class Measured {
 public:
  explicit Measured(const BenchDevice& bench) : bench_(bench) {}

  // An exception of `work` becomes the device's problem, and ends its part.
  void Try(const std::function<void()>& work) {
    if (!problem_.empty()) return;
    try {
      work();
    } catch (const std::exception& error) {
      problem_ = error.what();
    }
  }

  void Build(const ProbeSizes& sizes) {
    const auto area = std::make_shared<WorkArea>(*bench_.device, sizes);
    const auto library =
        bench_.library ? std::make_shared<WorkArea>(*bench_.library, sizes) : nullptr;
    own_library_ = HasOwnLibrary(*area);
    shares_host_memory_ = SharesHostMemory(*bench_.device);
    groups_ = MakeGroups(area, library, own_library_, sizes);
    for (const Group& group : groups_) {
      runs_.emplace_back(group.probes.size(), 1);
      seconds_.emplace_back(group.probes.size());
    }
  }

  std::size_t groups() const { return groups_.size(); }
  const char* section(std::size_t group) const { return groups_[group].section; }

  void CalibrateGroup(std::size_t g, double target) {
    for (std::size_t p = 0; p < groups_[g].probes.size(); ++p) {
      runs_[g][p] = Calibrate(groups_[g].probes[p], target);
    }
  }

  void MeasureGroup(std::size_t g) {
    std::vector<double> seconds;
    for (std::size_t p = 0; p < groups_[g].probes.size(); ++p) {
      seconds.push_back(Time(groups_[g].probes[p], runs_[g][p]) / runs_[g][p]);
    }
    // Only whole turns, so that the n-th times of a group belong together.
    for (std::size_t p = 0; p < seconds.size(); ++p) seconds_[g][p].push_back(seconds[p]);
  }

  nlohmann::json Described() const;
  void AddRows(nlohmann::json& result) const;

 private:
  // Work per second of the group's limit in each turn; empty if the group has no limit.
  std::vector<double> Limits(std::size_t g) const;

  const BenchDevice& bench_;
  std::string problem_;
  bool own_library_ = false;
  bool shares_host_memory_ = false;
  std::vector<Group> groups_;
  std::vector<std::vector<int>> runs_;                     // [group][probe]
  std::vector<std::vector<std::vector<double>>> seconds_;  // of one run, [group][probe][turn]
};

std::string OpenBlasName() {
  return fmt::format("OpenBLAS ({} code)", cpu::OpenBlas().get_corename());
}

nlohmann::json Measured::Described() const {
  const DeviceInfo& info = bench_.device->info();
  nlohmann::json limit;
  if (bench_.library) {
    limit = fmt::format("{} on {}", OpenBlasName(), bench_.library->info().name);
  } else if (own_library_) {
    limit = info.backend == "cpu" ? OpenBlasName() : "its own library";
  }
  return {{"name", info.name},
          {"description", info.description},
          {"backend", info.backend},
          {"threads", info.threads},
          {"exact", info.exact},
          {"fast", info.fast},
          {"fast_is", !info.fast     ? nlohmann::json()
                      : own_library_ ? "library"
                                     : "exact product"},
          {"product_limit", std::move(limit)},
          {"shares_host_memory", shares_host_memory_},
          {"problem", problem_.empty() ? nlohmann::json() : nlohmann::json(problem_)}};
}

std::vector<double> Measured::Limits(std::size_t g) const {
  std::vector<double> limits;
  for (std::size_t p = 0; p < groups_[g].probes.size(); ++p) {
    const Probe& probe = groups_[g].probes[p];
    if (!probe.limit) continue;
    limits.resize(seconds_[g][p].size());
    for (std::size_t turn = 0; turn < limits.size(); ++turn) {
      limits[turn] = std::max(limits[turn], probe.work / seconds_[g][p][turn]);
    }
  }
  return limits;
}

void Measured::AddRows(nlohmann::json& result) const {
  const auto scaled = [](std::vector<double> values, double factor) {
    for (double& value : values) value *= factor;
    return Summary(std::move(values));
  };
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const std::vector<double> limits = Limits(g);
    const std::string section = groups_[g].section;
    const std::string unit = section == "products" ? "gflops" : "gb_s";
    for (std::size_t p = 0; p < groups_[g].probes.size(); ++p) {
      const Probe& probe = groups_[g].probes[p];
      const std::vector<double>& seconds = seconds_[g][p];
      if (probe.facts.is_null() || seconds.empty()) continue;
      nlohmann::json row = probe.facts;
      row["device"] = bench_.device->info().name;
      row["microseconds"] = scaled(seconds, 1e6);
      std::vector<double> rates, ratios;
      for (std::size_t turn = 0; turn < seconds.size(); ++turn) {
        rates.push_back(probe.work / seconds[turn]);
        if (!limits.empty()) ratios.push_back(rates.back() / limits[turn]);
      }
      if (probe.work > 0) row[unit] = scaled(std::move(rates), 1e-9);
      if (!limits.empty()) {
        row["limit_" + unit] = scaled(limits, 1e-9);
        row["ratio"] = Summary(std::move(ratios));
      }
      result[section].push_back(std::move(row));
    }
  }
}

// Calls `work` on each group of all devices, device by device within a group.
void ForAll(std::vector<Measured>& devices, const BackendsBenchOptions& options,
            const std::string& what, void (*work)(Measured&, std::size_t, double)) {
  const double target = options.quick ? kQuickRunSeconds : kRunSeconds;
  std::size_t groups = 0;
  for (const Measured& device : devices) groups = std::max(groups, device.groups());
  for (std::size_t g = 0; g < groups; ++g) {
    for (Measured& device : devices) {
      device.Try([&] {
        if (options.progress) options.progress(fmt::format("{}: {}", what, device.section(g)));
        work(device, g, target);
      });
    }
  }
}

}  // namespace

std::uint64_t BackendsBenchBytes(bool quick) {
  // The work area, and the same again for packing, temporary buffers and transfers.
  const MatrixShape weights = Sizes(quick).weights;
  return 2 * WorkArea::kWide * 4 * static_cast<std::uint64_t>(weights.rows * weights.cols) +
         (std::uint64_t{64} << 20);
}

nlohmann::json RunBackendsBench(const std::vector<BenchDevice>& devices,
                                const BackendsBenchOptions& options) {
  if (options.repeats < kMinBackendsRepeats || options.repeats > kMaxBackendsRepeats) {
    throw std::invalid_argument(fmt::format("repeats must be {} to {}, not {}", kMinBackendsRepeats,
                                            kMaxBackendsRepeats, options.repeats));
  }
  const auto begin = Clock::now();
  const ProbeSizes sizes = Sizes(options.quick);
  std::vector<Measured> measured;
  for (const BenchDevice& each : devices) {
    if (options.progress) options.progress("preparing " + each.device->info().name);
    measured.emplace_back(each).Try([&] { measured.back().Build(sizes); });
  }
  ForAll(measured, options, "warming up",
         [](Measured& device, std::size_t g, double target) { device.CalibrateGroup(g, target); });
  for (int i = 0; i < options.repeats; ++i) {
    ForAll(measured, options, fmt::format("repeat {}/{}", i + 1, options.repeats),
           [](Measured& device, std::size_t g, double) { device.MeasureGroup(g); });
  }
  nlohmann::json result = {{"quick", options.quick},
                           {"repeats", options.repeats},
                           {"openblas_core", cpu::OpenBlas().get_corename()}};
  for (const char* section : {"devices", "products", "kernels", "transfers", "overhead"}) {
    result[section] = nlohmann::json::array();
  }
  for (const Measured& device : measured) {
    result["devices"].push_back(device.Described());
    device.AddRows(result);
  }
  result["seconds"] = Seconds(Clock::now() - begin);
  return result;
}

}  // namespace acan::bench
