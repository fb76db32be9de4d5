#include "acan/core/text/toml_text.h"

#include <algorithm>

#include "fmt/format.h"

namespace acan {
namespace {

// The end of the string or comment that begins at `at`. If the parser will refuse it, the end may
// be anywhere.
std::size_t EndOfString(std::string_view text, std::size_t at) {
  const char quote = text[at];
  const std::string three(3, quote);
  const bool multiline = text.substr(at).starts_with(three);
  for (at += multiline ? 3 : 1; at < text.size(); ++at) {
    if (text[at] == '\\' && quote == '"') {
      ++at;
    } else if (!multiline && (text[at] == quote || text[at] == '\n')) {
      return at + 1;
    } else if (multiline && text.substr(at).starts_with(three)) {
      at += 3;
      // Up to two more quotes belong to the string.
      for (int more = 0; more < 2 && at < text.size() && text[at] == quote; ++more) ++at;
      return at;
    }
  }
  return text.size();
}

}  // namespace

std::optional<std::string> TomlDotsProblem(std::string_view text) {
  std::size_t dots = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '"' || text[at] == '\'') {
      at = EndOfString(text, at);
      continue;
    }
    if (text[at] == '#') {
      at = std::min(text.find('\n', at), text.size());
      continue;
    }
    if (text[at] == '.') ++dots;
    ++at;
  }
  if (dots <= kMaxTomlDots) return std::nullopt;
  return fmt::format(
      "has {} dots outside of its strings, at most {}: keys of so many parts nest too deeply", dots,
      kMaxTomlDots);
}

}  // namespace acan
