// What this machine offers to handlers: cores and memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace acan::cli {

// The number of cores that this process may use, at least 1: the processors of its affinity mask,
// or fewer if a control group has a smaller quota of processor time.
int UsableCores();
// The same for a mask with this many processors and a quota in processors; 1.5 gives two cores.
int CoresWithin(int processors, std::optional<double> quota);

// A machine and what a process may use of it.
struct Machine {
  // Equal for all processes of a machine since its start, also in containers; empty if the system
  // does not tell.
  std::string id;
  // Processors that this process may use, ascending. A quota of processor time leaves them all.
  std::vector<int> cpus;
};
Machine ThisMachine();

// The memory that the system and the control groups of this process still have free.
std::uint64_t AvailableMemoryBytes();
// The default for what one of `handlers` handlers on this machine may hold: an equal share of half
// of the available memory, at least 1 MiB.
std::uint64_t DefaultMemoryBytes(std::size_t handlers);

// The memory that this process and others in its control groups may use, whatever is in use: the
// machine's, or less if a control group has a smaller limit. nullopt if the system does not tell.
std::optional<std::uint64_t> UsableMemoryBytes();
// The default for all payloads of a broker that may use this much memory. The rest is for
// everything else, so that the broker reports a full space before the kernel ends the broker.
std::uint64_t DefaultPayloadBytes(std::uint64_t memory_bytes);
// The defaults for what such a broker holds besides, of clients that send faster than it can store.
struct ReceiveBytes {
  std::uint64_t unfinished = 0;  // of a key, if the space has no room for more
  std::uint64_t unread = 0;      // of all connections
  std::uint64_t waiting = 0;     // of one client; of all clients twice as much
};
ReceiveBytes DefaultReceiveBytes(std::uint64_t memory_bytes);

}  // namespace acan::cli
