// What the control groups of this process (cgroups of versions 1 and 2) let it use of the machine.
//
// Each function considers the group of this process and all groups above it, and returns nullopt if
// none of them has a limit. `root` is put before /proc and before the groups' mount points, for
// tests with a tree of their own.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace acan::cli {

// The least free memory of a group, in bytes: its limit less what it uses, where the part of the
// page cache that the kernel reclaims on demand does not count as used.
std::optional<std::uint64_t> FreeInControlGroups(const std::string& root = "");
// The smallest limit on memory, in bytes, whatever is in use.
std::optional<std::uint64_t> MemoryLimitOfControlGroups(const std::string& root = "");
// The smallest quota of processor time, in processors: 2.5 means that the threads of the group may
// compute for 2.5 s in each second.
std::optional<double> ProcessorQuotaOfControlGroups(const std::string& root = "");

}  // namespace acan::cli
