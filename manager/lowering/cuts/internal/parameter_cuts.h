// The tiles of the parameters of a graph, for tasks that may need so much memory.
#pragma once

#include <cstdint>

#include "acan/manager/graph_planner.h"

namespace acan {

// Cuts without segments yet: no tile is larger than a task that updates it can hold.
GraphCuts CutParameters(const CutRequest& request, std::uint64_t task_bytes);

// Tiles have at least so many columns: the norm of gradients has rows in lane order, whose leaves
// are not cut.
int LeastColumnLevel(const CutRequest& request);

}  // namespace acan
