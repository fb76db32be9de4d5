#include "value_grid.h"

#include <algorithm>
#include <cassert>

namespace acan {

std::vector<ParameterTile> TilesOf(std::int64_t rows, std::int64_t columns, const ParameterCut& cut,
                                   std::int64_t block) {
  std::vector<ParameterTile> tiles;
  for (const Range& r : NodesOfLevel(rows, block, cut.row_level)) {
    for (const Range& c : NodesOfLevel(columns, block, cut.column_level)) tiles.push_back({r, c});
  }
  return tiles;
}

bool CanBeTiled(const LoweredGraph& graph, int node) {
  const LoweredNode& lowered = graph.node(node);
  const model::Operator& op = lowered.node->op;
  if (std::holds_alternative<model::Linear>(op) ||
      std::holds_alternative<model::LinearInputGradient>(op)) {
    return graph.value(lowered.operands[1]).kind == ValueKind::kParameter;
  }
  return (std::holds_alternative<model::LinearWeightGradient>(op) ||
          std::holds_alternative<model::EmbeddingGradient>(op)) &&
         graph.ParameterOfSum(lowered.results.front()) >= 0;
}

TiledNode TiledNodeOf(const LoweredGraph& graph, int node) {
  const LoweredNode& n = graph.node(node);
  const model::Operator& op = n.node->op;
  if (std::holds_alternative<model::Linear>(op)) {
    return {graph.value(n.operands[1]).index, {n.results[0]}, {n.operands[0]}};
  }
  if (std::holds_alternative<model::LinearInputGradient>(op)) {
    return {graph.value(n.operands[1]).index, {n.operands[0]}, {n.results[0]}};
  }
  const std::int32_t parameter = graph.ParameterOfSum(n.results[0]);
  if (std::holds_alternative<model::LinearWeightGradient>(op)) {
    return {parameter, {n.operands[0]}, {n.operands[1]}};
  }
  return {parameter, {}, {n.operands[1]}};  // of an embedding
}

ValueGrid::ValueGrid(const LoweredGraph& graph, const GraphCuts& cuts,
                     const std::vector<Segment>& segments)
    : entries_(graph.values().size()), segment_of_(graph.nodes().size(), -1) {
  for (std::size_t s = 0; s < segments.size(); ++s) {
    const Segment& segment = segments[s];
    for (std::int64_t n = segment.nodes.begin; n < segment.nodes.end; ++n) {
      const int node = static_cast<int>(n), of = static_cast<int>(s);
      segment_of_[static_cast<std::size_t>(n)] = of;
      const LoweredNode& lowered = graph.node(node);
      if (lowered.is_view || lowered.is_shared) continue;
      if (segment.by_tiles) {
        TouchByTiles(graph, cuts, node, of, segment);
      } else {
        TouchByParts(graph, node, of, segment);
      }
    }
  }
  for (Entry& entry : entries_) {
    std::sort(entry.points.begin(), entry.points.end());
    entry.points.erase(std::unique(entry.points.begin(), entry.points.end()), entry.points.end());
  }
}

void ValueGrid::Touch(const LoweredGraph& graph, int value, int segment, const Segment& of,
                      const std::vector<Range>& columns) {
  const LoweredValue& v = graph.value(value);
  if (!graph.RootOf(value).IsOfSamples()) return;
  Entry& entry = entries_[static_cast<std::size_t>(v.root)];
  if (entry.segment < 0) {
    entry.segment = segment;
    entry.rows = of.rows;
    entry.crosses = graph.RootOf(value).kind == ValueKind::kInput;
  }
  entry.crosses = entry.crosses || entry.segment != segment;
  entry.rows = FinerOf(entry.rows, of.rows);
  for (const Range& range : columns) {
    entry.points.push_back(v.first_column + range.begin);
    entry.points.push_back(v.first_column + range.end);
  }
}

void ValueGrid::TouchByParts(const LoweredGraph& graph, int node, int segment, const Segment& of) {
  const LoweredNode& lowered = graph.node(node);
  for (const bool is_result : {false, true}) {
    const std::vector<int>& ids = is_result ? lowered.results : lowered.operands;
    for (std::size_t port = 0; port < ids.size(); ++port) {
      if (ids[port] < 0) continue;
      std::vector<Range> columns;
      for (int part = 0; part < of.column_parts; ++part) {
        columns.push_back(ColumnsOf(graph, node, is_result, port, part, PartsOf(of)));
      }
      Touch(graph, ids[port], segment, of, columns);
    }
  }
}

void ValueGrid::TouchByTiles(const LoweredGraph& graph, const GraphCuts& cuts, int node,
                             int segment, const Segment& of) {
  const TiledNode tiled = TiledNodeOf(graph, node);
  const model::Parameter& parameter = graph.graph().parameter(tiled.parameter);
  const ParameterCut& cut = cuts.parameters[static_cast<std::size_t>(tiled.parameter)];
  for (const int value : tiled.along_rows) {
    Touch(graph, value, segment, of, NodesOfLevel(parameter.rows, cuts.block, cut.row_level));
  }
  for (const int value : tiled.along_columns) {
    Touch(graph, value, segment, of, NodesOfLevel(parameter.columns, cuts.block, cut.column_level));
  }
  const LoweredNode& lowered = graph.node(node);
  if (std::holds_alternative<model::EmbeddingGradient>(lowered.node->op)) {
    Touch(graph, lowered.operands[0], segment, of, {{0, 1}});
  }
}

std::vector<Range> ValueGrid::ColumnsWithin(int root, const Range& range) const {
  const std::vector<std::int64_t>& points = entry(root).points;
  std::vector<Range> cells;
  auto at = std::lower_bound(points.begin(), points.end(), range.begin);
  assert(at != points.end() && *at == range.begin);
  while (*at != range.end) {
    cells.push_back({*at, *(at + 1)});
    ++at;
    assert(at != points.end());
  }
  return cells;
}

}  // namespace acan
