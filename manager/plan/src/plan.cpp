#include "acan/manager/plan.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <utility>
#include <vector>

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

// During planning, the manager only keeps its lead. The budget of a part is divided by its
// handlers, because each task is offered to all of them, and by those of smaller parts. It does not
// depend on larger parts: with more handlers, the same cuts would otherwise not be found any more.
constexpr std::int64_t kNodes = 24'000;
constexpr std::int64_t kOffers = 50'000;  // tasks times handlers

std::vector<SearchBudget> BudgetsOf(const std::vector<NetworkPart>& parts) {
  std::vector<SearchBudget> budgets;
  std::int64_t handlers = 0;
  for (const NetworkPart& part : parts) {
    handlers += std::ssize(part.handlers);
    budgets.push_back({kNodes / (std::ssize(budgets) + 1), kOffers / handlers});
  }
  return budgets;
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
  const std::vector<NetworkPart> parts = PartsOf(*request.network);
  const std::vector<SearchBudget> budgets = BudgetsOf(parts);
  std::vector<std::optional<ChosenCuts>> chosen(parts.size());
  double least_us = std::numeric_limits<double>::infinity();
  double flops = 0;  // of a step
  for (std::size_t i = parts.size(); i-- > 0;) {
    const HandlerNetwork& network = parts[i].network;
    const WorkerSpeed speed = SpeedOfPart(network);
    // Small parts cannot win if most of the time is spent on computing.
    const bool cannot_win = BringsMore(least_us, LeastUs(speed, flops));
    if (cannot_win || !HoldsTiles(request, network)) continue;
    CutRequest cuts = RequestOf(request, speed);
    cuts.network = &network;
    SearchBudget budget = budgets[i];
    budget.unfit_work = cuts.unfit_work / std::ssize(parts);
    cuts.budget = &budget;
    chosen[i] = ChooseCuts(cuts, nullptr);
    if (!chosen[i]) continue;
    least_us = std::min(least_us, chosen[i]->cost.step_us);
    flops = chosen[i]->cost.flops;
  }
  std::optional<ChosenCuts> best;
  for (std::optional<ChosenCuts>& of_part : chosen) {
    if (!of_part) continue;
    if (!best || BringsMore(of_part->cost.step_us, best->cost.step_us)) best = std::move(of_part);
  }
  return best;
}

}  // namespace

std::optional<Plan> MakePlan(const PlanRequest& request, std::uint64_t* smallest_need_bytes) {
  std::optional<ChosenCuts> chosen;
  if (request.network) chosen = ChooseOverLinks(request);
  if (!chosen) {
    chosen = ChooseCuts(RequestOf(request, request.speed), smallest_need_bytes);
    if (!chosen) return std::nullopt;
    if (request.network) {
      chosen->cost.step_us += UsOverOneLink(*request.network, chosen->cost.moved_bytes);
    }
  }
  Plan plan;
  plan.block = request.training.block;
  plan.batch = request.training.batch;
  plan.largest_need_bytes = chosen->cost.largest_need_bytes;
  plan.tasks_per_step = chosen->cost.tasks;
  plan.step_us = chosen->cost.step_us;
  plan.flops = chosen->cost.flops;
  plan.summary = Summary(*chosen, request.training.batch);
  plan.cuts = std::move(chosen->cuts);
  plan.grids = MakeGrids(*request.model, plan.cuts);
  return plan;
}

double StepUs(const PlanRequest& request, const GraphCuts& cuts) {
  return CostOf(RequestOf(request, request.speed), cuts).step_us;
}

}  // namespace acan
