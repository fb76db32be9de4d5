// The tasks of a segment that is computed by the tiles of its parameter.
#pragma once

#include <vector>

#include "pass_context.h"

namespace acan {

// Of the boxes `boxes` only.
std::vector<PlannedTask> TiledTasks(const PassContext& context, int segment,
                                    const std::vector<Box>& boxes);

}  // namespace acan
