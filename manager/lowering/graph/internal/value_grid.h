// ValueGrid: the cells in which values lie in the space between the segments of a graph.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "acan/manager/graph_cuts.h"
#include "acan/manager/lowered_graph.h"

namespace acan {

inline ColumnParts PartsOf(const Segment& segment) {
  return {segment.column_parts, segment.column_span};
}
// The rows of the cells that a segment makes or reads.
RowCut CellRowsOf(const Segment& segment);

class ValueGrid {
 public:
  // Without any segment yet: all nodes count as one.
  explicit ValueGrid(const LoweredGraph& graph);
  ValueGrid(const LoweredGraph& graph, const GraphCuts& cuts, const std::vector<Segment>& segments);

  // The next segment: it begins where the last one ends. What follows it counts as one that cuts
  // nothing finer.
  void Add(const LoweredGraph& graph, const GraphCuts& cuts, const Segment& segment);
  // Cuts values as a segment would that takes the place of one that is there.
  void Overlay(const LoweredGraph& graph, const GraphCuts& cuts, const Segment& segment);
  // Undoes the last Add or Overlay.
  void RemoveLast();
  void RemoveOverlay();

  // Whether the value, which is its own root, is made and read by different segments.
  bool Crosses(int root) const;
  const RowCut& RowsOf(int root) const { return entry(root).rows; }
  // The cells of a range of its columns. REQUIRES: somebody makes or reads this very range.
  std::vector<Range> ColumnsWithin(int root, const Range& range) const;
  // How many they are.
  std::int64_t CellsWithin(int root, const Range& range) const;
  // The segment that makes the node's results; of those that are there, or their number.
  int SegmentOf(int node) const;

 private:
  struct Entry {
    bool is_input = false;
    std::int32_t first_node = -1;  // that touches it; -1: nobody does
    std::int32_t last_node = -1;
    bool is_cut = false;  // `rows` is that of a segment
    RowCut rows;
    std::vector<std::int64_t> points;  // where cells of columns begin and end, ascending
  };
  // What a segment changed, as it was before.
  using Changes = std::vector<std::pair<int, Entry>>;

  const Entry& entry(int root) const { return entries_[static_cast<std::size_t>(root)]; }
  void TouchNode(const LoweredGraph& graph, int node);
  void TouchAll(const LoweredGraph& graph, const GraphCuts& cuts, const Segment& segment,
                Changes* changes);
  void Touch(const LoweredGraph& graph, int value, const Segment& of,
             const std::vector<Range>& columns, Changes* changes);
  void TouchByTiles(const LoweredGraph& graph, const GraphCuts& cuts, const Segment& of,
                    Changes* changes);
  void TouchByParts(const LoweredGraph& graph, int node, const Segment& of, Changes* changes);

  std::vector<Entry> entries_;      // by value; of roots
  std::vector<std::int64_t> ends_;  // of the segments' nodes
  std::vector<Changes> changes_;    // of each segment that was added
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
