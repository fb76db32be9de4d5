#include "key_encoding.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>

namespace tuplespace::internal {
namespace {

constexpr char kEscaped = static_cast<char>(0xFF);
constexpr char kTerminator = 0x01;
constexpr std::size_t kStringFrameBytes = 3;  // tag, 0x00, terminator

// The bytes of `value` in big endian order, and back.
std::uint64_t BigEndian(std::uint64_t value) {
  return std::endian::native == std::endian::little ? __builtin_bswap64(value) : value;
}

std::int64_t DecodeInteger(std::string_view encoded) {
  assert(encoded.size() == kIntegerFieldBytes);
  std::uint64_t big_endian;
  std::memcpy(&big_endian, encoded.data() + 1, sizeof big_endian);
  return static_cast<std::int64_t>(BigEndian(big_endian) ^ (1ull << 63));
}

std::string_view StringBody(std::string_view encoded) {
  assert(encoded.size() >= kStringFrameBytes);
  return encoded.substr(1, encoded.size() - kStringFrameBytes);
}

void AppendEscaped(std::string_view text, std::string* bytes) {
  for (const char c : text) {
    bytes->push_back(c);
    if (c == '\0') bytes->push_back(kEscaped);
  }
}

std::string Escaped(std::string_view text) {
  std::string escaped;
  AppendEscaped(text, &escaped);
  return escaped;
}

// Where the first zero from `at` on is; bytes.size() if there is none. Strings in keys are short,
// so that looking at one word after the other takes less time than a call of memchr.
std::size_t FindZero(std::string_view bytes, std::size_t at) {
  if constexpr (std::endian::native == std::endian::little) {
    constexpr std::uint64_t kOnes = 0x0101010101010101;
    for (std::uint64_t word; bytes.size() - at >= sizeof word; at += sizeof word) {
      std::memcpy(&word, bytes.data() + at, sizeof word);
      // The lowest bit that is set is in the first byte that is zero.
      const std::uint64_t zeros = (word - kOnes) & ~word & (kOnes << 7);
      if (zeros != 0) return at + static_cast<std::size_t>(std::countr_zero(zeros)) / 8;
    }
  }
  while (at < bytes.size() && bytes[at] != '\0') ++at;
  return at;
}

// The end of the string field that begins at `begin`; npos if it is not canonical.
std::size_t StringFieldEnd(std::string_view bytes, std::size_t begin) {
  std::size_t escapes = 0;
  for (std::size_t at = begin + 1;; at += 2) {
    at = FindZero(bytes, at);
    if (at + 1 >= bytes.size()) return std::string_view::npos;
    if (bytes[at + 1] == kTerminator) {
      const std::size_t length = at - begin - 1 - escapes;
      return length <= kMaxStringFieldBytes ? at + 2 : std::string_view::npos;
    }
    if (bytes[at + 1] != kEscaped) return std::string_view::npos;
    ++escapes;
  }
}

}  // namespace

void AppendStringPrefix(std::string_view prefix, std::string* bytes) {
  bytes->push_back(kStringTag);
  if (prefix.find('\0') == std::string_view::npos) {
    bytes->append(prefix);
  } else {
    AppendEscaped(prefix, bytes);
  }
}

void AppendField(const Field& field, std::string* bytes) {
  const FieldView view = ViewOf(field);
  const std::size_t begin = bytes->size();
  bytes->resize(begin + FieldBytes(view));
  WriteField(view, bytes->data() + begin);
}

FieldView ViewOf(const Field& field) {
  if (const auto* text = std::get_if<std::string>(&field)) return std::string_view(*text);
  return std::get<std::int64_t>(field);
}

std::size_t FieldBytes(const FieldView& field) {
  const auto* text = std::get_if<std::string_view>(&field);
  if (text == nullptr) return kIntegerFieldBytes;
  std::size_t bytes = kStringFrameBytes + text->size();
  for (std::size_t at = FindZero(*text, 0); at < text->size(); at = FindZero(*text, at + 1)) {
    ++bytes;  // its escape
  }
  return bytes;
}

char* WriteField(const FieldView& field, char* at) {
  if (const auto* text = std::get_if<std::string_view>(&field)) {
    *at++ = kStringTag;
    for (std::size_t from = 0; from < text->size();) {
      const std::size_t zero = FindZero(*text, from);
      at = std::copy_n(text->data() + from, zero - from, at);
      from = zero;
      if (zero == text->size()) break;
      *at++ = '\0';
      *at++ = kEscaped;
      ++from;
    }
    *at++ = '\0';
    *at++ = kTerminator;
    return at;
  }
  const std::uint64_t value =
      static_cast<std::uint64_t>(std::get<std::int64_t>(field)) ^ (1ull << 63);
  at[0] = kIntegerTag;
  const std::uint64_t big_endian = BigEndian(value);
  std::memcpy(at + 1, &big_endian, sizeof big_endian);
  return at + kIntegerFieldBytes;
}

std::size_t FieldEnd(std::string_view bytes, std::size_t begin) {
  if (begin >= bytes.size()) return std::string_view::npos;
  if (bytes[begin] == kStringTag) return StringFieldEnd(bytes, begin);
  const bool is_integer = bytes[begin] == kIntegerTag && bytes.size() - begin >= kIntegerFieldBytes;
  return is_integer ? begin + kIntegerFieldBytes : std::string_view::npos;
}

bool SplitKey(std::string_view bytes, KeySplit* split) {
  static_assert(kMaxKeyFields * (kStringFrameBytes + 2 * kMaxStringFieldBytes) <= UINT16_MAX);
  std::size_t count = 0;
  std::size_t at = 0;
  while (at < bytes.size()) {
    if (count == kMaxKeyFields) return false;
    split->begin[count++] = static_cast<std::uint16_t>(at);
    if (bytes[at] == kIntegerTag && bytes.size() - at >= kIntegerFieldBytes) {
      at += kIntegerFieldBytes;
    } else if (bytes[at] == kStringTag) {
      at = StringFieldEnd(bytes, at);
      if (at == std::string_view::npos) return false;
    } else {
      return false;
    }
  }
  split->begin[count] = static_cast<std::uint16_t>(at);
  split->count = count;
  return count > 0;
}

Field DecodeField(std::string_view encoded) {
  assert(!encoded.empty());
  if (encoded[0] == kIntegerTag) return DecodeInteger(encoded);
  const std::string_view body = StringBody(encoded);
  if (body.find('\0') == std::string_view::npos) return std::string(body);
  std::string text;
  for (std::size_t i = 0; i < body.size(); ++i) {
    text.push_back(body[i]);
    if (body[i] == '\0') ++i;  // skip the escape
  }
  return text;
}

bool FieldMatches(const FieldPattern& pattern, std::string_view encoded) {
  assert(!encoded.empty());
  using Op = FieldPattern::Op;
  if (pattern.op == Op::kAny) return true;
  const bool is_integer = encoded[0] == kIntegerTag;
  if (const auto* number = std::get_if<std::int64_t>(&pattern.value)) {
    if (!is_integer) return false;
    const std::int64_t value = DecodeInteger(encoded);
    if (pattern.op == Op::kAtMost) return value <= *number;
    if (pattern.op == Op::kAtLeast) return value >= *number;
    return pattern.op == Op::kExact && value == *number;
  }
  if (is_integer) return false;
  const auto& text = std::get<std::string>(pattern.value);
  const std::string_view body = StringBody(encoded);
  const bool plain = text.find('\0') == std::string::npos;
  if (pattern.op == Op::kExact) return plain ? body == text : body == Escaped(text);
  if (pattern.op != Op::kPrefix) return false;
  return plain ? body.starts_with(text) : body.starts_with(Escaped(text));
}

bool PatternMatches(const Pattern& pattern, std::string_view bytes, const KeySplit& split) {
  if (pattern.fields.size() > split.count) return false;
  if (pattern.fields.size() < split.count && !pattern.open) return false;
  for (std::size_t i = 0; i < pattern.fields.size(); ++i) {
    if (!FieldMatches(pattern.fields[i], split.FieldOf(bytes, i))) return false;
  }
  return true;
}

bool SamePattern(const Pattern& a, const Pattern& b) {
  if (a.open != b.open || a.fields.size() != b.fields.size()) return false;
  for (std::size_t i = 0; i < a.fields.size(); ++i) {
    if (a.fields[i].op != b.fields[i].op) return false;
    if (a.fields[i].op != FieldPattern::Op::kAny && a.fields[i].value != b.fields[i].value) {
      return false;
    }
  }
  return true;
}

}  // namespace tuplespace::internal
