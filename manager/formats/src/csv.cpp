// CSV of numbers: comma-separated values, one sample per line, and an optional first line of column
// names.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "acan/core/error.h"
#include "acan/core/ieee_mode.h"
#include "acan/manager/input_file.h"
#include "headers.h"

namespace acan {
namespace {

constexpr std::size_t kMaxLineBytes = 1 << 28;
constexpr std::int64_t kMaxColumns = 1 << 24;
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::size_t kShown = 40;  // bytes of a field that a message shows

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// The nearest float. Infinity and NaN are returned as such; the caller refuses them.
std::optional<float> ParseNumber(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const char* const end = text.data() + text.size();
  float value = 0;
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (rest != end || error == std::errc::invalid_argument) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    // Underflow gives 0 (or a denormal), overflow infinity. from_chars does not distinguish them.
    return static_cast<float>(std::strtod(std::string(text).c_str(), nullptr));
  }
  return value;
}

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

// True for "1.5" in quotes, 1_000, 12% and 4.5.6, but not for 1stFloor, 2019Q1 and 2020-01-31.
bool LooksLikeNumber(std::string_view field) {
  const std::size_t first = field.find_first_not_of("\"' ");
  if (first == std::string_view::npos) return false;
  if (!IsDigit(field[first]) &&
      std::string_view("+-.").find(field[first]) == std::string_view::npos)
    return false;
  bool digits = false;
  for (std::size_t i = first; i < field.size(); ++i) {
    const char c = field[i];
    digits = digits || IsDigit(c);
    if (c == '-' && i > first && IsDigit(field[i - 1])) return false;
    if (!IsDigit(c) && std::string_view("+-.eE_%\"' ").find(c) == std::string_view::npos)
      return false;
  }
  return digits;
}

// The beginning of a field, with control characters escaped, because a terminal would obey them.
std::string Shown(std::string_view field) {
  constexpr std::size_t kMaxBytes = 40;
  std::string text;
  for (const char c : field.substr(0, kMaxBytes)) {
    const auto byte = static_cast<unsigned char>(c);
    const bool control = byte < 0x20 || byte == 0x7f;
    text += control ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return text;
}

class CsvParser {
 public:
  explicit CsvParser(const std::string& path) : path_(path) {}

  // Processes one line without its end.
  void Line(std::string_view line) {
    ++line_;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (line_ == 1 && line.starts_with(kByteOrderMark)) {
      line.remove_prefix(kByteOrderMark.size());
    }
    if (Trimmed(line).empty()) {
      if (blank_line_ == 0) blank_line_ = line_;
      return;
    }
    if (blank_line_ != 0) {
      throw UsageError(
          fmt::format("{}, line {}: is empty; only the end of the file may have empty lines", path_,
                      blank_line_));
    }
    if (line_ == 1 && IsHeader(line)) {
      names_ = CountNames(line);
      return;
    }
    Values(line);
  }

  Array Finish() {
    if (rows_ == 0) {
      throw UsageError(
          fmt::format("{}: has no line of numbers; at least one sample is needed", path_));
    }
    return {path_, {rows_, columns_}, std::move(values_)};
  }

 private:
  // A header has names only. A line with some numbers is a damaged sample: if it were skipped as a
  // header, every later sample would get another sample's label.
  bool IsHeader(std::string_view line) const {
    std::int64_t column = 0;
    for (std::size_t begin = 0; begin <= line.size();) {
      const std::size_t end = std::min(line.find(',', begin), line.size());
      const std::string_view field = Trimmed(line.substr(begin, end - begin));
      ++column;
      if (field.empty() || ParseNumber(field)) return false;
      if (LooksLikeNumber(field)) {
        throw UsageError(
            fmt::format("{}, line 1, column {}: '{}' is neither a number nor a column name; write "
                        "a number like 1.5 or -2e3, or begin a name with a letter",
                        path_, column, field.substr(0, kShown)));
      }
      begin = end + 1;
    }
    return true;
  }

  // A name in quotes may have commas. 0 for a comment, as numpy.savetxt writes its `header`.
  static std::int64_t CountNames(std::string_view line) {
    if (line.starts_with('#')) return 0;
    std::int64_t outside = 0;
    bool quoted = false;
    for (const char c : line) {
      if (c == '"') quoted = !quoted;
      if (c == ',' && !quoted) ++outside;
    }
    return 1 + (quoted ? std::ranges::count(line, ',') : outside);
  }

  void Values(std::string_view line) {
    std::int64_t column = 0;
    for (std::size_t begin = 0; begin <= line.size();) {
      const std::size_t end = std::min(line.find(',', begin), line.size());
      Value(Trimmed(line.substr(begin, end - begin)), ++column);
      begin = end + 1;
    }
    if (rows_ == 0) columns_ = column;
    if (rows_ == 0 && names_ != 0 && names_ != column) {
      throw UsageError(
          fmt::format("{}, line {}: has {} values, but line 1 has {} names; each column needs a "
                      "name (pandas: to_csv(index=False, header=False))",
                      path_, line_, column, names_));
    }
    if (column != columns_) {
      throw UsageError(fmt::format("{}, line {}: has {} values, the lines before have {}", path_,
                                   line_, column, columns_));
    }
    ++rows_;
  }

  // For a field that is not a number.
  const char* HintOf(std::string_view field) const {
    if (line_ != 1) return "";
    // As pandas writes the column of its index, which has no name.
    return field.empty() ? "; a first line of names needs a name for each column (pandas: "
                           "to_csv(index=False, header=False))"
                         : "; if the first line has the columns' names, each field must be a name, "
                           "and neither a number nor empty";
  }

  void Value(std::string_view field, std::int64_t column) {
    const std::optional<float> value = ParseNumber(field);
    if (!value) {
      throw UsageError(fmt::format(
          "{}, line {}, column {}: '{}' is not a number; expected numbers separated by commas{}",
          path_, line_, column, Shown(field), HintOf(field)));
    }
    if (!std::isfinite(*value)) {
      throw UsageError(fmt::format("{}, line {}, column {}: '{}' is not finite in 32 bits", path_,
                                   line_, column, Shown(field)));
    }
    if (column > kMaxColumns) {
      throw UsageError(fmt::format("{}, line {}: has more than the limit of {} values", path_,
                                   line_, kMaxColumns));
    }
    values_.push_back(*value);
  }

  const std::string& path_;
  std::int64_t line_ = 0;
  std::int64_t blank_line_ = 0;
  std::int64_t names_ = 0;  // in the first line; 0: none
  std::int64_t rows_ = 0;
  std::int64_t columns_ = 0;
  std::vector<float> values_;
};

}  // namespace

std::int64_t NumberedColumnsOfCsv(InputFile& file) {
  constexpr std::size_t kChunkBytes = 1 << 12;
  std::string chunk(kChunkBytes, '\0');
  std::string ahead;  // the part of "0,1,2,..." that must follow
  std::int64_t columns = 0;
  bool returned = false;  // the last byte was a '\r'
  for (bool begun = false;; begun = true) {
    const std::size_t got = file.Read({reinterpret_cast<std::uint8_t*>(chunk.data()), kChunkBytes});
    std::string_view text = std::string_view(chunk).substr(0, got);
    const std::size_t end = text.find('\n');
    const bool whole = end != std::string_view::npos || got < kChunkBytes;
    text = text.substr(0, end);
    if (!begun && text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
    if (returned && !text.empty()) return 0;
    returned = text.ends_with('\r');
    if (returned) text.remove_suffix(1);
    while (ahead.size() < text.size()) {
      ahead += fmt::format("{}{}", columns == 0 ? "" : ",", columns);
      ++columns;
    }
    if (!ahead.starts_with(text) || columns > kMaxColumns) return 0;
    ahead.erase(0, text.size());
    if (whole) return ahead.empty() ? columns : 0;
  }
}

Array ReadCsv(InputFile& file) {
  constexpr std::size_t kChunkBytes = 1 << 20;
  const IeeeMode ieee;  // the same values in every process
  CsvParser parser(file.path());
  std::string text;  // the incomplete line at the end of the last chunk
  std::int64_t total_bytes = 0;
  for (;;) {
    const std::size_t had = text.size();
    text.resize(had + kChunkBytes);
    const std::size_t got =
        file.Read({reinterpret_cast<std::uint8_t*>(text.data()) + had, kChunkBytes});
    text.resize(had + got);
    total_bytes += static_cast<std::int64_t>(got);
    if (total_bytes > kMaxCsvBytes) {
      throw UsageError(
          fmt::format("{}: is longer than the limit of {} bytes for CSV; NPY has no "
                      "such limit",
                      file.path(), kMaxCsvBytes));
    }
    std::size_t begin = 0;
    std::size_t search = had;
    for (std::size_t end; (end = text.find('\n', search)) != std::string::npos;) {
      parser.Line(std::string_view(text).substr(begin, end - begin));
      begin = search = end + 1;
    }
    text.erase(0, begin);
    if (text.size() > kMaxLineBytes) {
      throw UsageError(fmt::format("{}: has a line longer than the limit of {} bytes", file.path(),
                                   kMaxLineBytes));
    }
    if (got < kChunkBytes) break;
  }
  if (!text.empty()) parser.Line(text);
  return parser.Finish();
}

}  // namespace acan
