// The sizes of a task's inputs: what its description says, and what the space says.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "acan/core/task.h"
#include "tuplespace/messages.h"

namespace acan {

// What is wrong with an input that no matrix of the task is made of, as nothing says how large it
// may be; or with one that did not come with the grant and is not here either. A handler
// sets memory aside for what the task says, so it must not fetch an input of another size: the
// client that made the input lies, and its claim may be a thousand times as large. nullopt: all is
// well, as far as the space knows. An input that stays with a client is no reason to fail the task:
// the handler waits, without reading it, for the space to get or lose it.
std::optional<std::string> ProblemOfInputs(
    const Task& task, const tuplespace::Grant& grant,
    const std::function<bool(const tuplespace::Key&)>& is_here);

}  // namespace acan
