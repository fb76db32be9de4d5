// The search for a good placement of the tasks of a step. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "acan/manager/placement.h"
#include "step_shape.h"

namespace acan {

// By which placements of the same tasks are compared, in us: the step's time, and a little for what
// it moves. The estimate does not know all that bytes hold up.
double ScoreOf(const HandlerNetwork& network, const Placement& placed);

// The handlers that make the next versions of tiles.
std::map<TileId, int> HomesOf(const StepShape& shape, const std::vector<int>& handler_of);

// Of a step among many that are alike: when one begins, the handlers still end the step before.
// Each task runs on its handler. step_us is infinite if one does not fit there.
// REQUIRES: `handler_of` names a handler for each task.
Placement PlaceSteadily(const HandlerNetwork& network, const StepShape& shape,
                        const std::vector<int>& handler_of);

// Each task goes, in order, to the handler that would end it first, or to the one that `pinned`
// names for it (-1: none). `link_weight`: how many us later a task may end for a us less in which
// it fills a link. Of one step alone.
Placement PlaceGreedily(const HandlerNetwork& network, const StepShape& shape,
                        const std::map<TileId, int>& home_of, const std::vector<int>& pinned,
                        double link_weight);

// For each way to spread the tiles of weights, the handlers of the tasks that read or make large
// tiles; -1 for the others. By rows or columns of tiles, or for one weight by rows and for the next
// by columns, so that what the first makes is where the second reads it.
std::vector<std::vector<int>> SpreadsOfTiles(const HandlerNetwork& network, const StepShape& shape);

// Moves all tasks of a tile, or one of no tile, and swaps those of two tiles, as long as the score
// falls. So it lets no tile travel that did not. Looks at no more than `tries` placements. Never
// worse, and the same for the same arguments.
Placement Improve(const HandlerNetwork& network, const StepShape& shape, Placement placement,
                  std::int64_t tries);

}  // namespace acan
