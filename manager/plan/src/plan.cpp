#include "acan/manager/plan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "acan/core/optimizers.h"
#include "acan/manager/graph_planner.h"

namespace acan {
namespace {

constexpr double kSpeedThatMatters = 0.9;  // share of all speed that the plan is made for
constexpr double kUnequal = 2;             // fastest over slowest; smaller ratios may be noise
constexpr double kMaxShares = 1e6;

}  // namespace

WorkerSpeed SpeedOf(std::vector<double> gflops, int threads) {
  WorkerSpeed speed;
  speed.workers = std::max(1, threads);
  if (gflops.empty()) return speed;
  double total = 0;
  for (double& each : gflops) total += each = std::max(each, 1e-9);
  std::sort(gflops.begin(), gflops.end(), std::greater<>());
  double sum = 0;
  std::size_t slowest = 0;
  while (slowest + 1 < gflops.size() && sum + gflops[slowest] < kSpeedThatMatters * total) {
    sum += gflops[slowest++];
  }
  const auto workers = static_cast<int>(std::lround(std::min(total / gflops[slowest], kMaxShares)));
  speed.workers = std::max(speed.workers, workers);
  speed.gflops = total / speed.workers;
  if (gflops.front() >= kUnequal * gflops.back()) {
    speed.slowest_share = std::min(total / gflops.back(), kMaxShares);
  }
  return speed;
}

namespace {

CutRequest RequestOf(const PlanRequest& request, const WorkerSpeed& speed) {
  constexpr auto kUsual = static_cast<double>(SearchBudget::kUnfitWork);
  return {.model = *request.model,
          .training = request.training,
          .capacity_bytes = request.capacity_bytes,
          .size_bytes = request.size_bytes,
          .batch_rows = request.batch_rows,
          .recompute = request.recompute,
          .speed = speed,
          .tuple_bytes = request.tuple_bytes,
          .task_inputs = request.task_inputs,
          .unfit_work = static_cast<std::int64_t>(request.search_share * kUsual),
          .go_on = request.go_on};
}

// Without an overhead: round trips are counted separately.
WorkerSpeed SpeedOfPart(const HandlerNetwork& network) {
  std::vector<double> gflops;
  int threads = 0;
  for (const PlacedHandler& handler : network.handlers) {
    gflops.push_back(handler.gflops);
    threads += std::max(1, handler.threads);
  }
  return SpeedOf(std::move(gflops), threads);
}

// During planning, the manager only keeps its lead. The budget of a part grows with its handlers,
// because each task is offered to all of them.
constexpr std::int64_t kNodes = 24'000;
constexpr std::int64_t kOffers = 50'000;  // tasks times handlers

SearchBudget BudgetOfEach(const std::vector<NetworkPart>& parts) {
  std::int64_t handlers = 0;
  for (const NetworkPart& part : parts) {
    handlers += static_cast<std::int64_t>(part.handlers.size());
  }
  return {kNodes / static_cast<std::int64_t>(parts.size()),
          kOffers / std::max<std::int64_t>(1, handlers)};
}

// Whether the handlers can keep all weights and states, which each step makes anew.
bool HoldsTiles(const PlanRequest& request, const HandlerNetwork& network) {
  double bytes = 0, room = 0;
  for (const model::Parameter& parameter : request.model->training.graph().parameters()) {
    bytes += 4 * static_cast<double>(parameter.elements());
  }
  bytes *= static_cast<double>(StatesOf(StateCount(request.training.optimizer)).size());
  for (const PlacedHandler& handler : network.handlers) room += RoomForTiles(handler);
  return bytes <= room;
}

// The cuts for the set of handlers with the shortest step. nullopt: no cuts fit, or the handlers
// cannot keep the tiles.
std::optional<ChosenCuts> ChooseOverLinks(const PlanRequest& request) {
  std::optional<ChosenCuts> best;
  const std::vector<NetworkPart> parts = PartsOf(*request.network);
  for (const NetworkPart& part : parts) {
    if (!HoldsTiles(request, part.network)) continue;
    SearchBudget budget = BudgetOfEach(parts);
    CutRequest cuts = RequestOf(request, SpeedOfPart(part.network));
    cuts.network = &part.network;
    budget.unfit_work = cuts.unfit_work / std::ssize(parts);
    cuts.budget = &budget;
    std::optional<ChosenCuts> chosen = ChooseCuts(cuts, nullptr);
    if (!chosen) continue;
    if (!best || BringsMore(chosen->cost.step_us, best->cost.step_us)) best = std::move(chosen);
  }
  return best;
}

}  // namespace

std::optional<Plan> MakePlan(const PlanRequest& request, std::uint64_t* smallest_need_bytes) {
  std::optional<ChosenCuts> chosen;
  if (request.network) chosen = ChooseOverLinks(request);
  if (!chosen) chosen = ChooseCuts(RequestOf(request, request.speed), smallest_need_bytes);
  if (!chosen) return std::nullopt;
  Plan plan;
  plan.block = request.training.block;
  plan.batch = request.training.batch;
  plan.largest_need_bytes = chosen->cost.largest_need_bytes;
  plan.tasks_per_step = chosen->cost.tasks;
  plan.step_us = chosen->cost.step_us;
  plan.summary = Summary(*chosen, request.training.batch);
  plan.cuts = std::move(chosen->cuts);
  plan.grids = MakeGrids(*request.model, plan.cuts);
  return plan;
}

}  // namespace acan
