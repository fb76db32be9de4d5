// The tasks of the segments of a pass, all of them or some of each kind.
#pragma once

#include <cstdint>
#include <vector>

#include "pass_context.h"

namespace acan {

std::vector<Box> BoxesOfSegment(const PassContext& context, int segment);
// The tasks of these boxes of a segment, behind those that are there.
void AppendTasks(const PassContext& context, int segment, const std::vector<Box>& boxes,
                 std::vector<PlannedTask>* tasks);

// ---- to measure --------------------------------------------------------------------------------

// So many boxes or tasks need and move the same; this is one of them.
struct BoxSample {
  Box box;
  std::int64_t count = 0;
  bool needs_most = false;  // no box without this needs more than all that have it
};
struct TaskSample {
  PlannedTask task;
  std::int64_t count = 0;
  // So many kinds of `count` tasks each follow each other that cost the same: sums of costs add
  // them one by one, so that they round as if each kind were there.
  std::int64_t repeats = 1;
};
// One box of each kind.
std::vector<BoxSample> SampleBoxes(const PassContext& context, int segment);
// One task of each kind, of those of a box.
std::vector<TaskSample> SampleTasks(const PassContext& context, int segment, const Box& box);

}  // namespace acan
