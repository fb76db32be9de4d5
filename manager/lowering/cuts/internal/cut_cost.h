// What tasks need and cost, measured on some of them.
#pragma once

#include <cstdint>
#include <vector>

#include "acan/manager/graph_planner.h"
#include "pass_context.h"

namespace acan {

struct TaskCost {
  double us = 0;  // of computing and moving, on one worker
  std::uint64_t need_bytes = 0;
  std::uint64_t moved_bytes = 0;
  bool fits_space = true;  // its tuples and the number of its inputs
};
TaskCost CostOfTask(const CutRequest& request, const PlannedTask& task);

// All boxes of a segment, from one task of each kind.
struct SegmentCost {
  double us = 0;  // until all are done
  std::int64_t tasks = 0;
  std::uint64_t moved_bytes = 0;
  std::uint64_t need_bytes = 0;  // of the largest task
  bool fits_space = true;
};
SegmentCost CostOfSegment(const CutRequest& request, const PassContext& context, int segment);
// Only `need_bytes` and `fits_space`, and only of the largest box.
TaskCost NeedOfSegment(const CutRequest& request, const PassContext& context, int segment);
// Of the largest task of an evaluation.
std::uint64_t NeedOfEvaluation(const CutRequest& request, const GraphCuts& cuts);
// A pass of a full batch.
Pass FullPass(const CutRequest& request, bool train);

}  // namespace acan
