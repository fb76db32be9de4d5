// Plan: how a model's graph is cut into tasks, given what the handlers present can hold. Any plan
// trains the same bits; plans differ in speed only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "acan/core/model.h"
#include "acan/manager/graph_tasks.h"
#include "acan/manager/placement.h"
#include "tuplespace/space.h"

namespace acan {

struct Plan {
  std::int64_t block = 64;
  std::int64_t batch = 0;  // samples of a full step
  std::uint64_t largest_need_bytes = 0;
  std::int64_t tasks_per_step = 0;
  GraphCuts cuts;
  std::shared_ptr<const GraphGrids> grids = {};  // of the cuts
  std::string summary = {};                      // "3 segments, 1 of them by tiles; ..."
  double step_us = 0;                            // by estimate
};

// How speed is spread over the handlers.
struct HandlerShares {
  int workers = 1;    // how many boxes at once keep all handlers busy
  double gflops = 0;  // of one worker; 0: not known
  // If they are unequal, the speed of all over that of the slowest one, else 0. A box takes the
  // slowest one so many times as long as all others need on average for one.
  double slowest_share = 0;
};
// Of handlers with these speeds (GFLOP/s), which have `threads` threads together. Workers are the
// speed of all over that of the slowest handler that matters: those that together make up less than
// a tenth do not. At least one for each thread, since a handler shares a task among its threads;
// the compute units of a GPU are one thread.
HandlerShares SharesOf(std::vector<double> gflops, int threads);

struct PlanRequest {
  std::shared_ptr<const LoweredModel> model;
  Training training;
  std::uint64_t capacity_bytes = 0;         // what the smallest handler that must take part holds
  std::optional<std::uint64_t> size_bytes;  // most bytes of weights of one task; unset: auto
  std::optional<std::int64_t> batch_rows;   // most samples of one task; unset: auto
  // What the backward pass computes again; unset: auto.
  std::optional<Recompute> recompute = Recompute::kNothing;
  HandlerShares handlers;
  double overhead_us = 0;  // of a task beside its computing; 0: not known
  // Where bytes cross links; unset: nowhere. Then `handlers` and `overhead_us` do not matter.
  std::optional<HandlerNetwork> network = {};
  // What the space takes: the most bytes of a tuple, and inputs of a task.
  std::uint64_t tuple_bytes = tuplespace::SpaceLimits{}.message_bytes;
  std::uint64_t task_inputs = tuplespace::SpaceLimits{}.task_inputs;
  // Called at least once for each cut that is looked at; what it throws leaves MakePlan.
  std::function<void()> go_on = {};
};

// The plan with which a step is estimated to take the least time, of those whose every task needs
// at most capacity_bytes; rather half of it, so that the next task is fetched while one runs.
// nullopt if there is none; then `smallest_need_bytes` is the capacity with which there would be
// one.
std::optional<Plan> MakePlan(const PlanRequest& request, std::uint64_t* smallest_need_bytes);

}  // namespace acan
