// GraphCuts: how a graph's nodes are made into tasks. Any cuts train the same bits.
//
// The nodes, in their order, are cut into segments; a segment is computed box by box, each box by
// one task with all of the segment's nodes. What one segment makes for another lies in the space in
// cells. A node whose weights are too large for one task is a segment of its own, computed by the
// tiles of its parameter.
#pragma once

#include <cstdint>
#include <vector>

#include "acan/core/range.h"
#include "acan/manager/boxes.h"

namespace acan {

struct Segment {
  Range nodes;  // of the graph; a node of sums only counts as part of an update
  RowCut rows;
  int column_parts = 1;          // a single node by parts of its columns or heads
  std::int64_t column_span = 0;  // of a part, where tiles of sums say so; 0: equal parts
  bool by_tiles = false;         // a single node by the tiles of its parameter
  friend bool operator==(const Segment&, const Segment&) = default;
};

// Levels (range.h) of the tiles of a parameter. A vector [1, columns] is cut along its columns.
struct ParameterCut {
  int row_level = 0;
  int column_level = 0;
};

struct GraphCuts {
  std::int64_t block = 64;
  std::uint64_t task_bytes = 0;  // what a task may need; fixes how many parts one task adds up
  std::vector<Segment> training;
  std::vector<Segment> evaluation;
  std::vector<ParameterCut> parameters;
  std::uint64_t update_bytes = 0;  // of the values of the tiles that one task updates, about
};

// A tile of a parameter [rows, columns].
struct ParameterTile {
  Range rows;
  Range columns;
};
std::vector<ParameterTile> TilesOf(std::int64_t rows, std::int64_t columns, const ParameterCut& cut,
                                   std::int64_t block);

}  // namespace acan
