// Attention, or its gradient, by nodes of the queries and of the keys of a sample.
//
//                  keys
//              0    64   128         forward: each square makes triples (K, sum, o), which a task
//              for
//           +----+----+----+         each node of queries joins by the tree of keys
//        0  | ## |    |    |
//   queries +----+----+----+         gradient: each square makes a part of dq, which is added over
//   the
//       64  | ## | ## |    |         nodes of keys, and parts of dk and dv, which are added over
//       the
//           +----+----+----+         nodes of queries
//      128  | ## | ## | ## |
//           +----+----+----+         A causal mask hides the squares without ##: they have no task.
#pragma once

#include <utility>
#include <vector>

#include "pass_context.h"
#include "segment_tasks.h"

namespace acan {

// Whether these tasks compute the segment; its boxes are whole samples then.
bool IsAttentionInPhases(const PassContext& context, int segment);
// Of whole samples, each a box, in an order in which they can run.
std::vector<PlannedTask> PhasedAttentionTasks(const PassContext& context, int segment,
                                              const std::vector<Box>& samples);
// As SampleTasks. `parts`: of the heads, one of each kind and how many there are.
std::vector<TaskSample> SamplePhasedAttention(
    const PassContext& context, int segment, const Box& sample,
    const std::vector<std::pair<int, std::int64_t>>& parts);

}  // namespace acan
