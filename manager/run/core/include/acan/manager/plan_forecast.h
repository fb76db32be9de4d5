// PlanForecast: how a job's steps would be cut for given handlers, without running anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "acan/core/names.h"
#include "acan/manager/manager_config.h"
#include "acan/manager/plan.h"

namespace acan {

// The tasks of a step that wait for the same inputs: one kind of task of a layer or a segment.
struct StageForecast {
  std::string what;       // "layer 1", "transformer.h.0.ln_1 to transformer.h.0.attn", "updates"
  const char* kind = "";  // TaskKindName
  std::int64_t tasks = 0;
  std::uint64_t need_bytes = 0;   // of its largest task
  std::uint64_t moved_bytes = 0;  // inputs and results
  double gflop = 0;
  double us = 0;  // until all are done, by estimate
};

// Estimates for a step.
struct HostForecast {
  std::string name;        // Capacity::host; empty: the broker's
  std::int64_t tasks = 0;  // placed on its handlers
  LinkLoad load;           // of its link
};

struct HandlerForecast {
  Capacity handler;
  std::int64_t tasks_that_fit = 0;  // into its memory
  bool is_spare = false;            // it is so slow that it gets no tasks while the others work
};

struct PlanForecast {
  Plan plan;
  int workers = 1;                    // number of parallel tasks that keep all handlers busy
  std::vector<StageForecast> stages;  // in the order in which they can run
  std::int64_t tasks = 0;             // per step, like all following fields
  std::uint64_t moved_bytes = 0;
  std::uint64_t least_moved_bytes = 0;  // if one handler had memory for everything
  double step_us = 0;                   // by estimate
  // Set only where bytes cross links and the tasks can be placed on the hosts.
  std::vector<HostForecast> hosts;
  // Where bytes cross links, but the tasks cannot be placed: why, as the end of a sentence. Then
  // step_us is rough, because it includes the time for all inputs and results to cross one link.
  std::string unplaced;
  // Of `hosts`, how many handlers may get tasks; fewer than there are if there are many.
  std::size_t handlers_to_place = 0;
  // Sent from the manager's host, and from the broker's for tuples that it holds.
  std::uint64_t manager_bytes = 0, broker_bytes = 0;
  // With one more host like the last one; 0 if the tasks cannot be placed without it, or with it.
  double step_us_with_one_more = 0;
  std::vector<HandlerForecast> handlers;
};

// The plan with which a run would begin if exactly these handlers were present. If there is none,
// throws Error (failure) with the run's message. Handlers whose bytes travel are on one host if
// they have the same Capacity::host. REQUIRES: `handlers` is not empty.
PlanForecast ForecastPlan(const ManagerConfig& config, const std::vector<Capacity>& handlers);

}  // namespace acan
