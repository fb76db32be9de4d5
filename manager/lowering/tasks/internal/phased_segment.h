// The tasks of a segment that is computed in phases: a node that is too large for a task is cut
// along another axis than rows, and further tasks combine the parts.
//
//   embedding      by rows of the table: each part has the values of its rows and -0 elsewhere.
//                  Their sum is the result, because x + -0 = x for every x.
//   cross entropy  by nodes of the tree over the classes, in four phases: the maximum of each part,
//                  the maximum of all, the sums of exponentials of each part, the sums of all
#pragma once

#include <cstdint>
#include <vector>

#include "acan/manager/planned_task.h"
#include "pass_context.h"

namespace acan {

// The length of the leaves of sums over classes, as in the lane order.
inline constexpr std::int64_t kClassLeaf = 64;

// Only for `boxes`.
std::vector<PlannedTask> PhasedTasks(const PassContext& context, int segment,
                                     const std::vector<Box>& boxes);

}  // namespace acan
