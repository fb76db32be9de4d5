// A directed scenario for a history that only one in 15,000 seeds has.
#pragma once

#include <string>

namespace acan::simulation {

// A manager leads and puts and retires tuples, but its link to the broker is stalled until its lead
// has ended. Another manager takes over. The messages of the first one arrive only then, and must
// change nothing. Returns the violation; empty: none.
std::string RunFormerLeader();

}  // namespace acan::simulation
