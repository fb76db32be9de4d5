// The gradient of a product: a sum over rows, in their canonical order.
#pragma once

#include <cstdint>

#include "acan/manager/task_builder.h"
#include "pass_context.h"

namespace acan {

// Rows [first, first + count) of a view.
inline View Rows(View view, std::int64_t first, std::int64_t count) {
  view.row += static_cast<std::int32_t>(first);
  view.rows = static_cast<std::int32_t>(count);
  return view;
}

// Adds the gradient of a product by its rows, d[outputs, inputs] = dy^T x, in the order of sums
// over rows. `order` is that of the rows, which are those of `box`.
void AddRowProduct(TaskBuilder& builder, const RowOrder& order, const Box& box, const View& dy,
                   const View& x, const View& d);

}  // namespace acan
