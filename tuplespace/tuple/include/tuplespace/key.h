// Keys and patterns: how tuples are named and found.
//
// A key is a sequence of 1 to 16 typed fields (64-bit integers and strings). It says what a tuple
// *is*, never where it is. Keys are held in one canonical, order-preserving byte form
// (PROTOCOL.md, "Key encoding"), so that comparing, hashing and sending a key is comparing,
// hashing and sending bytes.
//
// Everything here is a value: no I/O, no locks; safe to use from any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace tuplespace {

struct Pattern;

inline constexpr std::size_t kMaxKeyFields = 16;
inline constexpr std::size_t kMaxStringFieldBytes = 256;

using Field = std::variant<std::int64_t, std::string>;
// A field whose string lies elsewhere.
using FieldView = std::variant<std::int64_t, std::string_view>;

class Key {
 public:
  Key() = default;  // the empty key names nothing, matches nothing, and is refused by the space
  // REQUIRES: 1..16 fields, strings of at most kMaxStringFieldBytes. Throws std::invalid_argument.
  Key(std::initializer_list<FieldView> fields);
  explicit Key(const std::vector<Field>& fields);

  // nullopt if `bytes` is not a canonical encoding of 1..16 fields.
  static std::optional<Key> FromBytes(std::string_view bytes);

  const std::string& bytes() const { return bytes_; }
  bool empty() const { return bytes_.empty(); }
  std::vector<Field> Fields() const;  // decodes the fields; not for hot loops
  std::size_t FieldCount() const;
  // The encoding of the first `count` fields, or of all if it has fewer: what all keys that begin
  // with these fields begin with. Valid as long as the key is.
  std::string_view FirstBytes(std::size_t count) const;
  bool IsInteger(std::size_t index) const;  // false: that field is a string, or does not exist
  std::optional<std::int64_t> Integer(std::size_t index) const;  // nullopt: likewise
  // Replaces an integer by another one, in place. REQUIRES: IsInteger(index).
  void SetInteger(std::size_t index, std::int64_t value);
  // The encoding of all fields but one. REQUIRES: index < FieldCount().
  std::string BytesWithout(std::size_t index) const;
  std::string ToString() const;  // for people, such as ("job", 3, "tile")

  // Byte order of the encoding is field order: integers by value, strings by bytes,
  // integers before strings, a prefix before its extensions.
  friend bool operator==(const Key&, const Key&) = default;
  friend auto operator<=>(const Key&, const Key&) = default;

 private:
  friend struct Pattern;  // makes the only key that it matches
  std::string bytes_;
};

// What one field of a key must be.
struct FieldPattern {
  enum class Op : std::uint8_t { kAny, kExact, kAtMost, kAtLeast, kPrefix };
  Op op = Op::kAny;
  Field value = std::int64_t{0};  // unused by kAny; kPrefix needs a string; bounds need an integer

  static FieldPattern Any();
  static FieldPattern Exact(Field value);
  static FieldPattern AtMost(std::int64_t bound);
  static FieldPattern AtLeast(std::int64_t bound);
  static FieldPattern Prefix(std::string prefix);

  friend bool operator==(const FieldPattern&, const FieldPattern&) = default;
};

// A key with some fields left open. It matches keys with the same number of fields or, if `open`,
// also keys with more fields.
struct Pattern {
  std::vector<FieldPattern> fields;
  bool open = false;

  static Pattern Of(const Key& key);  // matches only this key

  bool Matches(const Key& key) const;
  // Whether `wider` matches every key that this pattern can match. REQUIRES: `wider` has no
  // Problem().
  bool IsWithin(const Pattern& wider) const;
  std::optional<Key> AsExactKey() const;  // set if the pattern can match only one key
  // The encoding shared by all matching keys: a range scan starts here.
  std::string ExactPrefixBytes() const;
  std::string ToString() const;
  // nullopt if well formed, otherwise what is wrong ("17 fields, at most 16").
  std::optional<std::string> Problem() const;

  friend bool operator==(const Pattern&, const Pattern&) = default;
};

}  // namespace tuplespace

template <>
struct std::hash<tuplespace::Key> {
  std::size_t operator()(const tuplespace::Key& key) const noexcept {
    return std::hash<std::string>{}(key.bytes());
  }
};
