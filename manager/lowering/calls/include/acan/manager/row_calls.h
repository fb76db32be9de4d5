// RowCalls: computes the rows of some samples, or of some positions of one sample, with the same
// calls that tasks are made of. For some positions, attention reads the keys and values of earlier
// ones from caches, so text is generated token by token with the bits of a whole pass:
//
//                         positions
//              0 .. first - 1      first .. end - 1
//   keys      [    cached     ]   [ put there now ]   buffer [positions of a sample, columns]
//   queries                       [ computed now  ]
//
// Pure values and functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "acan/core/model.h"
#include "acan/core/range.h"
#include "acan/core/task.h"
#include "acan/manager/lowered_graph.h"

namespace acan {

struct RowCalls {
  enum class Source : std::uint8_t {
    kInput,      // the rows of the graph's input `index`
    kParameter,  // all of the graph's parameter `index`
    kTable,      // the whole table index / 2: its cosines, or its sines if index is odd
  };
  struct TaskInput {
    Source source = Source::kInput;
    std::int32_t index = 0;
    std::uint32_t buffer = 0;  // of the task; the input fills all of it
  };

  Task task;
  std::vector<TaskInput> inputs;
  // Buffers that persist between calls: the keys and values of each attention, in node order.
  std::vector<std::uint32_t> caches;
  // The rows of the last node's first result; absent if no single buffer holds all of it.
  View result;
};

// The calls of the nodes up to `last_node`, for some positions.
// REQUIRES: WhyNotByRows is empty; 0 <= positions.begin < positions.end <= those of a sample.
RowCalls CallsOfRows(const LoweredGraph& graph, const Training& training, int last_node,
                     const Range& positions);

// As above for all positions of the first `samples` samples, for any operators. There are no
// caches. Inputs and the result have the rows of all samples, in their order. The bits of a
// sample's rows do not depend on `samples`. REQUIRES: samples > 0.
RowCalls CallsOfSamples(const LoweredGraph& graph, const Training& training, int last_node,
                        std::int64_t samples);

// Why the nodes up to `last_node` cannot be computed row by row: the end of a sentence about the
// first node that needs later rows. Empty if they can.
std::string WhyNotByRows(const LoweredGraph& graph, int last_node);

}  // namespace acan
