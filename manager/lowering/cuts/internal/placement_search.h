// Searches for a good placement of the tasks of a step. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "acan/manager/placement.h"
#include "step_shape.h"

namespace acan {

// The score by which placements of the same tasks are compared, in us: the step's time plus a small
// cost for the bytes that it moves, because the estimate does not know all delays that bytes cause.
double ScoreOf(const HandlerNetwork& network, const Placement& placed);

// The handlers that make the next version of each tile.
std::map<TileId, int> HomesOf(const StepShape& shape, const std::vector<int>& handler_of);

// Estimates a step among many equal ones: when it begins, the handlers are still finishing the step
// before. Each task runs on its named handler. step_us is infinite if a task does not fit there.
// REQUIRES: `handler_of` names a handler for each task.
Placement PlaceSteadily(const HandlerNetwork& network, const StepShape& shape,
                        const std::vector<int>& handler_of);

// Gives each task, in order, to the handler that would end it first, or to the one that `pinned`
// names for it (-1: none). `link_weight` is how many us later a task may end for each us less that
// it fills a link. Considers a single step.
Placement PlaceGreedily(const HandlerNetwork& network, const StepShape& shape,
                        const std::map<TileId, int>& home_of, const std::vector<int>& pinned,
                        double link_weight);

// The handlers of the tasks that read or make large tiles, for each way to spread the tiles of
// weights; -1 for other tasks. Tiles are spread by rows, by columns, or alternately, one weight by
// rows and the next by columns, so that the second reads its operand where the first made it.
std::vector<std::vector<int>> SpreadsOfTiles(const HandlerNetwork& network, const StepShape& shape);

// Moves all tasks of one tile, or a single task without a tile, and swaps the tasks of two tiles,
// as long as the score falls. A tile's tasks stay together, so no additional tile has to travel.
// Tries at most `tries` placements. The result is never worse, and is deterministic.
Placement Improve(const HandlerNetwork& network, const StepShape& shape, Placement placement,
                  std::int64_t tries);

}  // namespace acan
