// Executor: runs one task on a device. Used from one thread at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "acan/core/task.h"
#include "tuplespace/payload.h"

namespace acan {

// An input as it came: in a message, or on the device already. Exactly one of the two is set, save
// for a whole input that was uploaded ahead, which has `buffer` only.
struct TaskInput {
  tuplespace::Payload payload;
  BufferPtr buffer;
};

struct TaskResult {
  tuplespace::Key key;
  tuplespace::Payload payload;
  BufferPtr kept;  // set if the result stays on the device
};

// Runs the operations of `task` in order. Throws OutOfMemory, std::runtime_error (the driver's words)
// and std::invalid_argument (an input of the wrong size). Nothing is allocated any more afterwards
// but the results.
std::vector<TaskResult> RunTaskOn(Device& device, const Task& task,
                                  const std::vector<TaskInput>& inputs);

}  // namespace acan
