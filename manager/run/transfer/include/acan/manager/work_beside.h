// Runs work that takes longer than a manager may be silent on another thread, while this one polls.
#pragma once

#include <functional>

#include "tuplespace/client.h"

namespace acan {

// Runs `work` on a thread, and polls `client` and calls `check` until it is done. If Poll or
// `check` throws, the `go_on` function, which `work` must call often, throws from then on, and
// WorkBeside throws when `work` has ended. Exceptions of `work` are passed on. If the system has no
// thread, `work` runs on this one, and its `go_on` polls and checks.
void WorkBeside(tuplespace::Client& client, const std::function<void()>& check,
                const std::function<void(const std::function<void()>& go_on)>& work);

}  // namespace acan
