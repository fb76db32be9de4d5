// The clock of everything that is not a pure state machine: those are given the time.
#pragma once

#include <cstdint>

namespace tuplespace {

// Microseconds of the host's monotonic clock; any thread. The simulation of a whole cluster puts a
// virtual clock in its place.
std::int64_t MonotonicUs();

}  // namespace tuplespace
