// ValueGrid: the cells in which values lie in the space between the segments of a graph.
#pragma once

#include <algorithm>
#include <cassert>
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
  // Without segments: all nodes count as one segment.
  explicit ValueGrid(const LoweredGraph& graph);
  ValueGrid(const LoweredGraph& graph, const GraphCuts& cuts, const std::vector<Segment>& segments);

  // Adds the next segment, which begins where the last one ends. All later nodes count as one
  // segment that cuts nothing finer.
  void Add(const LoweredGraph& graph, const GraphCuts& cuts, const Segment& segment);
  // Cuts values as if the segment replaced an existing one.
  void Overlay(const LoweredGraph& graph, const GraphCuts& cuts, const Segment& segment);
  // Undoes the last Add or Overlay.
  void RemoveLast();
  void RemoveOverlay();

  // Whether different segments make and read the value, which is its own root.
  bool Crosses(int root) const;
  const RowCut& RowsOf(int root) const { return entry(root).rows; }
  // Calls visit(columns) for each cell of a range of its columns. REQUIRES: a segment makes or
  // reads exactly this range.
  template <typename Visit>
  void ForColumnsWithin(int root, const Range& range, const Visit& visit) const {
    const std::vector<std::int64_t>& points = entry(root).points;
    auto at = std::lower_bound(points.begin(), points.end(), range.begin);
    assert(at != points.end() && *at == range.begin);
    while (*at != range.end) {
      visit(Range{*at, *(at + 1)});
      ++at;
      assert(at != points.end());
    }
  }
  // The number of these cells.
  std::int64_t CellsWithin(int root, const Range& range) const;
  // The segment that computes the node; the number of segments if none does.
  int SegmentOf(int node) const;

 private:
  struct Entry {
    bool is_input = false;
    std::int32_t first_node = -1;  // the first node that touches the value; -1: none does
    std::int32_t last_node = -1;
    bool is_cut = false;  // `rows` is a segment's cut
    RowCut rows;
    std::vector<std::int64_t> points;  // boundaries of the cells' columns, ascending
  };
  // The entries that a segment changed, as they were before.
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

  std::vector<Entry> entries_;      // by value; only roots are used
  std::vector<std::int64_t> ends_;  // the end of each segment's nodes
  std::vector<Changes> changes_;    // by segment added
};

// How a node that is computed by tiles of a parameter uses the parameter's axes.
struct TiledNode {
  std::int32_t parameter = -1;  // whose tiles it is computed by
  // The operands and results that run along the parameter's rows (outputs) and columns (inputs).
  std::vector<int> along_rows;
  std::vector<int> along_columns;
};
// REQUIRES: CanBeTiled(graph, node).
TiledNode TiledNodeOf(const LoweredGraph& graph, int node);
bool CanBeTiled(const LoweredGraph& graph, int node);

}  // namespace acan
