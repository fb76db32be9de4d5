#include "acan/core/text/size_text.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <utility>

namespace acan {
namespace {

constexpr std::array<std::pair<std::string_view, int>, 6> kUnits = {
    {{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}, {"B", 0}, {"", 0}}};

}  // namespace

std::optional<std::uint64_t> ParseSize(std::string_view text) {
  const char* const end = text.data() + text.size();
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (error != std::errc() || text.front() == '-') return std::nullopt;
  std::string_view unit(rest, static_cast<std::size_t>(end - rest));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  for (const auto& [name, shift] : kUnits) {
    if (unit != name) continue;
    // A double would lose bits of integers above 2^53, so integers are parsed again as such.
    if (shift == 0) {
      std::int64_t exact = 0;
      const auto result = std::from_chars(text.data(), rest, exact);
      if (result.ec == std::errc() && result.ptr == rest) return static_cast<std::uint64_t>(exact);
    }
    const double bytes = number * static_cast<double>(std::uint64_t{1} << shift);
    if (!(bytes < 9223372036854775808.0)) return std::nullopt;
    const auto whole = static_cast<std::uint64_t>(bytes);
    if (static_cast<double>(whole) != bytes) return std::nullopt;
    return whole;
  }
  return std::nullopt;
}

std::string SizeText(std::uint64_t bytes) {
  for (const auto& [name, shift] : kUnits) {
    const std::uint64_t unit = std::uint64_t{1} << shift;
    if (bytes % unit == 0 && (bytes >= unit)) {
      return std::to_string(bytes / unit) + std::string(name);
    }
  }
  return "0B";
}

std::string RoundedSizeText(std::uint64_t bytes) {
  for (const auto& [name, shift] : kUnits) {
    const std::uint64_t unit = std::uint64_t{1} << shift;
    if (bytes < unit) continue;
    return fmt::format("{:.4g}{}", static_cast<double>(bytes) / static_cast<double>(unit), name);
  }
  return "0B";
}

}  // namespace acan
