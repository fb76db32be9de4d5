// Chooses the cuts of a graph for the handlers present, by an estimate of a step's time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "acan/manager/graph_cuts.h"
#include "acan/manager/graph_tasks.h"
#include "acan/manager/placement.h"
#include "acan/manager/task_cost.h"

namespace acan {

// How much more ChooseCuts may examine where bytes cross links, because there each cut has to be
// made in full. The search counts it down, and ends with the best cuts found so far.
struct SearchBudget {
  std::int64_t nodes = 0;  // of the graph; all of them count for each cut
  std::int64_t tasks = 0;  // that are made in order to be placed
  // What a search may do before it has found any cut that fits. One unit is a parameter's tile in a
  // segment that is tested.
  std::int64_t unfit_work = kUnfitWork;

  static constexpr std::int64_t kUnfitWork = 40'000'000;  // some 20 s
};

struct CutRequest {
  const LoweredModel& model;
  const Training& training;
  std::uint64_t capacity_bytes = 0;         // memory of the smallest handler that must take part
  std::optional<std::uint64_t> size_bytes;  // maximum bytes of a parameter's tile; unset: auto
  std::optional<std::int64_t> batch_rows;   // maximum samples of one task; unset: auto
  // unset: the one that the estimate finds fastest. REQUIRES: the model has these graphs.
  std::optional<Recompute> recompute = Recompute::kNothing;
  WorkerSpeed speed = {};
  std::uint64_t tuple_bytes = 0;  // maximum bytes of a tuple
  std::uint64_t task_inputs = 0;  // maximum inputs of a task
  // The network if bytes cross links, otherwise null. With a network, a step's time is PlaceTasks'
  // estimate. A cut with more tasks than the budget allows counts as if all bytes crossed the
  // fastest link. REQUIRES: a network has a budget. Without a network and a budget, ChooseCuts uses
  // a budget of its own for nodes.
  const HandlerNetwork* network = nullptr;
  SearchBudget* budget = nullptr;
  std::int64_t unfit_work = SearchBudget::kUnfitWork;  // of the own budget
  std::function<void()> go_on = {};  // called at least once for each cut; may be null, may throw
};

// The estimated cost of a training step under the cuts, from one task of each kind; no other task
// is made.
struct CutCost {
  double step_us = 0;
  double flops = 0;  // TaskWork::flops of all tasks
  std::int64_t tasks = 0;
  std::uint64_t moved_bytes = 0;         // inputs and results of all tasks
  std::uint64_t largest_need_bytes = 0;  // of any task, including evaluation tasks in ChosenCuts
  bool fits_limits = true;               // no task exceeds the limits of the space and the handlers
};
CutCost CostOf(const CutRequest& request, const GraphCuts& cuts);

struct ChosenCuts {
  GraphCuts cuts;
  CutCost cost;
};
// nullopt if no cuts fit, and without `smallest_need_bytes` also if the search has used its budget.
// With it, a last search for any cuts follows; if there are none, it is set to the smallest
// capacity for which cuts exist, or after too long a search to some capacity that is enough;
// UINT64_MAX if no capacity is enough, because a tuple or a task is larger than the space accepts.
std::optional<ChosenCuts> ChooseCuts(const CutRequest& request, std::uint64_t* smallest_need_bytes);

// "9 segments, ...": for logs.
std::string Summary(const ChosenCuts& chosen, std::int64_t batch);

}  // namespace acan
