// How tasks read and put cells of values and tiles of parameters.
#pragma once

#include "acan/manager/task_builder.h"
#include "pass_context.h"

namespace acan {

// Makes a buffer with `columns` of the root value for the rows of the box.
int GatherCells(const PassContext& context, TaskBuilder& task, int root, const Box& box,
                const Range& columns);
// Puts `columns` of the root. `buffer` has the rows of the box, and columns from `first_column` on.
void PutCells(const PassContext& context, TaskBuilder& task, int root, const Box& box,
              const Range& columns, int buffer, std::int64_t first_column);
// Rows and columns of a parameter, in the version that the pass reads. The buffer has all tiles
// that contain them; the view is exactly these rows and columns.
View GatherTiles(const PassContext& context, TaskBuilder& task, std::int32_t parameter,
                 const Range& rows, const Range& columns);
// As above, for all rows.
View GatherTiles(const PassContext& context, TaskBuilder& task, std::int32_t parameter,
                 const Range& columns);

}  // namespace acan
