#include "machine.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "memory_limit.h"

namespace acan::cli {

int UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

Machine ThisMachine() {
  Machine machine;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> machine.id;
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return machine;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) machine.cpus.push_back(cpu);
  }
  return machine;
}

std::uint64_t AvailableMemoryBytes() {
  std::uint64_t bytes = std::uint64_t{1} << 30;
  std::ifstream meminfo("/proc/meminfo");
  for (std::string name; meminfo >> name;) {
    std::uint64_t kib = 0;
    if (name == "MemAvailable:" && meminfo >> kib) bytes = kib << 10;
    meminfo.ignore(256, '\n');
  }
  return std::min(bytes, FreeInControlGroups().value_or(bytes));
}

std::uint64_t DefaultMemoryBytes(std::size_t handlers) {
  const std::uint64_t share = AvailableMemoryBytes() / 2 / std::max<std::size_t>(1, handlers);
  return std::max(share, std::uint64_t{1} << 20);
}

}  // namespace acan::cli
