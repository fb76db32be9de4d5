// TaskEncoder: the descriptions of tasks that often differ from the one before by the names of
// their results alone, as the same task does in one step after the other.
//
// Owned by one thread.
#pragma once

#include "acan/core/task.h"
#include "tuplespace/payload.h"

namespace acan {

class TaskEncoder {
 public:
  // EncodeTask(task).
  tuplespace::Payload Encode(const Task& task);

 private:
  Task last_;
  tuplespace::Payload payload_;  // of last_; empty: there is none
};

}  // namespace acan
