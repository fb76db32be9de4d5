// Wide layers: linear operators that are computed by the tiles of their weights although they would
// fit into one task.
//
// With boxes of rows, each box makes and moves a part of every gradient. If a layer has more
// weights than its operands and results have values over the batch, tiles move less: the task that
// updates a tile computes its gradient from the operands of the whole batch. If the products of the
// first layer are nevertheless computed by boxes of rows, they need no tasks of their own.
#pragma once

#include <cstdint>
#include <vector>

#include "acan/manager/graph_planner.h"

namespace acan {

// What is computed by the tiles of a parameter although it would fit into one task.
enum class TiledWork : std::uint8_t {
  kNothing,
  kGradient,  // the gradient; boxes of rows multiply all tiles
  kAll,       // products, too
};

// A way to cut the parameters.
struct Tiling {
  GraphCuts cuts;                   // without segments
  std::vector<TiledWork> by_tiles;  // of each parameter
};

// All tilings to try. The one without wide layers comes first.
std::vector<Tiling> Tilings(const CutRequest& request, std::uint64_t task_bytes);

}  // namespace acan
