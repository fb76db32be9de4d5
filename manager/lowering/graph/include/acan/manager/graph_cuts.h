// GraphCuts: how a graph's nodes are made into tasks. Any cuts train the same bits.
//
// The nodes, in their order, are cut into segments; a segment is computed box by box, each box by
// one task with all of the segment's nodes. What one segment makes for another lies in the space in
// cells. A product with weights that are too large for one task, or for one worker, is computed by
// the tiles of these weights, and its gradient by the tasks that update the tiles.
#pragma once

#include <cstdint>
#include <vector>

#include "acan/core/range.h"
#include "acan/manager/boxes.h"
#include "acan/manager/lowered_graph.h"

namespace acan {

struct Segment {
  Range nodes;  // of the graph; a node of sums only counts as part of an update
  RowCut rows;
  int column_parts = 1;          // by parts of the nodes' columns or heads
  std::int64_t column_span = 0;  // of a part, where tiles of parameters say so; 0: equal parts
  // The first node by the tiles of its parameter. The others, element by element, are computed with
  // what it makes, in parts of `column_span` columns.
  bool by_tiles = false;
  // Of a product by tiles: a task multiplies the tiles of a node so many levels above a tile, along
  // the axis that the product sums over.
  int joined_levels = 0;
  // A single node of a parameter's gradient, over all rows: the updates compute it, tile by tile.
  bool in_updates = false;
  // A single node whose parts along another axis than rows are put together by further tasks: a
  // table by its rows, classes by `column_span`, or attention by `key_span`.
  bool in_phases = false;
  // Attention in phases: `rows` cuts the queries of each sample, and so many positions are a node
  // of the keys, 64 x a power of two. The gradient of attention within samples is always in phases.
  std::int64_t key_span = 0;
  friend bool operator==(const Segment&, const Segment&) = default;
};

// Levels (range.h) of the tiles of a parameter. A vector [1, columns] is cut along its columns.
struct ParameterCut {
  int row_level = 0;
  int column_level = 0;
  friend bool operator==(const ParameterCut&, const ParameterCut&) = default;
};

struct GraphCuts {
  std::int64_t block = 64;
  std::uint64_t task_bytes = 0;  // what a task may need; fixes how many parts one task adds up
  std::vector<Segment> training;
  std::vector<Segment> evaluation;
  std::vector<ParameterCut> parameters;
  std::uint64_t update_bytes = 0;  // of the values of the tiles that one task updates, about
  Recompute recompute = Recompute::kNothing;  // whose nodes `training` cuts
};

// A tile of a parameter [rows, columns].
struct ParameterTile {
  Range rows;
  Range columns;
};
std::vector<ParameterTile> TilesOf(std::int64_t rows, std::int64_t columns, const ParameterCut& cut,
                                   std::int64_t block);

}  // namespace acan
