// The tasks that add up gradients and update parameters, and those that make the first version.
#pragma once

#include <vector>

#include "pass_context.h"
#include "segment_tasks.h"

namespace acan {

// Of a training pass.
std::vector<PlannedTask> UpdateTasks(const PassContext& context);
// One task of each kind, to measure them.
std::vector<TaskSample> SampleUpdates(const PassContext& context);
std::vector<PlannedTask> InitializeTasks(const PassContext& context);

}  // namespace acan
