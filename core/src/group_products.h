// Finds the products of a sum over groups of rows among the calls of a task (run_calls.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "acan/core/task.h"

namespace acan {

// Calls that are c = transpose(a) * b over groups of rows (Device::GemmGroups).
struct GroupProducts {
  std::size_t calls = 0;
  std::int64_t group_rows = 0;
  View a, b;  // of all groups
  View c;
};

// Those from call `first` on; nothing if it does not begin such a sum of at least `least_groups`
// groups, or if something reads the result of a group afterwards. Neither a nor b has rows of c.
std::optional<GroupProducts> FindGroupProducts(const Task& task, std::size_t first,
                                               std::uint64_t least_groups);

}  // namespace acan
