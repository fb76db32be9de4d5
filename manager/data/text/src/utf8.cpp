#include "utf8.h"

#include <algorithm>
#include <cstdint>

namespace acan {

std::optional<char32_t> NextCharacter(std::string_view text, std::size_t* at) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t first = byte(*at);
  const std::size_t bytes = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if ((first >= 0x80 && first < 0xc2) || first > 0xf4 || *at + bytes > text.size()) {
    return std::nullopt;
  }
  char32_t character = bytes == 1 ? first : first & (0x7fU >> bytes);
  for (std::size_t i = 1; i < bytes; ++i) {
    const std::uint8_t next = byte(*at + i);
    if ((next & 0xc0) != 0x80) return std::nullopt;
    character = character << 6 | (next & 0x3fU);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = character >= 0xd800 && character < 0xe000;
  if (character < kLeast[bytes] || surrogate || character > 0x10ffff) return std::nullopt;
  *at += bytes;
  return character;
}

std::string LineOf(std::string_view text, std::size_t at) {
  return fmt::format("line {}", 1 + std::ranges::count(text.substr(0, at), '\n'));
}

std::string ToUtf8(char32_t character) {
  const auto tail = [&](int shift) {
    return static_cast<char>(0x80 | (character >> shift & 0x3f));
  };
  if (character < 0x80) return {static_cast<char>(character)};
  if (character < 0x800) return {static_cast<char>(0xc0 | character >> 6), tail(0)};
  if (character < 0x10000) return {static_cast<char>(0xe0 | character >> 12), tail(6), tail(0)};
  return {static_cast<char>(0xf0 | character >> 18), tail(12), tail(6), tail(0)};
}

}  // namespace acan
