// Cuts the parameters of a graph into tiles, for tasks that may need a given amount of memory.
#pragma once

#include <cstdint>

#include "acan/manager/graph_planner.h"

namespace acan {

// Cuts without segments, in which each tile is small enough for a task that updates it.
GraphCuts CutParameters(const CutRequest& request, std::uint64_t task_bytes);

// The minimum column level of tiles: the norm of gradients adds rows in lane order, whose leaves
// cannot be cut.
int LeastColumnLevel(const CutRequest& request);

}  // namespace acan
