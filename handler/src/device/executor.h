// Executor: runs one task on a device. For one thread at a time, which is DeviceThread's starter
// or, for short tasks, the handler's thread. FinishResults may be called on any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "acan/core/task.h"
#include "tuplespace/payload.h"

namespace acan {

// An input that came in a message or is on the device. Exactly one of the two is set. A whole input
// that was uploaded ahead has only `buffer`.
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

// A result whose bytes may be pending.
struct StartedResult {
  tuplespace::Key key;
  std::unique_ptr<PendingDownload> payload;  // null if it stays on the device
  BufferPtr kept;
  std::uint64_t resident_bytes = 0;             // not 0: it stays on the device
  std::optional<tuplespace::PayloadHash> hash;  // set if it was computed together with the bytes
};

struct StartedResults {
  std::vector<StartedResult> results;
  // The end of the task's operations, shared by all results that stay on the device; null: none
  // stays.
  std::unique_ptr<PendingDownload> mark;

  bool ready() const;  // whether everything is complete
};

// The task's buffers that are inputs, or made of inputs; the others are null. Tuples that are
// pieces of a buffer are copied into it and released on return, unless they have other owners.
// Throws OutOfMemory, std::runtime_error (the driver's message) and std::invalid_argument (an input
// of the wrong size).
std::vector<BufferPtr> GatherInputs(Device& device, const Task& task, std::vector<TaskInput> inputs,
                                    bool resident = false);
// Allocates the other buffers, starts the operations of `task` in order, and then the downloads of
// its results. With `resident`, the results that may stay on the device do. Of the results that
// leave it, those that are a whole buffer of at least `keeps_from_bytes` are also kept. Throws
// OutOfMemory and std::runtime_error. Afterwards only the results are allocated.
StartedResults StartTaskOn(Device& device, const Task& task, std::vector<BufferPtr> buffers,
                           bool resident = false, std::uint64_t keeps_from_bytes = UINT64_MAX);
// Waits for the results; any thread. Throws what the device reports.
std::vector<TaskResult> FinishResults(StartedResults started);

// All three steps, one after the other.
std::vector<TaskResult> RunTaskOn(Device& device, const Task& task, std::vector<TaskInput> inputs);

}  // namespace acan
