// A directed scenario: a history that seeds find once in 15,000, made on purpose.
#pragma once

#include <string>

namespace acan::simulation {

// A manager leads and puts and retires tuples, but its link to the broker is stalled until its lead
// has ended. Another manager takes over. What the first one sent arrives only now, and must change
// nothing. Returns what was violated; empty: nothing.
std::string RunFormerLeader();

}  // namespace acan::simulation
