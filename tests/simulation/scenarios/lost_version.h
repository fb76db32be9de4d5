// A directed scenario: a history that seeds hardly ever find, made on purpose.
#pragma once

#include <string>

namespace acan::simulation {

// A manager trains with one handler, on whose device the tiles of most versions stay. The handler
// is killed when a version is committed that is nowhere else; another one takes its place. The run
// must go back to a version that is in the space, and end as without the loss. Returns what was
// violated; empty: nothing.
std::string RunLostVersion();

}  // namespace acan::simulation
