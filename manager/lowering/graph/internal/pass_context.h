// PassContext: what the tasks of one pass of a graph have in common.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "acan/core/model.h"
#include "acan/core/parameter.h"
#include "acan/manager/graph_cuts.h"
#include "acan/manager/lowered_graph.h"
#include "acan/manager/planned_task.h"
#include "acan/manager/tuple_names.h"
#include "value_grid.h"

namespace acan {

struct PassContext {
  const LoweredGraph& graph;
  const GraphCuts& cuts;
  const std::vector<Segment>& segments;
  const ValueGrid& grid;
  const Training& training;
  const Pass& pass;
  PassKeys keys;

  const LoweredValue& Value(int id) const { return graph.value(id); }
  const model::Parameter& ParameterOf(std::int32_t id) const { return graph.graph().parameter(id); }
  std::vector<ParameterTile> Tiles(std::int32_t parameter) const;
  // The rows of the tiles, each range once.
  std::vector<Range> RowsOfTiles(std::int32_t parameter) const;
  // The tiles that have some of these columns.
  std::vector<ParameterTile> TilesWithin(std::int32_t parameter, const Range& columns) const;
  // The matrices that a run keeps for a parameter: its value and, if it is trained, its states.
  std::span<const ParameterState> MatricesOf(std::int32_t parameter) const;
  // The key of a tile; for a frozen parameter it is the same in every version.
  tuplespace::Key TileKeyOf(std::int32_t parameter, const ParameterTile& tile, std::int64_t version,
                            ParameterState state = ParameterState::kValue) const;
  // The tiles in which a sum lies in the space: those of its parameter, or one tile for all of it.
  std::vector<ParameterTile> TilesOfSum(int value) const;
  // The key of the part of a sum that a box makes.
  tuplespace::Key SumKey(int value, const Box& box, const ParameterTile& tile) const;
  tuplespace::Key SumKey(int value, const Range& place, const ParameterTile& tile) const;
  // PlannedTask::segment of tasks after all segments.
  int SegmentOfUpdates() const { return static_cast<int>(segments.size()); }
  RowOrder OrderOf(int value) const { return {cuts.block, Value(value).rows}; }
  // The value whose rows a node adds to sums or to a loss.
  int ReducedBy(int node) const;
};

// Earlier stages of a step come first. Updates wait until nothing else can be done; parameters that
// the next step reads first are updated first.
std::int64_t SegmentPriority(const Pass& pass, int segment);
std::int64_t UpdatePriority(const Pass& pass, std::int64_t place);

}  // namespace acan
