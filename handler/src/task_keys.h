// The keys that a task and its description name, compared with the key of the task.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "acan/core/task.h"
#include "tuplespace/key.h"

namespace acan {

// What is wrong with the keys of the task's inputs and results and of the tuples to fetch ahead;
// nullopt: all of them are of steps (AllOfSteps) of the same run as `key`, the task's own. The
// broker lets a manager whose key has a limit put tasks of its jobs only, but it does not read
// descriptions, and inputs may be tuples that a handler's role may not read. Without this check
// such a task could replace tuples of other jobs in the memory of the handler that takes it, or
// make the handler send so many Reads that its role forbids that the broker drops it. REQUIRES:
// `key` is not empty.
std::optional<std::string> ProblemOfKeys(const Task& task, const tuplespace::Key& key,
                                         const std::vector<tuplespace::Key>& inputs);

}  // namespace acan
