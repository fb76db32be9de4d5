// The clock, and the source of randomness, of everything that is not a pure state machine: those
// are given the time. The simulation of a whole cluster puts others in their place.
#pragma once

#include <cstdint>

namespace tuplespace {

// Microseconds of the host's monotonic clock; any thread.
std::int64_t MonotonicUs();
// That nobody can guess; any thread.
std::uint64_t RandomNumber();

}  // namespace tuplespace
