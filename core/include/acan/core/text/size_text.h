// Byte counts as people write them: "4096", "64KiB", "1.5 GiB".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace acan {

// A number, optionally with a fraction, then nothing or B, KiB, MiB, GiB or TiB, blanks between
// allowed. Empty if `text` is not that, is no whole number of bytes, or passes 2^63 - 1.
std::optional<std::uint64_t> ParseSize(std::string_view text);

// The shortest exact text that ParseSize reads back: "64KiB", "1000B".
std::string SizeText(std::uint64_t bytes);

}  // namespace acan
