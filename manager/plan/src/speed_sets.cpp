#include "acan/manager/speed_sets.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "acan/manager/handler_network.h"
#include "acan/manager/placement.h"
#include "acan/manager/plan.h"

namespace acan {
namespace {

// A quarter is more than the error of measurements, and too little to matter where a step has few
// tasks.
constexpr double kFarSlower = 4;

using Handlers = std::map<std::string, Capacity>;

}  // namespace

std::vector<Handlers> SetsBySpeed(const Handlers& handlers) {
  const std::map<std::string, double> speeds = PresentSpeeds(handlers);
  double fastest = 0;
  for (const auto& [id, gflops] : speeds) fastest = std::max(fastest, gflops);
  std::vector<Handlers> sets;
  double least = fastest / kFarSlower;
  for (std::size_t i = 0; i < kMaxSpeedSets; ++i, least /= kFarSlower) {
    const bool is_last = i + 1 == kMaxSpeedSets;
    Handlers set;
    for (const auto& handler : handlers) {
      if (is_last || speeds.at(handler.first) >= least) set.insert(handler);
    }
    if (sets.empty() || set.size() > sets.back().size()) sets.push_back(std::move(set));
    if (sets.back().size() == handlers.size()) break;
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
