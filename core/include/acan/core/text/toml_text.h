// What must be known of a TOML text before a parser sees it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace acan {

inline constexpr std::size_t kMaxTomlDots = 1000;

// Each dot of a key nests a table in another one, and toml++ works on nested tables by recursion
// without a limit: a key of many parts would exhaust the stack. So this counts the dots outside of
// strings and comments. nullopt: the text may be parsed; else what is wrong, to follow a name.
std::optional<std::string> TomlDotsProblem(std::string_view text);

}  // namespace acan
