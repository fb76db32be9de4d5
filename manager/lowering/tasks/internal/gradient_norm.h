// The norm of all gradients together, and the factor that clips gradients.
//
// The squares of a gradient's row are added in lane order; the rows of a parameter in leaves of
// `block` and the aligned tree; and the trained parameters, in order, by the aligned tree with one
// parameter per leaf. Tiles are nodes of the first two trees, so any cut gives the same bits:
//
//            columns ->
//          +---------+---------+    each tile: [rows, 1], the squares of its part of each row
//   rows   |  tile   |  tile   | -> added along the columns, [rows, 1], then along the rows, [1, 1]
//     |    +---------+---------+
//     v    |  tile   |  tile   | -> [1, 1]
//          +---------+---------+        \  added along the rows: the parameter's [1, 1]
#pragma once

#include <vector>

#include "acan/manager/planned_task.h"
#include "pass_context.h"

namespace acan {

// The tasks that make the sum of squares and the factor, in an order in which they can run. They
// also put those gradients whole that lie in the space in parts (WholeGradientOf).
// REQUIRES: the training clips, and a tile has all columns or a multiple of 64.
std::vector<PlannedTask> GradientNormTasks(const PassContext& context);

// The unit of a tile's columns: a leaf of the lane order.
inline constexpr std::int64_t kLaneLeafColumns = 64;

}  // namespace acan
