// NamedHandlers: which handlers are named for the tasks of a run, where bytes cross links. Only the
// time of a step depends on it: whoever is named and does not come is passed over after a while.
// Pure. Owned by CurrentPlan, for the manager's thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "acan/core/names.h"
#include "acan/manager/manager_config.h"
#include "acan/manager/placement.h"
#include "acan/manager/planned_task.h"
#include "tuplespace/messages.h"

namespace acan {

class NamedHandlers {
 public:
  // `step`: the tasks of a full step under the plan that is in force.
  void Find(const std::map<std::string, Capacity>& handlers, const ManagerConfig& config,
            const std::vector<PlannedTask>& step);
  void Clear() { placement_.reset(); }

  // Names the handlers of the tasks of a step. One with other tasks than a full step, as the last
  // of an epoch may be, is left as it is.
  void NameForStep(std::vector<PlannedTask>* tasks) const;
  // Each handler also hears, with its first update or else its last task, which data of the step
  // after its tasks will read: their bytes may come while it still computes. REQUIRES: that step
  // has as many rows.
  void NameDataAhead(std::vector<PlannedTask>* tasks) const;
  // Of an evaluation: each goes where most bytes of its inputs are.
  void NameForEvaluation(std::vector<PlannedTask>* tasks) const;
  // Those that make the first tiles.
  void NameForTiles(std::vector<PlannedTask>* tasks) const;

 private:
  void Name(int handler, PlannedTask* task) const;

  std::vector<tuplespace::ClientId> ids_;
  double slowest_us_per_kib_ = 0;
  std::uint64_t least_kept_bytes_ = 0;  // less comes with the task that needs it
  std::optional<Placement> placement_;
};

}  // namespace acan
