// A directed scenario for a history that seeds hardly ever have.
#pragma once

#include <string>

namespace acan::simulation {

// A manager trains with one handler, on whose device the tiles of most versions stay. The handler
// is killed just after a version was committed that exists only there; another handler takes its
// place. The run must go back to a version in the space, and end as without the loss. Returns the
// violation; empty: none.
std::string RunLostVersion();

}  // namespace acan::simulation
