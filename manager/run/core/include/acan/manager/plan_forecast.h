// PlanForecast: how a job's steps would be cut for handlers, without running anything.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/names.h"
#include "acan/manager/manager_config.h"
#include "acan/manager/plan.h"

namespace acan {

// The tasks of a step that wait for the same things: one kind of task of a layer or a segment.
struct StageForecast {
  std::string what;       // "layer 1", "transformer.h.0.ln_1 to transformer.h.0.attn", "updates"
  const char* kind = "";  // TaskKindName
  std::int64_t tasks = 0;
  std::uint64_t need_bytes = 0;   // of its largest task
  std::uint64_t moved_bytes = 0;  // inputs and results
  double gflop = 0;
  double us = 0;  // until all are done, by estimate
};

// Of a step, by estimate.
struct HostForecast {
  std::string name;        // Capacity::host; empty: the broker's
  std::int64_t tasks = 0;  // that its handlers should do
  LinkLoad load;           // of its link
};

struct PlanForecast {
  Plan plan;
  int workers = 1;                    // tasks at once that keep all handlers busy
  std::vector<StageForecast> stages;  // in the order in which they can run
  std::int64_t tasks = 0;             // of a step, as all that follows
  std::uint64_t moved_bytes = 0;
  std::uint64_t least_moved_bytes = 0;  // by one handler with memory for everything
  double step_us = 0;                   // by estimate
  // Where bytes cross links; else empty.
  std::vector<HostForecast> hosts;
  // That leave the manager's host, and the broker's for tuples that it has.
  std::uint64_t manager_bytes = 0, broker_bytes = 0;
  // With one host more, like the last one; 0: where nothing crosses links.
  double step_us_with_one_more = 0;
  // Of each handler, how many of the tasks fit into it.
  std::vector<std::pair<Capacity, std::int64_t>> handlers;
};

// The plan with which a run would begin if just these handlers were there. Throws Error (failure)
// with what a run would say if there is none. Of handlers whose bytes travel those with one
// Capacity::host are on one host. REQUIRES: `handlers` is not empty.
PlanForecast ForecastPlan(const ManagerConfig& config, const std::vector<Capacity>& handlers);

}  // namespace acan
