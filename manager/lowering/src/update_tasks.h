// The tasks that add up gradients and update parameters, and those that make the first version.
#pragma once

#include <vector>

#include "pass_context.h"

namespace acan {

// Of a training pass.
std::vector<PlannedTask> UpdateTasks(const PassContext& context);
std::vector<PlannedTask> InitializeTasks(const PassContext& context);

}  // namespace acan
