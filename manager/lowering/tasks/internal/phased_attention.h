// Attention, or its gradient, by nodes of the queries and of the keys of a sample.
//
//                  keys
//              0    64   128     forward: each square makes triples (K, sum, o); for each node of
//           +----+----+----+     queries, a task joins the triples by the tree of keys
//        0  | ## |    |    |
//   queries +----+----+----+     gradient: each square makes a part of dq, and the parts of a row
//       64  | ## | ## |    |     of squares are added; it also makes parts of dk and dv, and the
//           +----+----+----+     parts of a column of squares are added
//      128  | ## | ## | ## |
//           +----+----+----+     A causal mask hides the squares without ##, which have no task.
#pragma once

#include <utility>
#include <vector>

#include "pass_context.h"
#include "segment_tasks.h"

namespace acan {

// Whether these tasks compute the segment; its boxes are then whole samples.
bool IsAttentionInPhases(const PassContext& context, int segment);
// The tasks of whole samples, each a box, in an order in which they can run.
std::vector<PlannedTask> PhasedAttentionTasks(const PassContext& context, int segment,
                                              const std::vector<Box>& samples);
// As SampleTasks. `parts` has one part of the heads of each kind, and the number of such parts.
std::vector<TaskSample> SamplePhasedAttention(
    const PassContext& context, int segment, const Box& sample,
    const std::vector<std::pair<int, std::int64_t>>& parts);

}  // namespace acan
