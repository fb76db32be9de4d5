// Executor: runs one task on a device. Used on the device's thread, except where it says otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
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
  std::unique_ptr<PendingDownload> payload;  // null if it stays on the device
  BufferPtr kept;
  std::uint64_t resident_bytes = 0;             // not 0: it stays on the device
  std::optional<tuplespace::PayloadHash> hash;  // if it was taken as the bytes were made
};

struct StartedResults {
  std::vector<StartedResult> results;
  // The end of the task's operations, which all results that stay on the device share; null: none
  // stays.
  std::unique_ptr<PendingDownload> mark;

  bool ready() const;  // whether nothing is waited for any more
};

// The buffers of the task that are inputs, or made of inputs; the others are null. Tuples that are
// pieces of a buffer are copied into it, and are gone when it returns, unless somebody else has
// them. Throws OutOfMemory, std::runtime_error (the driver's words) and std::invalid_argument (an
// input of the wrong size).
std::vector<BufferPtr> GatherInputs(Device& device, const Task& task, std::vector<TaskInput> inputs,
                                    bool resident = false);
// Makes the other buffers, starts the operations of `task` in order and the downloads of its
// results behind them. With `resident` the results that may stay on the device do. Of those that
// leave it, what is a buffer from end to end and has `keeps_from_bytes` or more is kept as well.
// Throws OutOfMemory and std::runtime_error. Nothing is allocated any more afterwards but the
// results.
StartedResults StartTaskOn(Device& device, const Task& task, std::vector<BufferPtr> buffers,
                           bool resident = false, std::uint64_t keeps_from_bytes = UINT64_MAX);
// Waits for them; any thread. Throws what the device says.
std::vector<TaskResult> FinishResults(StartedResults started);

// All three, one after the other.
std::vector<TaskResult> RunTaskOn(Device& device, const Task& task, std::vector<TaskInput> inputs);

}  // namespace acan
