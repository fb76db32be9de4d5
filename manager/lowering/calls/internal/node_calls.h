// NodeCalls: helpers for adding a node's calls to its task.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "segment_task.h"

namespace acan {

// Kernel scalars whose first floats and integers are given; the others are 0.
inline KernelScalars Scalars(std::initializer_list<float> floats,
                             std::initializer_list<std::int64_t> integers) {
  KernelScalars scalars;
  std::size_t i = 0;
  for (const float value : floats) scalars.f[i++] = value;
  i = 0;
  for (const std::int64_t value : integers) scalars.i[i++] = value;
  return scalars;
}

class NodeCalls {
 public:
  explicit NodeCalls(SegmentTask& task) : task_(task) {}

 protected:
  View In(std::size_t operand) const { return task_.Operand(operand); }
  View MaybeIn(std::size_t operand) const { return task_.Has(operand) ? In(operand) : View{}; }
  View Out(std::size_t result) const { return task_.Result(result); }
  const LoweredValue& Value(std::size_t operand) const {
    return task_.context().Value(task_.node().operands[operand]);
  }
  RowOrder Order(std::size_t operand) const {
    return task_.context().OrderOf(task_.node().operands[operand]);
  }
  std::int64_t block() const { return task_.context().cuts.block; }
  void Launch(Kernel kernel, std::vector<View> views, KernelScalars scalars = {}) const {
    task_.builder().Launch(kernel, std::move(views), scalars);
  }
  void ColumnDots(const View& x, const View& y) const {
    Launch(Kernel::kColumnDots, {Out(0), x, y}, Scalars({}, {block(), Order(0).group_rows()}));
  }

  SegmentTask& task_;
};

}  // namespace acan
