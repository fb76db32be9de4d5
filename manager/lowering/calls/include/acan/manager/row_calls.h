// RowCalls: how the rows of some positions of one sample are computed, by the calls that tasks are
// made of. What earlier positions left for attention lies in caches, so text is generated token by
// token, to the bits of a whole pass:
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
    kTable,      // all of the graph's table index / 2: its cosines, or, if odd, its sines
  };
  struct TaskInput {
    Source source = Source::kInput;
    std::int32_t index = 0;
    std::uint32_t buffer = 0;  // of the task: the input is all of it
  };

  Task task;
  std::vector<TaskInput> inputs;
  // Buffers that stay from call to call: keys and values of each attention, in the order of nodes.
  std::vector<std::uint32_t> caches;
  // The rows of the first result of the last node; absent if no later node reads all of it.
  View result;
};

// The calls of the nodes up to `last_node`.
// REQUIRES: WhyNotByRows is empty; 0 <= positions.begin < positions.end <= those of a sample.
RowCalls CallsOfRows(const LoweredGraph& graph, const Training& training, int last_node,
                     const Range& positions);

// The same of all positions of one sample, for any operators. There are no caches.
RowCalls CallsOfSample(const LoweredGraph& graph, const Training& training, int last_node);

// Why the nodes up to `last_node` cannot be computed row by row, as the end of a sentence about the
// first node that needs later rows; empty: they can.
std::string WhyNotByRows(const LoweredGraph& graph, int last_node);

}  // namespace acan
