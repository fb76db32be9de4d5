// WholePass: a pass of a graph under its cuts, with what its tasks share.
#pragma once

#include <vector>

#include "pass_context.h"

namespace acan {

class WholePass {
 public:
  // The references must outlive it.
  WholePass(const LoweredGraph& graph, const GraphCuts& cuts, const std::vector<Segment>& segments,
            const Training& training, const Pass& pass);
  WholePass(const WholePass&) = delete;
  WholePass& operator=(const WholePass&) = delete;

  std::vector<Box> Boxes(int segment) const;
  // The tasks of these boxes of a segment, behind those that are there.
  void Append(int segment, const std::vector<Box>& boxes, std::vector<PlannedTask>* tasks) const;

 private:
  const Segment& SegmentAt(int segment) const;
  std::int64_t PositionsOf(int segment) const;  // of the values that are cut within samples
  bool Computes(int segment) const;

 public:
  const ValueGrid grid;
  const PassContext context;
};

}  // namespace acan
