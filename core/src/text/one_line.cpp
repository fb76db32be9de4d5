#include "acan/core/text/one_line.h"

#include <algorithm>
#include <cstdint>

namespace acan {
namespace {

// The code point of a sequence of two or three bytes; 0 for any other byte.
std::uint32_t CodePoint(std::string_view text, std::size_t* bytes) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto follows = [&](std::size_t i) { return i < text.size() && (at(i) & 0xc0) == 0x80; };
  if ((at(0) & 0xe0) == 0xc0 && follows(1)) {
    *bytes = 2;
    return (at(0) & 0x1fu) << 6 | (at(1) & 0x3fu);
  }
  if ((at(0) & 0xf0) == 0xe0 && follows(1) && follows(2)) {
    *bytes = 3;
    return (at(0) & 0x0fu) << 12 | (at(1) & 0x3fu) << 6 | (at(2) & 0x3fu);
  }
  *bytes = 1;
  return 0;
}

// Whether a character beyond ASCII is a C1 control, a line or paragraph separator, or a direction
// mark.
bool IsControl(std::uint32_t point) {
  return (point >= 0x80 && point < 0xa0) || point == 0x200e || point == 0x200f ||
         (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069);
}

// The number of bytes at the end that begin a sequence of two or three bytes, of which some are
// missing. Longer ones are no controls, so they may be divided.
std::size_t IncompleteBytes(std::string_view text) {
  const auto leads = [&](std::size_t from_end, unsigned mask, unsigned lead) {
    return text.size() >= from_end &&
           (static_cast<unsigned char>(text[text.size() - from_end]) & mask) == lead;
  };
  if (leads(1, 0xe0, 0xc0) || leads(1, 0xf0, 0xe0)) return 1;
  return leads(1, 0xc0, 0x80) && leads(2, 0xf0, 0xe0) ? 2 : 0;
}

}  // namespace

std::string OneLine(std::string_view text) {
  std::string line;
  line.reserve(text.size());
  while (!text.empty()) {
    std::size_t bytes = 0;
    const std::uint32_t point = CodePoint(text, &bytes);
    const auto first = static_cast<unsigned char>(text.front());
    if (first < 0x20 || first == 0x7f || IsControl(point)) {
      line.push_back(' ');
    } else {
      line.append(text.substr(0, bytes));
    }
    text.remove_prefix(bytes);
  }
  return line;
}

std::string TerminalText::Add(std::string_view piece) {
  std::string text = Finish();
  text += piece;
  const std::size_t whole = text.size() - IncompleteBytes(text);
  incomplete_ = text.substr(whole);
  std::string shown;
  for (std::size_t begin = 0; begin < whole;) {
    const std::size_t end = std::min(text.find_first_of("\n\t", begin), whole);
    shown += OneLine(std::string_view(text).substr(begin, end - begin));
    if (end < whole) shown += text[end];
    begin = end + 1;
  }
  return shown;
}

}  // namespace acan
