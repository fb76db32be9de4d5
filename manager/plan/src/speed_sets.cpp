#include "acan/manager/speed_sets.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "acan/manager/handler_network.h"
#include "acan/manager/placement.h"
#include "acan/manager/plan.h"

namespace acan {
namespace {

// A quarter is more than the error of measurements, and too little to matter where a step has few
// tasks. More if there would be too many sets.
constexpr double kFarSlower = 4;

using Handlers = std::map<std::string, Capacity>;

// The slowest speed of each group of speeds that differ by at most `ratio`, the fastest group
// first.
std::vector<double> Groups(const std::set<double, std::greater<>>& speeds, double ratio) {
  std::vector<double> slowest;
  double fastest = 0;  // of the last group
  for (const double gflops : speeds) {
    if (slowest.empty() || gflops * ratio < fastest) {
      fastest = gflops;
      slowest.push_back(gflops);
    }
    slowest.back() = gflops;
  }
  return slowest;
}

}  // namespace

std::vector<Handlers> SetsBySpeed(const Handlers& handlers) {
  return SetsBySpeed(handlers, PresentSpeeds(handlers));
}

std::vector<Handlers> SetsBySpeed(const Handlers& handlers,
                                  const std::map<std::string, double>& speeds) {
  std::set<double, std::greater<>> present;
  for (const auto& [id, gflops] : speeds) present.insert(gflops);
  std::vector<double> groups;
  for (double ratio = kFarSlower; groups.empty() || groups.size() > kMaxSpeedSets; ratio *= 2) {
    groups = Groups(present, ratio);
  }
  std::vector<Handlers> sets;
  for (const double least : groups) {
    Handlers& set = sets.emplace_back(handlers);
    std::erase_if(set, [&](const auto& handler) { return speeds.at(handler.first) < least; });
  }
  return sets;
}

std::size_t BestSet(const std::vector<Handlers>& sets,
                    const std::function<double(std::size_t)>& step_us) {
  std::size_t best = sets.size() - 1;
  double best_us = std::numeric_limits<double>::infinity();
  double gflops_of_best = 0;
  for (std::size_t i = 0; i < sets.size(); ++i) {
    const double gflops = GflopsOf(SpeedOf(sets[i]));
    // Nothing becomes faster by more than the speed that is added.
    if (std::isfinite(best_us) && !BringsMore(1 / gflops, 1 / gflops_of_best)) continue;
    const double us = step_us(i);
    if (!std::isfinite(us) || !BringsMore(us, best_us)) continue;
    best = i;
    best_us = us;
    gflops_of_best = gflops;
  }
  return best;
}

}  // namespace acan
