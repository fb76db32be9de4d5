#include "row_product.h"

#include <algorithm>
#include <cassert>
#include <vector>

namespace acan {

void AddRowProduct(TaskBuilder& builder, const RowOrder& order, const Box& box, const View& dy,
                   const View& x, const View& d) {
  const std::int64_t group_rows = order.group_rows();
  if (order.IsPlain() || dy.rows <= group_rows) {
    builder.Product(GemmForm::kGradient, dy, x, d);
    return;
  }
  assert(order.NodesOf(box, box.samples.end).size() == 1);
  // Leaves end with their groups. To need few buffers, a sum is added to its left sibling as soon
  // as both exist, as RunCalls expects (run_calls.h).
  std::vector<int> open, spare;  // sums whose siblings are missing; unused buffers
  const auto add_last = [&] {
    const View left = builder.All(open[open.size() - 2]), right = builder.All(open.back());
    builder.Launch(Kernel::kAdd, {left, left, right});
    spare.push_back(open.back());
    open.pop_back();
  };
  std::uint64_t groups = 0;
  for (std::int64_t row = 0; row < dy.rows; row += group_rows) {
    const std::int64_t rows = std::min<std::int64_t>(group_rows, dy.rows - row);
    int part = d.buffer;
    if (groups > 0 && !spare.empty()) {
      part = spare.back();
      spare.pop_back();
    } else if (groups > 0) {
      part = builder.NewBuffer(d.rows, d.cols);
    }
    builder.Product(GemmForm::kGradient, Rows(dy, row, rows), Rows(x, row, rows),
                    builder.All(part));
    open.push_back(part);
    for (std::uint64_t bits = groups++; (bits & 1) != 0; bits >>= 1) add_last();
  }
  while (open.size() > 1) add_last();
}

}  // namespace acan
