#include "acan/manager/memory_sizes.h"

#include <functional>
#include <set>

#include "acan/manager/handler_network.h"

namespace acan {
namespace {

// Amounts of memory count as one size up to this ratio, or to a larger one if there are too many.
constexpr double kSimilar = 1.25;
constexpr double kShareOfUsual = 0.75;  // of the speed of all handlers

using Amounts = std::set<std::uint64_t, std::greater<>>;

// The smallest amount of each group of amounts that differ by at most `ratio`.
std::vector<std::uint64_t> Groups(const Amounts& amounts, double ratio) {
  std::vector<std::uint64_t> smallest;
  double largest = 0;  // of the last group
  for (const std::uint64_t bytes : amounts) {
    if (smallest.empty() || static_cast<double>(bytes) * ratio < largest) {
      largest = static_cast<double>(bytes);
      smallest.push_back(bytes);
    }
    smallest.back() = bytes;
  }
  return smallest;
}

}  // namespace

std::map<std::string, Capacity> WithMemory(const std::map<std::string, Capacity>& handlers,
                                           std::uint64_t bytes) {
  std::map<std::string, Capacity> found;
  for (const auto& handler : handlers) {
    if (handler.second.memory_bytes >= bytes) found.insert(handler);
  }
  return found;
}

std::vector<MemorySize> MemorySizes(const std::map<std::string, Capacity>& handlers) {
  Amounts amounts;
  for (const auto& [id, capacity] : handlers) amounts.insert(capacity.memory_bytes);
  std::vector<std::uint64_t> groups;
  for (double ratio = kSimilar; groups.empty() || groups.size() > kMaxMemorySizes; ratio *= 2) {
    groups = Groups(amounts, ratio);
  }
  std::vector<MemorySize> sizes;
  for (const std::uint64_t bytes : groups) {
    sizes.push_back({bytes, SpeedOf(WithMemory(handlers, bytes))});
  }
  return sizes;
}

std::size_t UsualSize(const std::vector<MemorySize>& sizes) {
  const double enough = kShareOfUsual * GflopsOf(sizes.back().speed);
  std::size_t usual = 0;
  while (usual + 1 < sizes.size() && GflopsOf(sizes[usual].speed) < enough) ++usual;
  return usual;
}

}  // namespace acan
