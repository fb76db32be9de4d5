// Characters in UTF-8.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "acan/core/error.h"

namespace acan {

// The character at `at`; moves `at` past it. Overlong forms, surrogates and numbers above
// U+10FFFF are not UTF-8 (RFC 3629).
std::optional<char32_t> NextCharacter(std::string_view text, std::size_t* at);

// The line of a byte of a text: "line 3".
std::string LineOf(std::string_view text, std::size_t at);

std::string ToUtf8(char32_t character);

// Calls `visit(character, offset of its first byte)` for each character.
template <typename Visit>
void ForEachCharacter(const std::string& path, std::string_view text, const Visit& visit) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const auto character = NextCharacter(text, &at);
    if (!character) {
      throw UsageError(
          fmt::format("{}, {}: byte {} is not UTF-8", path, LineOf(text, begin), begin));
    }
    visit(*character, begin);
  }
}

}  // namespace acan
