// Finds the products among a task's calls that form a sum over groups of rows (run_calls.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "acan/core/task.h"

namespace acan {

// Calls that together compute c = transpose(a) * b over groups of rows (Device::GemmGroups).
struct GroupProducts {
  std::size_t calls = 0;
  std::int64_t group_rows = 0;
  View a, b;  // over all groups
  View c;
};

// The sum that begins at call `first`. nullopt if no sum of at least `least_groups` groups begins
// there, or if a later call or an output reads the result of a single group. c shares no rows with
// a or b.
std::optional<GroupProducts> FindGroupProducts(const Task& task, std::size_t first,
                                               std::uint64_t least_groups);

}  // namespace acan
