// The gradients of parameters, tile by tile, as tasks that update parameters read them.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "acan/manager/task_builder.h"
#include "pass_context.h"

namespace acan {

// A tile of a parameter.
struct TileOf {
  std::int32_t parameter = 0;
  ParameterTile tile;
  std::int64_t rows() const { return tile.rows.size(); }
  std::int64_t columns() const { return tile.columns.size(); }
  std::uint64_t bytes() const { return 4 * static_cast<std::uint64_t>(rows() * columns()); }
};

// Tiles that one task makes, in the order of the parameters: of those parameters that `takes`.
// Those of a task have room for all parts of their gradients, or for what these are computed of:
// only a tile alone has its parts added by other tasks first.
std::vector<std::vector<TileOf>> Bundles(const PassContext& context,
                                         const std::function<bool(std::int32_t)>& takes);

// Whether a sum is computed by the tasks that read its tiles, and by no other task.
bool IsComputedByUpdates(const PassContext& context, int value);
// The operands of such a sum, and the columns of them that a tile is made of.
std::vector<std::pair<int, Range>> OperandsOfSum(const LoweredNode& node,
                                                 const ParameterTile& tile);
// The cells in which these columns of a value of samples lie, of the whole batch.
std::int64_t CellsOfBatch(const PassContext& context, int value, const Range& columns);

// Reads sums over all rows, and what is made of some, in the tiles of a parameter. What has too
// many parts for one task is added by tasks of its own.
class TileSums {
 public:
  // Appends such tasks to `tasks`. Both must outlive it.
  TileSums(const PassContext& context, std::vector<PlannedTask>* tasks)
      : context_(context), tasks_(tasks) {}

  // The buffer of the tile of a sum, or of additions of sums. The task's own tasks have `priority`.
  int Buffer(TaskBuilder& task, int value, const TileOf& of, std::int64_t priority) const;
  // Of a sum. REQUIRES: its kind is kSum.
  int SumBuffer(TaskBuilder& task, int value, const TileOf& of, std::int64_t priority) const;

 private:
  int Compute(TaskBuilder& task, int value, const TileOf& of) const;

  const PassContext& context_;
  std::vector<PlannedTask>* tasks_;
};

// Where the tile of a gradient lies in the space whole. `is_made`: by the task that boxes run;
// otherwise one that reads its parts has to put it.
struct WholeGradient {
  tuplespace::Key key;
  bool is_made = false;
};
WholeGradient WholeGradientOf(const PassContext& context, const TileOf& of);

}  // namespace acan
