// What tasks need and cost, measured on samples of them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "acan/manager/graph_planner.h"
#include "pass_context.h"

namespace acan {

struct TaskCost {
  double us = 0;     // to compute and to move, on one worker
  double flops = 0;  // TaskWork::flops
  std::uint64_t need_bytes = 0;
  std::uint64_t moved_bytes = 0;
  bool fits_limits = true;  // of the space, for tuples and inputs, and of handlers, for tasks
};
TaskCost CostOfTask(const CutRequest& request, const PlannedTask& task);

// The cost of all boxes of a segment, from one task of each kind.
struct SegmentCost {
  double us = 0;     // until all are done
  double flops = 0;  // of all tasks
  std::int64_t tasks = 0;
  std::uint64_t moved_bytes = 0;
  std::uint64_t need_bytes = 0;  // of the largest task
  bool fits_limits = true;       // of all tasks
  bool fits = true;              // the largest box's task fits into the limit
};
// With a limit, and if a task of the largest box does not fit, only `fits` is set.
SegmentCost CostOfSegment(const CutRequest& request, const PassContext& context, int segment,
                          std::optional<std::uint64_t> limit_bytes = {});
// Sets only `need_bytes` and `fits_limits`, of the largest box.
TaskCost NeedOfSegment(const CutRequest& request, const PassContext& context, int segment);
// As the other CostOf, from the known costs of the segments of cuts.training.
CutCost CostOf(const CutRequest& request, const GraphCuts& cuts,
               const std::vector<SegmentCost>& segments);
// A pass over a full batch.
Pass FullPass(const CutRequest& request, bool train);

}  // namespace acan
