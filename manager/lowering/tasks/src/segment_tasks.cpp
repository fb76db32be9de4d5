#include "segment_tasks.h"

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

#include "operator_calls.h"
#include "phased_attention.h"
#include "phased_segment.h"
#include "segment_task.h"
#include "tiled_segment.h"

namespace acan {
namespace {

const Segment& SegmentAt(const PassContext& context, int segment) {
  return context.segments[static_cast<std::size_t>(segment)];
}

// The positions of the values that are cut within samples.
std::int64_t PositionsOf(const PassContext& context, int segment) {
  const Range& nodes = SegmentAt(context, segment).nodes;
  for (std::int64_t n = nodes.begin; n < nodes.end; ++n) {
    const LoweredNode& node = context.graph.node(static_cast<int>(n));
    for (const std::vector<int>* ids : {&node.results, &node.operands}) {
      for (const int id : *ids) {
        if (id >= 0 && context.Value(id).IsOfSamples()) return context.Value(id).rows;
      }
    }
  }
  return 1;
}

bool Computes(const PassContext& context, int segment) {
  if (SegmentAt(context, segment).in_updates) return false;
  const Range& nodes = SegmentAt(context, segment).nodes;
  for (std::int64_t n = nodes.begin; n < nodes.end; ++n) {
    const LoweredNode& node = context.graph.node(static_cast<int>(n));
    if (!node.is_view && !node.is_shared) return true;
  }
  return false;
}

// A whole range, and the shorter one that may be left at the end of the axis.
std::vector<std::pair<Range, std::int64_t>> SampleRanges(std::int64_t axis, std::int64_t span) {
  std::vector<std::pair<Range, std::int64_t>> samples;
  const std::int64_t whole = axis / span;
  if (whole > 0) samples.push_back({{0, span}, whole});
  if (axis % span > 0) samples.push_back({{whole * span, axis}, 1});
  return samples;
}

// Boxes that consist of nodes of the same sizes count as one kind.
std::vector<BoxSample> SampleUneven(const std::vector<Box>& boxes, std::int64_t batch) {
  const RowOrder of_samples(1, 1);
  std::map<std::vector<std::int64_t>, BoxSample> by_nodes;
  for (const Box& box : boxes) {
    std::vector<std::int64_t> sizes;
    for (const Box& node : of_samples.NodesOf(box, batch)) sizes.push_back(node.samples.size());
    BoxSample& sample = by_nodes[std::move(sizes)];
    if (sample.count++ == 0) sample.box = box;
  }
  std::vector<std::pair<std::size_t, BoxSample>> samples;
  for (const auto& [sizes, sample] : by_nodes) samples.emplace_back(sizes.size(), sample);
  std::stable_sort(samples.begin(), samples.end(), [](const auto& a, const auto& b) {
    return std::pair(a.first, a.second.box.samples.size()) >
           std::pair(b.first, b.second.box.samples.size());
  });
  std::vector<BoxSample> sorted;
  for (auto& [nodes, sample] : samples) sorted.push_back(std::move(sample));
  return sorted;
}

std::vector<BoxSample> FirstNeedsMost(std::vector<BoxSample> samples) {
  samples.front().needs_most = true;
  return samples;
}

// Whether later boxes read more keys, or read and make other rows of learned positions.
bool BoxesDiffer(const PassContext& context, int segment) {
  const Range& nodes = SegmentAt(context, segment).nodes;
  for (std::int64_t n = nodes.begin; n < nodes.end; ++n) {
    const int id = static_cast<int>(n);
    if (IsPositionsGradient(context.graph, id)) return true;
    const model::Operator& of_node = context.graph.node(id).node->op;
    if (std::holds_alternative<model::LearnedPositions>(of_node)) return true;
    const auto* op = std::get_if<model::Attention>(&of_node);
    if (op != nullptr && op->mask == model::AttentionMask::kCausal) return true;
  }
  return false;
}

// Boxes within samples, each its own kind. The first or one of the last two needs most.
std::vector<BoxSample> SampleQueries(const RowCut& cut, std::int64_t batch,
                                     std::int64_t positions) {
  std::vector<BoxSample> samples;
  for (const Box& box : BoxesOf(cut, 1, positions)) samples.push_back({box, batch});
  for (std::size_t i = samples.size(); i-- > 0 && i + 2 >= samples.size();) {
    samples[i].needs_most = true;
  }
  samples.front().needs_most = true;
  return samples;
}

// Parts with the same number of columns and cells of each operand and result count as one kind.
std::vector<std::pair<int, std::int64_t>> SampleParts(const PassContext& context,
                                                      const Segment& segment) {
  if (segment.column_parts == 1) return {{0, 1}};
  const int id = static_cast<int>(segment.nodes.begin);
  const LoweredNode& node = context.graph.node(id);
  std::map<std::vector<std::int64_t>, std::pair<int, std::int64_t>> kinds;
  for (int part = 0; part < segment.column_parts; ++part) {
    std::vector<std::int64_t> kind;
    for (const bool is_result : {false, true}) {
      const std::vector<int>& ids = is_result ? node.results : node.operands;
      for (std::size_t port = 0; port < ids.size(); ++port) {
        if (ids[port] < 0) continue;
        const LoweredValue& value = context.Value(ids[port]);
        const Range columns = ColumnsOf(context.graph, id, is_result, port, part, PartsOf(segment));
        kind.push_back(columns.size());
        if (value.kind == ValueKind::kParameter) {
          const std::vector<ParameterTile> tiles = context.TilesWithin(value.index, columns);
          kind.push_back(static_cast<std::int64_t>(tiles.size()));
          kind.push_back(tiles.back().columns.end - tiles.front().columns.begin);
        } else if (context.graph.RootOf(ids[port]).IsOfSamples()) {
          kind.push_back(context.grid.CellsWithin(
              value.root, {value.first_column + columns.begin, value.first_column + columns.end}));
        }
      }
    }
    auto& [first, count] = kinds[std::move(kind)];
    if (count++ == 0) first = part;
  }
  std::vector<std::pair<int, std::int64_t>> parts;
  for (const auto& [kind, part] : kinds) parts.push_back(part);
  return parts;
}

}  // namespace

std::vector<Box> BoxesOfSegment(const PassContext& context, int segment) {
  if (IsAttentionInPhases(context, segment)) return BoxesOf({1, 0}, context.pass.rows, 1);
  return BoxesOf(SegmentAt(context, segment).rows, context.pass.rows,
                 PositionsOf(context, segment));
}

void AppendTasks(const PassContext& context, int segment, const std::vector<Box>& boxes,
                 std::vector<PlannedTask>* tasks) {
  if (!Computes(context, segment)) return;
  if (SegmentAt(context, segment).in_phases) {
    const bool attends = IsAttentionInPhases(context, segment);
    return AppendTo(tasks, attends ? PhasedAttentionTasks(context, segment, boxes)
                                   : PhasedTasks(context, segment, boxes));
  }
  if (SegmentAt(context, segment).by_tiles) {
    return AppendTo(tasks, TiledTasks(context, segment, boxes));
  }
  for (const Box& box : boxes) {
    for (int part = 0; part < SegmentAt(context, segment).column_parts; ++part) {
      tasks->push_back(SegmentTask(context, segment, box, part).Build());
    }
  }
}

std::vector<BoxSample> SampleBoxes(const PassContext& context, int segment) {
  const RowCut& cut = SegmentAt(context, segment).rows;
  const std::int64_t batch = context.pass.rows, positions = PositionsOf(context, segment);
  std::vector<BoxSample> samples;
  if (IsAttentionInPhases(context, segment)) return {{{{0, 1}, {}}, batch, true}};
  if (cut.IsWithinSamples() && cut.positions < positions) {
    if (BoxesDiffer(context, segment)) return SampleQueries(cut, batch, positions);
    for (const auto& [range, count] : SampleRanges(positions, cut.positions)) {
      samples.push_back({{{0, 1}, range}, count * batch});
    }
    return FirstNeedsMost(std::move(samples));
  }
  const std::int64_t span = cut.IsWithinSamples() ? 1 : cut.samples;
  if (!std::has_single_bit(static_cast<std::uint64_t>(span))) {
    return FirstNeedsMost(SampleUneven(BoxesOf(cut, batch, positions), batch));
  }
  for (const auto& [range, count] : SampleRanges(batch, span)) {
    samples.push_back({{range, {}}, count});
  }
  return FirstNeedsMost(std::move(samples));
}

std::vector<TaskSample> SampleTasks(const PassContext& context, int segment, const Box& box) {
  std::vector<TaskSample> samples;
  if (!Computes(context, segment)) return samples;
  if (IsAttentionInPhases(context, segment)) {
    return SamplePhasedAttention(context, segment, box,
                                 SampleParts(context, SegmentAt(context, segment)));
  }
  if (SegmentAt(context, segment).by_tiles) return SampleTiledTasks(context, segment, box);
  if (SegmentAt(context, segment).in_phases) {
    // There are few of these parts, and each has its own cells.
    for (PlannedTask& task : PhasedTasks(context, segment, {box})) {
      samples.push_back({std::move(task), 1});
    }
    return samples;
  }
  for (const auto& [part, count] : SampleParts(context, SegmentAt(context, segment))) {
    samples.push_back({SegmentTask(context, segment, box, part).Build(), count});
  }
  return samples;
}

}  // namespace acan
