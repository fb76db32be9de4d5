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

RowCut CellRowsOf(const Segment& segment) {
  if (segment.key_span == 0) return segment.rows;
  return FinerOf(segment.rows, {1, segment.key_span});
}

ValueGrid::ValueGrid(const LoweredGraph& graph) : entries_(graph.values().size()) {
  const auto nodes = static_cast<int>(graph.nodes().size());
  for (int node = 0; node < nodes; ++node) TouchNode(graph, node);
  for (std::size_t root = 0; root < entries_.size(); ++root) {
    Entry& entry = entries_[root];
    entry.is_input = graph.values()[root].kind == ValueKind::kInput;
    if (entry.is_input) {  // all of it is put, even if only slices are read
      entry.points.insert(entry.points.end(), {0, graph.values()[root].columns});
    }
    std::sort(entry.points.begin(), entry.points.end());
    entry.points.erase(std::unique(entry.points.begin(), entry.points.end()), entry.points.end());
  }
}

ValueGrid::ValueGrid(const LoweredGraph& graph, const GraphCuts& cuts,
                     const std::vector<Segment>& segments)
    : ValueGrid(graph) {
  for (const Segment& segment : segments) {
    ends_.push_back(segment.nodes.end);
    TouchAll(graph, cuts, segment, nullptr);
  }
}

// The node's operands and results are cells, unless a segment cuts them finer.
void ValueGrid::TouchNode(const LoweredGraph& graph, int node) {
  const LoweredNode& lowered = graph.node(node);
  if (lowered.is_view || lowered.is_shared) return;
  for (const std::vector<int>* ids : {&lowered.operands, &lowered.results}) {
    for (const int id : *ids) {
      if (id < 0 || !graph.RootOf(id).IsOfSamples()) continue;
      const LoweredValue& value = graph.value(id);
      Entry& entry = entries_[static_cast<std::size_t>(value.root)];
      if (entry.first_node < 0) entry.first_node = node;
      entry.last_node = node;
      entry.points.push_back(value.first_column);
      entry.points.push_back(value.first_column + value.columns);
    }
  }
}

void ValueGrid::Add(const LoweredGraph& graph, const GraphCuts& cuts, const Segment& segment) {
  assert(segment.nodes.begin == (ends_.empty() ? 0 : ends_.back()));
  ends_.push_back(segment.nodes.end);
  Overlay(graph, cuts, segment);
}

void ValueGrid::Overlay(const LoweredGraph& graph, const GraphCuts& cuts, const Segment& segment) {
  changes_.emplace_back();
  TouchAll(graph, cuts, segment, &changes_.back());
}

void ValueGrid::RemoveLast() {
  RemoveOverlay();
  ends_.pop_back();
}

void ValueGrid::RemoveOverlay() {
  Changes& changes = changes_.back();
  for (auto change = changes.rbegin(); change != changes.rend(); ++change) {
    entries_[static_cast<std::size_t>(change->first)] = std::move(change->second);
  }
  changes_.pop_back();
}

void ValueGrid::TouchAll(const LoweredGraph& graph, const GraphCuts& cuts, const Segment& segment,
                         Changes* changes) {
  for (std::int64_t n = segment.nodes.begin; n < segment.nodes.end; ++n) {
    const int node = static_cast<int>(n);
    const LoweredNode& lowered = graph.node(node);
    if (lowered.is_view || lowered.is_shared) continue;
    const bool by_tiles = (segment.by_tiles && n == segment.nodes.begin) ||
                          (segment.in_updates && CanBeTiled(graph, node));
    if (by_tiles) {
      TouchByTiles(graph, cuts, segment, changes);
    } else {
      TouchByParts(graph, node, segment, changes);
    }
  }
}

void ValueGrid::Touch(const LoweredGraph& graph, int value, const Segment& of,
                      const std::vector<Range>& columns, Changes* changes) {
  const LoweredValue& v = graph.value(value);
  if (!graph.RootOf(value).IsOfSamples()) return;
  Entry& entry = entries_[static_cast<std::size_t>(v.root)];
  std::vector<std::int64_t> points;  // the new ones
  const auto add = [&](std::int64_t point) {
    if (!std::binary_search(entry.points.begin(), entry.points.end(), point)) {
      points.push_back(point);
    }
  };
  for (const Range& range : columns) {
    add(v.first_column + range.begin);
    add(v.first_column + range.end);
  }
  const RowCut cell_rows = CellRowsOf(of);
  const RowCut rows = entry.is_cut ? FinerOf(entry.rows, cell_rows) : cell_rows;
  if (entry.is_cut && rows == entry.rows && points.empty()) return;
  if (changes != nullptr) changes->emplace_back(v.root, entry);
  entry.is_cut = true;
  entry.rows = rows;
  if (points.empty()) return;
  entry.points.insert(entry.points.end(), points.begin(), points.end());
  std::sort(entry.points.begin(), entry.points.end());
  entry.points.erase(std::unique(entry.points.begin(), entry.points.end()), entry.points.end());
}

void ValueGrid::TouchByParts(const LoweredGraph& graph, int node, const Segment& of,
                             Changes* changes) {
  const LoweredNode& lowered = graph.node(node);
  for (const bool is_result : {false, true}) {
    const std::vector<int>& ids = is_result ? lowered.results : lowered.operands;
    for (std::size_t port = 0; port < ids.size(); ++port) {
      if (ids[port] < 0) continue;
      std::vector<Range> columns;  // the columns of the whole are known already
      for (int part = 0; of.column_parts > 1 && part < of.column_parts; ++part) {
        columns.push_back(ColumnsOf(graph, node, is_result, port, part, PartsOf(of)));
      }
      Touch(graph, ids[port], of, columns, changes);
    }
  }
}

void ValueGrid::TouchByTiles(const LoweredGraph& graph, const GraphCuts& cuts, const Segment& of,
                             Changes* changes) {
  const int node = static_cast<int>(of.nodes.begin);
  const TiledNode tiled = TiledNodeOf(graph, node);
  const model::Parameter& parameter = graph.graph().parameter(tiled.parameter);
  const ParameterCut& cut = cuts.parameters[static_cast<std::size_t>(tiled.parameter)];
  for (const int value : tiled.along_rows) {
    Touch(graph, value, of, NodesOfLevel(parameter.rows, cuts.block, cut.row_level), changes);
  }
  for (const int value : tiled.along_columns) {
    Touch(graph, value, of, NodesOfLevel(parameter.columns, cuts.block, cut.column_level), changes);
  }
  const LoweredNode& lowered = graph.node(node);
  if (std::holds_alternative<model::EmbeddingGradient>(lowered.node->op)) {
    Touch(graph, lowered.operands[0], of, {{0, 1}}, changes);
  }
}

bool ValueGrid::Crosses(int root) const {
  const Entry& of = entry(root);
  if (of.first_node < 0) return false;
  return of.is_input || SegmentOf(of.first_node) != SegmentOf(of.last_node);
}

int ValueGrid::SegmentOf(int node) const {
  return static_cast<int>(std::upper_bound(ends_.begin(), ends_.end(), node) - ends_.begin());
}

std::int64_t ValueGrid::CellsWithin(int root, const Range& range) const {
  const std::vector<std::int64_t>& points = entry(root).points;
  const auto begin = std::lower_bound(points.begin(), points.end(), range.begin);
  return std::lower_bound(begin, points.end(), range.end) - begin;
}

}  // namespace acan
