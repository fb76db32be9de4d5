// What this machine has for handlers: cores and memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace acan::cli {

// Cores that this process may use (its affinity mask): at least 1.
int UsableCores();

// A machine and what a process may use of it.
struct Machine {
  // Equal for all processes of a machine since it was started, in containers, too; empty: the
  // system does not say.
  std::string id;
  std::vector<int> cpus;  // processors that this process may use, ascending
};
Machine ThisMachine();

// The memory that the system, and the control groups of this process, still have free.
std::uint64_t AvailableMemoryBytes();
// What one of `handlers` handlers on this machine may hold when nobody said: half of what is
// available, shared out. At least 1 MiB.
std::uint64_t DefaultMemoryBytes(std::size_t handlers);

}  // namespace acan::cli
