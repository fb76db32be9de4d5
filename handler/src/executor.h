// Executor: runs one task on a device. Used on the device's thread, except where it says otherwise.
#pragma once

#include <cstdint>
#include <memory>
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
  BufferPtr kept;                    // set if the device keeps the result
  std::uint64_t resident_bytes = 0;  // not 0: it does, and `payload` is empty
};

// A result whose bytes may still be on their way.
struct StartedResult {
  tuplespace::Key key;
  std::unique_ptr<PendingDownload> payload;
  BufferPtr kept;
  std::uint64_t resident_bytes = 0;  // not 0: `payload` only waits for the device
};

// Starts the operations of `task` in order and the downloads of its results behind them; the inputs
// may go when it returns. With `stay` the results that may stay on the device do. Throws
// OutOfMemory, std::runtime_error (the driver's words) and std::invalid_argument (an input of the
// wrong size). Nothing is allocated any more afterwards but the results.
std::vector<StartedResult> StartTaskOn(Device& device, const Task& task,
                                       const std::vector<TaskInput>& inputs, bool resident = false);
// Waits for them; any thread. Throws what the device says.
std::vector<TaskResult> FinishResults(std::vector<StartedResult> started);

// Both, one after the other.
std::vector<TaskResult> RunTaskOn(Device& device, const Task& task,
                                  const std::vector<TaskInput>& inputs);

}  // namespace acan
