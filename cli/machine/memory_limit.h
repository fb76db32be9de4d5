// What the control groups of this process leave it of the machine's memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace acan::cli {

// The least that is free in the group of this process and in all groups above it, of version 1 and
// 2: the limit of each less what it uses, without the part of the page cache that the kernel gives
// back when memory is asked for. nullopt: none of them has a limit. `root` is put before
// /proc and before where the groups are mounted; tests have a tree of their own.
std::optional<std::uint64_t> FreeInControlGroups(const std::string& root = "");

}  // namespace acan::cli
