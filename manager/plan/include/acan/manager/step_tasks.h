// StepTasks: the tasks of training steps under one plan. It keeps those of a step, and makes the
// tasks of other steps from them, because making and describing tasks anew takes a third of the
// manager's instructions for models with steps of milliseconds.
//
// Pure. Owned by CurrentPlan, for its thread.
#pragma once

#include <vector>

#include "acan/manager/pass_tasks.h"
#include "acan/manager/planned_task.h"

namespace acan {

class StepTasks {
 public:
  // What tasks.Tasks(pass) gives, with encoders. REQUIRES: pass.train; `tasks` has the same model,
  // training and plan as since the last Forget.
  std::vector<PlannedTask> Make(const PassTasks& tasks, const Pass& pass);
  void Forget() { kept_.clear(); }

 private:
  void Keep(const PassTasks& tasks, const Pass& pass, std::vector<PlannedTask>* made);
  bool Fits(const Pass& pass) const;

  Pass pass_;                      // of kept_
  std::vector<PlannedTask> kept_;  // empty: none
};

}  // namespace acan
