// The gradient of a product's weight: a sum over rows, in canonical order.
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

// Adds the calls for d[outputs, inputs] = dy^T x, the sum over the rows of `box` in canonical
// order. `order` is the order of these rows.
void AddRowProduct(TaskBuilder& builder, const RowOrder& order, const Box& box, const View& dy,
                   const View& x, const View& d);

}  // namespace acan
