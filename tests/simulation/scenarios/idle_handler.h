// Directed scenarios of a client that is listed as a handler and leaves tasks alone.
#pragma once

#include <string>

namespace acan::simulation {

// A client claims memory for every task, computes one task, and then takes none. The steps are cut
// for it, and the only other handler is too small for some of their tasks. Returns the violation;
// empty: none.
std::string RunIdleHandler();

// A client claims memory for every task and takes none, in a job in which every result is audited.
// There is one other handler. Returns the violation; empty: none.
std::string RunSilentVoter();

}  // namespace acan::simulation
