// The tasks that add up gradients and update parameters, and the tasks that make the initial
// weights.
#pragma once

#include <vector>

#include "pass_context.h"
#include "segment_tasks.h"

namespace acan {

// The update tasks of a training pass.
std::vector<PlannedTask> UpdateTasks(const PassContext& context);
// One task of each kind, for measuring.
std::vector<TaskSample> SampleUpdates(const PassContext& context);
std::vector<PlannedTask> InitializeTasks(const PassContext& context);

}  // namespace acan
