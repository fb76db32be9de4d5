// The byte form of keys, for the library's own use (PROTOCOL.md, "Key encoding").
//
// A field is a tag and a body. Integer: 0x01, then 8 bytes, big endian, of value XOR 2^63.
// String: 0x02, then the bytes with every 0x00 written as 0x00 0xFF, then 0x00 0x01. The
// terminator sorts below every continuation (0x00 0xFF or a byte from 0x01 on), so byte order of
// the encoding is the order of the fields.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "tuplespace/key.h"

namespace tuplespace::internal {

inline constexpr char kIntegerTag = 0x01;
inline constexpr char kStringTag = 0x02;
inline constexpr std::size_t kIntegerFieldBytes = 9;

void AppendField(const Field& field, std::string* bytes);
// Valid as long as `field` is.
FieldView ViewOf(const Field& field);
// The encoded length of a field.
std::size_t FieldBytes(const FieldView& field);
// Encodes `field` at `at` and returns the end of its encoding.
char* WriteField(const FieldView& field, char* at);
// Encodes a string without its terminator: the bytes that all strings with this prefix begin with.
void AppendStringPrefix(std::string_view prefix, std::string* bytes);

// Where the fields of an encoded key begin.
struct KeySplit {
  std::size_t count = 0;
  std::array<std::uint16_t, kMaxKeyFields + 1> begin{};  // begin[count] is the end

  std::string_view FieldOf(std::string_view bytes, std::size_t index) const {
    return bytes.substr(begin[index], begin[index + 1] - begin[index]);
  }
};

// The end of the field that begins at `begin`; npos if there is no canonical one.
std::size_t FieldEnd(std::string_view bytes, std::size_t begin);

// False if `bytes` is not a canonical encoding of 1..16 fields; then `split` is unspecified.
bool SplitKey(std::string_view bytes, KeySplit* split);

// REQUIRES: `encoded` is one canonical field.
Field DecodeField(std::string_view encoded);
bool FieldMatches(const FieldPattern& pattern, std::string_view encoded);
// REQUIRES: `split` is the split of `bytes`.
bool PatternMatches(const Pattern& pattern, std::string_view bytes, const KeySplit& split);

// Equality that ignores the values of fields that use none (kAny).
bool SamePattern(const Pattern& a, const Pattern& b);

}  // namespace tuplespace::internal
