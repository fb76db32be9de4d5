// The tasks of a segment that is computed by the tiles of its parameter.
#pragma once

#include <vector>

#include "pass_context.h"
#include "segment_tasks.h"

namespace acan {

// Only for `boxes`.
std::vector<PlannedTask> TiledTasks(const PassContext& context, int segment,
                                    const std::vector<Box>& boxes);
// As SampleTasks.
std::vector<TaskSample> SampleTiledTasks(const PassContext& context, int segment, const Box& box);

}  // namespace acan
