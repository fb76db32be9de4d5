// The calls of each operator: how a node is computed in a task.
#pragma once

#include <cstdint>

#include "segment_task.h"

namespace acan {

// Adds the calls of the node at hand. REQUIRES: it is no view and reads rows.
void AddCalls(SegmentTask& task);

// The keys that queries at these positions of a sample may see, of `positions`.
Range KeysSeenBy(const model::Attention& op, const Range& queries, std::int64_t positions);

// A call of attention, or of its gradient: some samples, and of each some positions as queries and
// some as keys, which are nodes of the tree of keys where they are not all.
struct AttentionCall {
  Range samples;
  Range queries;
  Range keys;
  Range heads;  // of the queries
};
// `positions` are those of a sample.
KernelScalars AttentionScalars(const PassContext& context, const model::Attention& op,
                               std::int64_t positions, const AttentionCall& call);

}  // namespace acan
