// The sizes of memory for which tasks may be cut, if handlers have different amounts of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "acan/core/names.h"
#include "acan/manager/task_cost.h"

namespace acan {

// Tasks that are cut for a size run on the handlers with at least that much memory.
struct MemorySize {
  std::uint64_t bytes = 0;
  WorkerSpeed speed;  // of these handlers
};

// A plan is made for each of them, which takes time.
inline constexpr std::size_t kMaxMemorySizes = 4;

// The largest first; each adds handlers to those before. Amounts that differ little count as one
// size, the smallest of them. REQUIRES: `handlers` is not empty.
std::vector<MemorySize> MemorySizes(const std::map<std::string, Capacity>& handlers);

// The index of the size to try first: the largest one whose handlers have most of the speed of all.
std::size_t UsualSize(const std::vector<MemorySize>& sizes);

std::map<std::string, Capacity> WithMemory(const std::map<std::string, Capacity>& handlers,
                                           std::uint64_t bytes);

}  // namespace acan
