// ValueGrid: the cells in which values lie in the space between the segments of a graph.
#pragma once

#include <cstdint>
#include <vector>

#include "acan/manager/graph_cuts.h"
#include "acan/manager/lowered_graph.h"

namespace acan {

inline ColumnParts PartsOf(const Segment& segment) {
  return {segment.column_parts, segment.column_span};
}

class ValueGrid {
 public:
  ValueGrid(const LoweredGraph& graph, const GraphCuts& cuts, const std::vector<Segment>& segments);

  // Whether the value, which is its own root, is made and read by different segments.
  bool Crosses(int root) const { return entry(root).crosses; }
  const RowCut& RowsOf(int root) const { return entry(root).rows; }
  // The cells of a range of its columns. REQUIRES: somebody makes or reads this very range.
  std::vector<Range> ColumnsWithin(int root, const Range& range) const;
  // The segment that makes the node's results.
  int SegmentOf(int node) const { return segment_of_[static_cast<std::size_t>(node)]; }

 private:
  struct Entry {
    bool crosses = false;
    int segment = -1;  // of the first that touches it
    RowCut rows;
    std::vector<std::int64_t> points;  // where cells of columns begin and end, ascending
  };
  const Entry& entry(int root) const { return entries_[static_cast<std::size_t>(root)]; }
  void Touch(const LoweredGraph& graph, int value, int segment, const Segment& of,
             const std::vector<Range>& columns);
  void TouchByTiles(const LoweredGraph& graph, const GraphCuts& cuts, int node, int segment,
                    const Segment& of);
  void TouchByParts(const LoweredGraph& graph, int node, int segment, const Segment& of);

  std::vector<Entry> entries_;
  std::vector<int> segment_of_;
};

// What a node that is computed by tiles of a parameter does along each axis of it.
struct TiledNode {
  std::int32_t parameter = -1;  // whose tiles they are
  // The operands and results that run along the parameter's rows (outputs) and columns (inputs).
  std::vector<int> along_rows;
  std::vector<int> along_columns;
};
// REQUIRES: CanBeTiled(graph, node).
TiledNode TiledNodeOf(const LoweredGraph& graph, int node);
bool CanBeTiled(const LoweredGraph& graph, int node);

}  // namespace acan
