// Plan: how a model's graph is cut into tasks, given what the handlers present can hold. Every plan
// trains the same bits; plans differ only in speed.
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
#include "acan/manager/task_cost.h"
#include "tuplespace/space_limits.h"

namespace acan {

struct Plan {
  std::int64_t block = 64;
  std::int64_t batch = 0;  // samples of a full step
  std::uint64_t largest_need_bytes = 0;
  std::int64_t tasks_per_step = 0;
  GraphCuts cuts;
  std::shared_ptr<const GraphGrids> grids = {};  // for these cuts
  std::string summary = {};                      // "3 segments, 1 of them by tiles; ..."
  double step_us = 0;                            // the estimated time of a step
  double flops = 0;                              // TaskWork::flops of a step
};

// Of handlers with these speeds (GFLOP/s) and `threads` threads in total; without the overhead. The
// number of workers is the speed of all divided by that of the slowest handler that matters; the
// slowest handlers that together make up less than a tenth do not matter. There is at least one
// worker for each thread, because a handler shares a task among its threads; all compute units of a
// GPU count as one thread.
WorkerSpeed SpeedOf(std::vector<double> gflops, int threads);

struct PlanRequest {
  std::shared_ptr<const LoweredModel> model;
  Training training;
  std::uint64_t capacity_bytes = 0;         // memory of the smallest handler that must take part
  std::optional<std::uint64_t> size_bytes;  // maximum bytes of weights of one task; unset: auto
  std::optional<std::int64_t> batch_rows;   // maximum samples of one task; unset: auto
  // What the backward pass recomputes; unset: auto.
  std::optional<Recompute> recompute = Recompute::kNothing;
  WorkerSpeed speed = {};
  // The network if bytes cross links; unset: they do not. If set, `speed` does not matter.
  std::optional<HandlerNetwork> network = {};
  // The limits of the space: maximum bytes of a tuple, and maximum inputs of a task.
  std::uint64_t tuple_bytes = tuplespace::SpaceLimits{}.message_bytes;
  std::uint64_t task_inputs = tuplespace::SpaceLimits{}.task_inputs;
  // The share of the usual work that a search may spend before it has found anything.
  double search_share = 1;
  // Called at least once for each cut examined; MakePlan lets its exceptions through.
  std::function<void()> go_on = {};
};

// The plan with the smallest estimated step time among those whose every task needs at most
// capacity_bytes. Prefers tasks of at most half of that, so that the next task can be fetched while
// one runs. With a network whose handlers cannot keep the tiles, no task is placed, and the time
// includes UsOverOneLink. nullopt if there is no plan; then `smallest_need_bytes` is the capacity
// with which there would be one. Without `smallest_need_bytes`, the search may end before it has
// tried everything.
std::optional<Plan> MakePlan(const PlanRequest& request, std::uint64_t* smallest_need_bytes);

// The estimated time of a step under these cuts with request.speed, without links.
double StepUs(const PlanRequest& request, const GraphCuts& cuts);

}  // namespace acan
