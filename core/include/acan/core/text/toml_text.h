// Checks a TOML text before it is parsed.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace acan {

inline constexpr std::size_t kMaxTomlDots = 1000;

// Each dot of a key nests another table, and toml++ processes nested tables by recursion without a
// limit, so a key of many parts would exhaust the stack. This function counts the dots outside
// strings and comments. nullopt: the text may be parsed. Otherwise it returns what is wrong, worded
// to follow a name.
std::optional<std::string> TomlDotsProblem(std::string_view text);

}  // namespace acan
