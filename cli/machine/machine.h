// What this machine offers to handlers: cores and memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace acan::cli {

// The number of cores that this process may use (its affinity mask): at least 1.
int UsableCores();

// A machine and what a process may use of it.
struct Machine {
  // Equal for all processes of a machine since its start, also in containers; empty if the system
  // does not tell.
  std::string id;
  std::vector<int> cpus;  // processors that this process may use, ascending
};
Machine ThisMachine();

// The memory that the system and the control groups of this process still have free.
std::uint64_t AvailableMemoryBytes();
// The default for what one of `handlers` handlers on this machine may hold: an equal share of half
// of the available memory, at least 1 MiB.
std::uint64_t DefaultMemoryBytes(std::size_t handlers);

}  // namespace acan::cli
