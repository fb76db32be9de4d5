#include "whole_pass.h"

#include <utility>

#include "segment_task.h"
#include "tiled_segment.h"

namespace acan {

WholePass::WholePass(const LoweredGraph& graph, const GraphCuts& cuts,
                     const std::vector<Segment>& segments, const Training& training,
                     const Pass& pass)
    : grid(graph, cuts, segments), context{graph,
                                           cuts,
                                           segments,
                                           grid,
                                           training,
                                           pass,
                                           PassKeys(pass.job, pass.step, pass.batch_id)} {}

const Segment& WholePass::SegmentAt(int segment) const {
  return context.segments[static_cast<std::size_t>(segment)];
}

std::int64_t WholePass::PositionsOf(int segment) const {
  const Range& nodes = SegmentAt(segment).nodes;
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

std::vector<Box> WholePass::Boxes(int segment) const {
  return BoxesOf(SegmentAt(segment).rows, context.pass.rows, PositionsOf(segment));
}

bool WholePass::Computes(int segment) const {
  const Range& nodes = SegmentAt(segment).nodes;
  for (std::int64_t n = nodes.begin; n < nodes.end; ++n) {
    const LoweredNode& node = context.graph.node(static_cast<int>(n));
    if (!node.is_view && !node.is_shared) return true;
  }
  return false;
}

void WholePass::Append(int segment, const std::vector<Box>& boxes,
                       std::vector<PlannedTask>* tasks) const {
  if (!Computes(segment)) return;
  if (SegmentAt(segment).by_tiles) {
    for (PlannedTask& task : TiledTasks(context, segment, boxes)) tasks->push_back(std::move(task));
    return;
  }
  for (const Box& box : boxes) {
    for (int part = 0; part < SegmentAt(segment).column_parts; ++part) {
      tasks->push_back(SegmentTask(context, segment, box, part).Build());
    }
  }
}

}  // namespace acan
