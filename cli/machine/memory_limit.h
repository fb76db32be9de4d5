// How much of the machine's memory the control groups of this process leave it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace acan::cli {

// The minimum, over the group of this process and all groups above it, of versions 1 and 2, of the
// free memory: the group's limit less what it uses, where the part of the page cache that the
// kernel reclaims on demand does not count as used. nullopt if no group has a limit. `root` is put
// before /proc and before the groups' mount points, for tests with a tree of their own.
std::optional<std::uint64_t> FreeInControlGroups(const std::string& root = "");

}  // namespace acan::cli
