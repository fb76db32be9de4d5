// NamedHandlers: the handlers that tasks name, where bytes cross links. This affects only the time
// of a step: if a named handler does not take its task, another one may after a while. Pure. Owned
// by CurrentPlan, for the manager's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/names.h"
#include "acan/manager/manager_config.h"
#include "acan/manager/placement.h"
#include "acan/manager/planned_task.h"
#include "tuplespace/messages.h"

namespace acan {

class NamedHandlers {
 public:
  // Places the tasks of a full step under the current plan on `handlers`, which are those of
  // `present` handlers that can be placed (HandlersToPlace).
  void Find(const std::map<std::string, Capacity>& handlers, std::size_t present,
            const ManagerConfig& config, const std::vector<PlannedTask>& step);
  void Clear() { placement_.reset(); }
  // What the user should know about the placement, once.
  std::optional<std::string> TakeNote() { return std::exchange(note_, std::nullopt); }

  // Names the handlers of a step's tasks. Does nothing for a step with other tasks than a full
  // step, for example the last one of an epoch.
  void NameForStep(std::vector<PlannedTask>* tasks) const;
  // Announces to each handler, in its first update task or otherwise its last task, which data its
  // tasks will read in the next step, so that it can fetch them while it still computes. REQUIRES:
  // the next step has as many rows.
  void NameDataAhead(std::vector<PlannedTask>* tasks) const;
  // For an evaluation: each task names the handler that holds most bytes of its inputs.
  void NameForEvaluation(std::vector<PlannedTask>* tasks) const;
  // For the tasks that make the first tiles.
  void NameForTiles(std::vector<PlannedTask>* tasks) const;

 private:
  void Name(int handler, PlannedTask* task) const;
  void Note(std::string text);

  std::vector<tuplespace::ClientId> ids_;
  double slowest_us_per_kib_ = 0;
  std::uint64_t least_kept_bytes_ = 0;  // smaller data comes with the task that needs it
  std::optional<Placement> placement_;
  std::optional<std::string> note_;
  std::set<std::string> noted_;
};

}  // namespace acan
