// The calls of each operator, by which a task computes a node.
#pragma once

#include <cstdint>

#include "segment_task.h"

namespace acan {

// Adds the calls of the task's current node. REQUIRES: it is not a view, and it reads rows.
void AddCalls(SegmentTask& task);

// The keys, of `positions`, that queries at these positions of a sample may see.
Range KeysSeenBy(const model::Attention& op, const Range& queries, std::int64_t positions);

// A call of attention or of its gradient: a range of samples, and for each a range of positions as
// queries and one as keys. A range of keys that is not all keys is a node of the tree of keys.
struct AttentionCall {
  Range samples;
  Range queries;
  Range keys;
  Range heads;  // of the queries
};
// `positions` is the number of positions per sample.
KernelScalars AttentionScalars(const PassContext& context, const model::Attention& op,
                               std::int64_t positions, const AttentionCall& call);

}  // namespace acan
