// GraphCuts: how a graph's nodes become tasks. Any cuts train the same bits.
//
// The nodes, in order, are cut into segments. A segment is computed box by box; one task computes
// all nodes of the segment for one box. Values that one segment makes for another lie in the space
// as cells. A product whose weights are too large for one task, or for one worker, is computed by
// the tiles of these weights, and the tasks that update the tiles compute its gradient.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "acan/core/range.h"
#include "acan/manager/boxes.h"
#include "acan/manager/lowered_graph.h"

namespace acan {

struct Segment {
  Range nodes;  // of the graph; nodes of sums are included only because updates compute them
  RowCut rows;
  int column_parts = 1;          // number of parts of the nodes' columns or heads
  std::int64_t column_span = 0;  // of a part, if given by the tiles of parameters; 0: equal parts
  // The first node is computed by the tiles of its parameter. The others are elementwise, and are
  // computed together with it in parts of `column_span` columns.
  bool by_tiles = false;
  // For a product by tiles: a task multiplies the tiles of a node this many levels above a tile,
  // along the axis that the product sums over.
  int joined_levels = 0;
  // A single node of a parameter's gradient, over all rows: the updates compute it, tile by tile.
  bool in_updates = false;
  // A single node that is cut along another axis than rows, and whose parts are combined by further
  // tasks: a table by rows, classes by `column_span`, or attention by `key_span`.
  bool in_phases = false;
  // For attention in phases: `rows` cuts the queries of each sample, and a node of the keys has
  // this many positions, 64 x a power of two. The gradient of attention within samples is always in
  // phases.
  std::int64_t key_span = 0;
  friend bool operator==(const Segment&, const Segment&) = default;
};

// The levels (range.h) of a parameter's tiles. A vector [1, columns] is cut along its columns.
struct ParameterCut {
  int row_level = 0;
  int column_level = 0;
  friend bool operator==(const ParameterCut&, const ParameterCut&) = default;
};

struct GraphCuts {
  std::int64_t block = 64;
  std::uint64_t task_bytes = 0;  // what a task may need; determines how many parts one task adds up
  std::vector<Segment> training;
  std::vector<Segment> evaluation;
  std::vector<ParameterCut> parameters;
  std::uint64_t update_bytes = 0;  // of the values that one task updates, approximately
  // If not 0, so many tasks share the tiles out so that each takes about as long. If these tasks do
  // not fit, or by default, each takes the next `update_bytes`.
  std::size_t update_tasks = 0;
  Recompute recompute = Recompute::kNothing;  // that of the graph that `training` cuts
};

// A tile of a parameter [rows, columns].
struct ParameterTile {
  Range rows;
  Range columns;
};
std::vector<ParameterTile> TilesOf(std::int64_t rows, std::int64_t columns, const ParameterCut& cut,
                                   std::int64_t block);

}  // namespace acan
