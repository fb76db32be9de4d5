// Chooses the cuts of a graph for the handlers that are there, by an estimate of a step's time.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "acan/manager/graph_cuts.h"
#include "acan/manager/graph_tasks.h"
#include "acan/manager/placement.h"

namespace acan {

// How much ChooseCuts may still look at where bytes cross links, as every cut has to be made there.
// It counts down what it looked at, and ends with the best so far.
struct SearchBudget {
  std::int64_t nodes = 0;  // of the graph, once for each cut
  std::int64_t tasks = 0;  // that are made to be placed
};

struct CutRequest {
  const LoweredModel& model;
  const Training& training;
  std::uint64_t capacity_bytes = 0;         // what the smallest handler that must take part holds
  std::optional<std::uint64_t> size_bytes;  // most bytes of a tile of a parameter; unset: auto
  std::optional<std::int64_t> batch_rows;   // most samples of one task; unset: auto
  // unset: what the estimate says is fastest. REQUIRES: the model has these graphs.
  std::optional<Recompute> recompute = Recompute::kNothing;
  int workers = 1;  // how many tasks at once keep all handlers busy
  // If handlers are unequal, the speed of all over that of the slowest one, else 0: it takes so
  // many times as long for a task as all others need on average for one.
  double slowest_share = 0;
  double gflops = 0;              // of one worker
  double overhead_us = 0;         // of a task beside its computing
  std::uint64_t tuple_bytes = 0;  // most bytes of a tuple
  std::uint64_t task_inputs = 0;  // most inputs of a task
  // Where bytes cross links; null: nowhere. Then a step's time is that of PlaceTasks. A cut with
  // more tasks than the budget has counts as if all bytes crossed the fastest link. REQUIRES: a
  // network has a budget. Without one, ChooseCuts has one of its own for nodes.
  const HandlerNetwork* network = nullptr;
  SearchBudget* budget = nullptr;
  std::function<void()> go_on = {};  // called at least once for each cut; may be null, may throw
};

// What a training step under the cuts costs, as estimated from one task of each kind; no other is
// made.
struct CutCost {
  double step_us = 0;
  std::int64_t tasks = 0;
  std::uint64_t moved_bytes = 0;         // inputs and results of all tasks
  std::uint64_t largest_need_bytes = 0;  // of a task; in ChosenCuts of evaluations, too
  bool fits_limits = true;               // no task is larger than the space and the handlers take
};
CutCost CostOf(const CutRequest& request, const GraphCuts& cuts);

struct ChosenCuts {
  GraphCuts cuts;
  CutCost cost;
};
// nullopt if no cuts fit; then `smallest_need_bytes` is the least capacity for which there are
// some: with one byte less there are none. UINT64_MAX: no capacity is enough, as a tuple or a task
// is larger than the space takes. To find it takes many times as long as to choose.
std::optional<ChosenCuts> ChooseCuts(const CutRequest& request, std::uint64_t* smallest_need_bytes);

// "9 segments, ...": for logs.
std::string Summary(const ChosenCuts& chosen, std::int64_t batch);

}  // namespace acan
