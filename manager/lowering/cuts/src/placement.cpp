#include "acan/manager/placement.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "acan/manager/tuple_names.h"
#include "placement_search.h"

namespace acan {
namespace {

constexpr int kRounds = 4;
// The total number of inputs and results that the search for a better placement places; each takes
// about a tenth of a microsecond.
constexpr std::size_t kTriedTuples = 300'000;

Placement NotPlaced(std::size_t tasks) {
  Placement placed;
  placed.handler_of.assign(tasks, -1);
  placed.step_us = std::numeric_limits<double>::infinity();
  return placed;
}

// Keeps the best placement.
class BestPlacement {
 public:
  BestPlacement(const HandlerNetwork& network, const StepShape& shape)
      : network_(network), shape_(shape) {}

  // Evaluates the placement in steady state, where the steps of a run follow each other.
  void Add(const Placement& greedy) {
    if (greedy.step_us == std::numeric_limits<double>::infinity()) return;
    Placement placed = PlaceSteadily(network_, shape_, greedy.handler_of);
    const double score = ScoreOf(network_, placed);
    if (best_ && score >= score_) return;
    best_ = std::move(placed);
    score_ = score;
  }
  std::optional<Placement> Take() && { return std::move(best_); }

 private:
  const HandlerNetwork& network_;
  const StepShape& shape_;
  std::optional<Placement> best_;
  double score_ = 0;
};

}  // namespace

double UsOverOneLink(const HandlerNetwork& network, std::uint64_t bytes) {
  double us_per_kib = 0;
  for (const HostLink& link : network.hosts) {
    if (link.us_per_kib == 0) continue;
    us_per_kib = us_per_kib == 0 ? link.us_per_kib : std::min(us_per_kib, link.us_per_kib);
  }
  return static_cast<double>(bytes) / 1024 * us_per_kib;
}

double RoomForTiles(const PlacedHandler& handler) {
  constexpr double kPart = 0.75;  // of a handler's memory
  return kPart * static_cast<double>(handler.memory_bytes);
}

std::optional<TileId> TileIdOf(const tuplespace::Key& key) {
  const auto tile = TileOfKey(key);
  if (!tile || tile->second.frozen) return std::nullopt;
  return TileId{tile->second.matrix, tile->second.outputs.begin, tile->second.inputs.begin};
}

Placement PlaceTasks(const HandlerNetwork& network, const std::vector<PlannedTask>& tasks,
                     PlacementEffort effort) {
  const StepShape shape = ShapeOf(network, tasks);
  BestPlacement best(network, shape);
  // Ending each task as early as possible may fill a link that other tasks need.
  for (const double link_weight : {0.0, 1.0}) {
    std::map<TileId, int> home_of;
    for (int round = 0; round < kRounds; ++round) {
      Placement placed = PlaceGreedily(network, shape, home_of, {}, link_weight);
      const bool settled = placed.home_of == home_of;
      home_of = placed.home_of;
      // In the first round, tiles lie wherever they are first needed.
      if (round > 0) best.Add(placed);
      if (settled && round > 0) break;
    }
  }
  for (const std::vector<int>& pinned : SpreadsOfTiles(network, shape)) {
    best.Add(PlaceGreedily(network, shape, HomesOf(shape, pinned), pinned, 0));
  }
  std::optional<Placement> found = std::move(best).Take();
  if (!found) return NotPlaced(tasks.size());
  if (effort == PlacementEffort::kQuick) return std::move(*found);
  std::size_t tuples = 1;
  for (const StepShape::OfTask& task : shape.tasks) {
    tuples += task.inputs.size() + task.outputs.size();
  }
  return Improve(network, shape, std::move(*found),
                 static_cast<std::int64_t>(kTriedTuples / tuples));
}

namespace {

void ShareCores(HandlerNetwork* network) {
  std::vector<double> busy(network->machines.size(), 0);
  const auto machine_of = [&](const PlacedHandler& handler) {
    return network->hosts[handler.host].machine;
  };
  for (const PlacedHandler& handler : network->handlers) {
    busy[machine_of(handler)] += handler.busy_cores;
  }
  for (PlacedHandler& handler : network->handlers) {
    const int cores = network->machines[machine_of(handler)].cores;
    const double share = cores / std::max(busy[machine_of(handler)], 1e-9);
    if (cores == 0 || share >= 1 || handler.busy_cores == 0) continue;
    handler.gflops *= share;
    handler.busy_cores *= share;
  }
}

}  // namespace

std::vector<NetworkPart> PartsOf(const HandlerNetwork& network) {
  std::vector<std::pair<double, std::size_t>> hosts;  // by speed
  std::vector<int> members(network.hosts.size(), 0);
  for (std::size_t h = 0; h < network.hosts.size(); ++h) hosts.emplace_back(0, h);
  for (const PlacedHandler& handler : network.handlers) {
    hosts[handler.host].first -= handler.gflops;
    ++members[handler.host];
  }
  std::stable_sort(hosts.begin(), hosts.end());
  const int most_members = *std::max_element(members.begin(), members.end());
  const auto counts = [](std::size_t most) {
    std::vector<std::size_t> counted{most};
    for (std::size_t count = 1; count < most; count *= 2) counted.push_back(count);
    return counted;
  };
  std::vector<NetworkPart> parts;
  for (const std::size_t of_hosts : counts(hosts.size())) {
    for (const std::size_t of_each : counts(static_cast<std::size_t>(most_members))) {
      NetworkPart part{network, {}};
      part.network.handlers.clear();
      std::vector<std::size_t> taken(network.hosts.size(), 0);
      std::vector<bool> is_used(network.hosts.size(), false);
      for (std::size_t i = 0; i < of_hosts; ++i) is_used[hosts[i].second] = true;
      for (std::size_t i = 0; i < network.handlers.size(); ++i) {
        const std::size_t host = network.handlers[i].host;
        if (!is_used[host] || taken[host]++ >= of_each) continue;
        part.network.handlers.push_back(network.handlers[i]);
        part.handlers.push_back(static_cast<int>(i));
      }
      ShareCores(&part.network);
      parts.push_back(std::move(part));
    }
  }
  std::ranges::stable_sort(parts, {}, [](const NetworkPart& part) { return part.handlers.size(); });
  return parts;
}

Placement OfWhole(Placement placement, const NetworkPart& part) {
  const auto in_whole = [&](int& handler) {
    if (handler >= 0) handler = part.handlers[static_cast<std::size_t>(handler)];
  };
  for (int& handler : placement.handler_of) in_whole(handler);
  for (auto& [tile, handler] : placement.home_of) in_whole(handler);
  return placement;
}

bool BringsMore(double step_us, double step_us_of_fewer) {
  constexpr double kGain = 0.9;  // a smaller gain may be the estimate's error
  return step_us < kGain * step_us_of_fewer;
}

Placement PlaceOnBestPart(const HandlerNetwork& network, const std::vector<PlannedTask>& tasks) {
  std::optional<Placement> best;
  for (const NetworkPart& part : PartsOf(network)) {
    if (tasks.size() * part.handlers.size() > kMaxOffers) break;  // the others have even more
    Placement placed = PlaceTasks(part.network, tasks, PlacementEffort::kThorough);
    if (!best || BringsMore(placed.step_us, best->step_us)) best = OfWhole(std::move(placed), part);
  }
  return best ? std::move(*best) : NotPlaced(tasks.size());
}

}  // namespace acan
