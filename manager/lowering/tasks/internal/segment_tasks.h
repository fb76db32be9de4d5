// The tasks of the segments of a pass: all of them, or samples of each kind.
#pragma once

#include <cstdint>
#include <vector>

#include "pass_context.h"

namespace acan {

std::vector<Box> BoxesOfSegment(const PassContext& context, int segment);
// Appends the tasks of these boxes of a segment to `tasks`.
void AppendTasks(const PassContext& context, int segment, const std::vector<Box>& boxes,
                 std::vector<PlannedTask>* tasks);

// ---- samples for measuring ----------------------------------------------------------------------

// A box or task that represents `count` ones with the same needs and the same moved bytes.
struct BoxSample {
  Box box;
  std::int64_t count = 0;
  bool needs_most = false;  // the box that needs most is among those with this flag
};
struct TaskSample {
  PlannedTask task;
  std::int64_t count = 0;
  // This many consecutive kinds, of `count` tasks each, have the same cost. Sums of costs add them
  // one by one, so that they round as if each kind were listed.
  std::int64_t repeats = 1;
};
// One box of each kind.
std::vector<BoxSample> SampleBoxes(const PassContext& context, int segment);
// One task of each kind, among the tasks of a box.
std::vector<TaskSample> SampleTasks(const PassContext& context, int segment, const Box& box);

}  // namespace acan
