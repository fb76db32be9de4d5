// What this machine has for handlers: cores and memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace acan::cli {

// Cores that this process may use (its affinity mask): at least 1.
int UsableCores();

// The memory that the system, and the control groups of this process, still have free.
std::uint64_t AvailableMemoryBytes();
// What one of `handlers` handlers on this machine may hold when nobody said: half of what is
// available, shared out. At least 1 MiB.
std::uint64_t DefaultMemoryBytes(std::size_t handlers);

}  // namespace acan::cli
