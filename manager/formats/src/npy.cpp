// NPY 1.0 to 3.0: "\x93NUMPY", version, header length, a Python dictionary, then the values.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "acan/core/error.h"
#include "acan/manager/input_file.h"
#include "headers.h"

namespace acan {
namespace {

constexpr std::size_t kMaxHeaderBytes = 1 << 16;
constexpr std::size_t kMaxNpyDimensions = 8;

struct HeaderEntries {
  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<std::int64_t>> shape;
};

// Parses {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 784), } strictly.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  HeaderEntries Parse() {
    HeaderEntries header;
    Expect('{');
    while (!Accept('}')) {
      const std::string key = Quoted();
      Expect(':');
      if (key == "descr" && !header.descr) {
        // A list is a structured type. The message names it, because its text would not help.
        if (Peek() == '[') Fail("holds records; expected one plain number type");
        header.descr = Quoted();
      } else if (key == "fortran_order" && !header.fortran_order) {
        header.fortran_order = Truth();
      } else if (key == "shape" && !header.shape) {
        header.shape = Shape();
      } else {
        Fail(fmt::format("has the unexpected or repeated entry '{}'", key));
      }
      if (!Accept(',')) {
        Expect('}');
        break;
      }
    }
    if (Peek() != '\0') Fail("has text after its closing brace");
    if (!header.descr || !header.fortran_order || !header.shape) {
      Fail("lacks one of 'descr', 'fortran_order' and 'shape'");
    }
    return header;
  }

 private:
  [[noreturn]] void Fail(const std::string& what) const {
    throw UsageError(fmt::format("{}: the NPY header {}", path_, what));
  }
  char Peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Accept(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  void Expect(char c) {
    if (!Accept(c)) Fail(fmt::format("is malformed at byte {}: expected '{}'", at_, c));
  }
  std::string Quoted() {
    const char quote = Peek() == '"' ? '"' : '\'';
    Expect(quote);
    const std::size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) Fail("has a string without an end");
    std::string value(text_.substr(at_, end - at_));
    at_ = end + 1;
    return value;
  }
  bool Truth() {
    Peek();
    for (const auto& [word, value] :
         {std::pair<std::string_view, bool>{"True", true}, {"False", false}}) {
      if (text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        return value;
      }
    }
    Fail(fmt::format("is malformed at byte {}: expected True or False", at_));
  }
  std::vector<std::int64_t> Shape() {
    std::vector<std::int64_t> shape;
    Expect('(');
    while (!Accept(')')) {
      Peek();
      std::int64_t size = 0;
      const char* const end = text_.data() + text_.size();
      const auto [rest, error] = std::from_chars(text_.data() + at_, end, size);
      if (error == std::errc::invalid_argument) {
        Fail(fmt::format("is malformed at byte {}: expected a size", at_));
      }
      if (error != std::errc() || size < 0) {
        Fail(fmt::format("has the size {}; expected sizes from 0 to {}",
                         text_.substr(at_, static_cast<std::size_t>(rest - text_.data()) - at_),
                         std::numeric_limits<std::int64_t>::max()));
      }
      if (shape.size() == kMaxNpyDimensions) {
        Fail(fmt::format("has too many sizes; expected at most {} sizes", kMaxNpyDimensions));
      }
      at_ = static_cast<std::size_t>(rest - text_.data());
      shape.push_back(size);
      if (!Accept(',')) {
        Expect(')');
        break;
      }
    }
    return shape;
  }

  std::string_view text_;
  const std::string& path_;
  std::size_t at_ = 0;
};

struct NpyType {
  const char* text;  // as numpy writes it
  NumberType type;
};
// A bool is the number 0 or 1, and not a byte of an image, which would be scaled.
constexpr NpyType kNpyTypes[] = {
    {"|u1", NumberType::kUint8},  {"u1", NumberType::kUint8},    {"<u1", NumberType::kUint8},
    {"<u2", NumberType::kUint16}, {"<u4", NumberType::kUint32},  {"<u8", NumberType::kUint64},
    {"|b1", NumberType::kInt8},   {"|i1", NumberType::kInt8},    {"i1", NumberType::kInt8},
    {"<i1", NumberType::kInt8},   {"<i2", NumberType::kInt16},   {"<i4", NumberType::kInt32},
    {"<i8", NumberType::kInt64},  {"<f4", NumberType::kFloat32}, {"<f8", NumberType::kFloat64}};

NumberType TypeOf(const std::string& text, const std::string& path) {
  const auto* found = std::ranges::find(kNpyTypes, text, &NpyType::text);
  if (found != std::end(kNpyTypes)) return found->type;
  throw UsageError(
      fmt::format("{}: NPY values of type '{}' are not supported; expected '|b1', '|i1', '|u1', "
                  "'<i2', '<u2', '<i4', '<u4', '<i8', '<u8', '<f4' or '<f8' (little-endian)",
                  path, text));
}

std::string ReadHeaderText(InputFile& file) {
  std::array<std::uint8_t, 8> magic{};
  const std::size_t got = file.Read(magic);
  constexpr std::array<std::uint8_t, 6> kMagic = {0x93, 'N', 'U', 'M', 'P', 'Y'};
  if (got < magic.size() || !std::equal(kMagic.begin(), kMagic.end(), magic.begin())) {
    throw UsageError(
        fmt::format("{}: begins like NPY (0x93) but not with 0x93 'NUMPY' and a "
                    "version",
                    file.path()));
  }
  if (magic[6] < 1 || magic[6] > 3) {
    throw UsageError(fmt::format("{}: NPY version {}.{} is not supported; expected 1, 2 or 3",
                                 file.path(), magic[6], magic[7]));
  }
  const std::size_t length_bytes = magic[6] == 1 ? 2 : 4;
  std::array<std::uint8_t, 4> length{};
  bool whole = file.Read(std::span(length).first(length_bytes)) == length_bytes;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) bytes |= std::size_t{length[i]} << (8 * i);
  if (bytes > kMaxHeaderBytes) {
    throw UsageError(fmt::format("{}: the NPY header claims {} bytes; the limit is {}", file.path(),
                                 bytes, kMaxHeaderBytes));
  }
  std::string text(bytes, '\0');
  whole = whole && file.Read({reinterpret_cast<std::uint8_t*>(text.data()), bytes}) == bytes;
  if (!whole) throw UsageError(fmt::format("{}: truncated inside the NPY header", file.path()));
  return text;
}

}  // namespace

NpyHeader ReadNpyHeader(InputFile& file) {
  const std::string text = ReadHeaderText(file);
  HeaderEntries header = HeaderParser(text, file.path()).Parse();
  if (*header.fortran_order && header.shape->size() > 1) {
    throw UsageError(
        fmt::format("{}: is in Fortran order; save it in C order "
                    "(numpy.save(path, numpy.ascontiguousarray(x)))",
                    file.path()));
  }
  if (header.shape->empty()) {
    throw UsageError(
        fmt::format("{}: holds a single value without dimensions; expected "
                    "[samples, ...]",
                    file.path()));
  }
  return {TypeOf(*header.descr, file.path()), std::move(*header.shape)};
}

Array ReadNpy(InputFile& file) {
  const auto [type, shape] = ReadNpyHeader(file);
  return ReadValues(file, shape, type);
}

}  // namespace acan
