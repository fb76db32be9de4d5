// The gradients of parameters, tile by tile, as update tasks read them.
#pragma once

#include <array>
#include <cstddef>
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

// The tiles that each task makes, for the parameters that `takes` accepts; those of a task are in
// the order of the parameters. Together they have room for all parts of their gradients, or of the
// sums of running statistics, or for the values from which these are computed. Only for a task with
// a single tile do other tasks add parts first.
std::vector<std::vector<TileOf>> Bundles(const PassContext& context,
                                         const std::function<bool(std::int32_t)>& takes);

// Whether only the tasks that read a sum's tiles compute it.
bool IsComputedByUpdates(const PassContext& context, int value);
// The operands of such a sum, and the columns of them that a tile needs.
class OperandsOfSum {
 public:
  OperandsOfSum(const LoweredNode& node, const ParameterTile& tile);
  const std::pair<int, Range>* begin() const { return operands_.data(); }
  const std::pair<int, Range>* end() const { return operands_.data() + count_; }

 private:
  std::array<std::pair<int, Range>, 2> operands_;  // the first count_ are set
  std::size_t count_;
};
// The number of cells of the whole batch that contain these columns of a value of samples.
std::int64_t CellsOfBatch(const PassContext& context, int value, const Range& columns);

// Reads sums over all rows, and values computed from such sums, by the tiles of a parameter. A sum
// with too many parts for one task is added up by additional tasks.
class TileSums {
 public:
  // Appends such additional tasks to `tasks`. Both references must outlive it.
  TileSums(const PassContext& context, std::vector<PlannedTask>* tasks)
      : context_(context), tasks_(tasks) {}

  // The buffer of a tile of a sum, or of additions of sums. Additional tasks have `priority`.
  int Buffer(TaskBuilder& task, int value, const TileOf& of, std::int64_t priority) const;
  // As Buffer, for a sum. REQUIRES: its kind is kSum.
  int SumBuffer(TaskBuilder& task, int value, const TileOf& of, std::int64_t priority) const;

 private:
  int Compute(TaskBuilder& task, int value, const TileOf& of) const;

  const PassContext& context_;
  std::vector<PlannedTask>* tasks_;
};

// Where the tile of a gradient lies whole in the space. `is_made`: the task of the boxes makes it;
// otherwise the task that reads its parts has to put it.
struct WholeGradient {
  tuplespace::Key key;
  bool is_made = false;
};
WholeGradient WholeGradientOf(const PassContext& context, const TileOf& of);

}  // namespace acan
