#include "machine.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>

#include "control_groups.h"

namespace acan::cli {

int UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return CoresWithin(CPU_COUNT(&set), ProcessorQuotaOfControlGroups());
}

int CoresWithin(int processors, std::optional<double> quota) {
  if (!quota) return std::max(1, processors);
  return static_cast<int>(std::clamp(std::ceil(*quota), 1.0, std::max(1.0, 1.0 * processors)));
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

std::optional<std::uint64_t> UsableMemoryBytes() {
  const std::optional<std::uint64_t> limit = MemoryLimitOfControlGroups();
  const long pages = ::sysconf(_SC_PHYS_PAGES), page_bytes = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return limit;
  const auto bytes = static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes);
  return std::min(bytes, limit.value_or(bytes));
}

std::uint64_t DefaultPayloadBytes(std::uint64_t memory_bytes) {
  return memory_bytes / 4 * 3;
}

ReceiveBytes DefaultReceiveBytes(std::uint64_t memory_bytes) {
  // With less than 1 GiB of memory, a fast link would exceed a proportional share within moments.
  constexpr std::uint64_t kLeast = 64ull << 20;
  constexpr std::uint64_t kMost = 4ull << 30;
  const std::uint64_t share = std::clamp(memory_bytes / 16, kLeast, kMost);
  return {.unfinished = share, .unread = share, .waiting = share / 2};
}

}  // namespace acan::cli
