// Work that takes longer than a manager may be silent: on a thread, while this one polls.
#pragma once

#include <functional>

#include "tuplespace/client.h"

namespace acan {

// Runs `work` on a thread and polls `client` until it is done. `check` is called between, and what
// it or Poll throws ends the wait: the `go_on` that `work` is given, to be called often, throws
// from then on, and this returns when `work` has ended. What `work` throws leaves this. If the
// system has no thread for it, `work` runs here, and its go_on polls and checks.
void WorkBeside(tuplespace::Client& client, const std::function<void()>& check,
                const std::function<void(const std::function<void()>& go_on)>& work);

}  // namespace acan
