// Byte counts as people write them: "4096", "64KiB", "1.5 GiB".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace acan {

// Accepts a number, optionally with a fraction, followed by nothing or B, KiB, MiB, GiB or TiB,
// with optional blanks between. nullopt if `text` is anything else, is not a whole number of bytes,
// or exceeds 2^63 - 1.
std::optional<std::uint64_t> ParseSize(std::string_view text);

// The shortest exact text that ParseSize reads back: "64KiB", "1000B".
std::string SizeText(std::uint64_t bytes);

// The same, rounded to four digits if it has more: "11.33GiB", "369.3KiB".
std::string RoundedSizeText(std::uint64_t bytes);

}  // namespace acan
