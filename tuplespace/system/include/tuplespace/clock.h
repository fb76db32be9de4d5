// The clock and the source of randomness for all code that is not a pure state machine; state
// machines are given the time. The simulation of a whole cluster replaces both.
#pragma once

#include <cstdint>

namespace tuplespace {

// Microseconds of the host's monotonic clock; any thread.
std::int64_t MonotonicUs();
// Microseconds since the beginning of 1970 by the host's clock, which may be set; any thread.
std::int64_t UnixUs();
// A number that cannot be guessed; any thread.
std::uint64_t RandomNumber();

}  // namespace tuplespace
