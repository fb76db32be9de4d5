// Keys and patterns: the encoding is canonical and preserves the order, and patterns match as key.h
// says.
//
// Input: [first key][second key][first pattern][second pattern][fields of a third key]; all but the
// last are preceded by their size
#include <algorithm>
#include <compare>
#include <optional>
#include <stdexcept>

#include "key_encoding.h"
#include "target.h"
#include "tuplespace/key.h"

namespace acan::fuzz::key_target {
namespace {

using namespace tuplespace;
using Op = FieldPattern::Op;

// Reads [1: a number: 8 | else a text].
Field FieldOf(InputReader& in) {
  if (in.Number(1) == 1) return static_cast<std::int64_t>(in.Number(8));
  return std::string(in.SizedText());
}

Pattern PatternOf(std::string_view bytes) {
  InputReader in(bytes);
  Pattern pattern;
  pattern.open = in.Number(1) % 2 == 1;
  while (!in.empty()) {
    const auto op = static_cast<Op>(in.Number(1) % 6);  // 5 is not a valid operator
    pattern.fields.push_back({op, FieldOf(in)});
  }
  return pattern;
}

bool FieldMatches(const FieldPattern& pattern, const Field& field) {
  const auto* number = std::get_if<std::int64_t>(&field);
  const auto* text = std::get_if<std::string>(&field);
  switch (pattern.op) {
    case Op::kAny:
      return true;
    case Op::kExact:
      return field == pattern.value;
    case Op::kAtMost:
      return number != nullptr && *number <= std::get<std::int64_t>(pattern.value);
    case Op::kAtLeast:
      return number != nullptr && *number >= std::get<std::int64_t>(pattern.value);
    case Op::kPrefix:
      return text != nullptr && text->starts_with(std::get<std::string>(pattern.value));
  }
  return false;
}

// The most direct implementation of what key.h says about Matches.
bool PlainlyMatches(const Pattern& pattern, const std::vector<Field>& fields) {
  if (pattern.open ? fields.size() < pattern.fields.size()
                   : fields.size() != pattern.fields.size()) {
    return false;
  }
  return std::equal(pattern.fields.begin(), pattern.fields.end(), fields.begin(), FieldMatches);
}

void CheckKey(const Key& key) {
  const std::vector<Field> fields = key.Fields();
  Require(!fields.empty() && fields.size() <= kMaxKeyFields, "a key of {} fields", fields.size());
  Require(Key(fields) == key, "{}: its fields make another key", key.ToString());
  const Pattern exact = Pattern::Of(key);
  Require(
      exact.Matches(key) && exact.AsExactKey() == key && exact.ExactPrefixBytes() == key.bytes(),
      "{}: its exact pattern does not name it", key.ToString());
}

void CheckPattern(const Pattern& pattern, const Pattern& other, const std::vector<Key>& keys) {
  if (pattern.Problem()) return;
  static_cast<void>(pattern.ToString());
  Require(pattern.IsWithin(pattern), "{} is not within itself", pattern.ToString());
  const bool within = !other.Problem() && pattern.IsWithin(other);
  const std::string prefix = pattern.ExactPrefixBytes();
  for (const Key& key : keys) {
    const bool matches = pattern.Matches(key);
    Require(matches == PlainlyMatches(pattern, key.Fields()), "{} and {}: Matches says {}",
            pattern.ToString(), key.ToString(), matches);
    if (!matches) continue;
    Require(!within || other.Matches(key), "{} is within {}, but only the first matches {}",
            pattern.ToString(), other.ToString(), key.ToString());
    Require(key.bytes().starts_with(prefix), "{} matches {}, which does not begin as it says",
            pattern.ToString(), key.ToString());
    if (const auto only = pattern.AsExactKey()) Require(*only == key, "an exact key is another");
  }
}

void CheckOrder(const Key& a, const Key& b) {
  Require((a <=> b) == (a.Fields() <=> b.Fields()),
          "{} and {} are in another order than their fields", a.ToString(), b.ToString());
}

std::optional<Key> KeyOfFields(InputReader in) {
  std::vector<Field> fields;
  while (!in.empty() && fields.size() <= kMaxKeyFields) fields.push_back(FieldOf(in));
  try {
    Key key(fields);
    Require(Key::FromBytes(key.bytes()) == key && key.Fields() == fields,
            "{} is not what it was made of", key.ToString());
    return key;
  } catch (const std::invalid_argument&) {
    const bool long_text = std::any_of(fields.begin(), fields.end(), [](const Field& field) {
      const auto* text = std::get_if<std::string>(&field);
      return text != nullptr && text->size() > kMaxStringFieldBytes;
    });
    Require(fields.empty() || fields.size() > kMaxKeyFields || long_text, "a good key is refused");
    return std::nullopt;
  }
}

bool Run(std::string_view input) {
  InputReader in(input);
  std::vector<Key> keys;
  for (int i = 0; i < 2; ++i) {
    if (const auto key = Key::FromBytes(in.SizedText())) keys.push_back(*key);
  }
  const Pattern first = PatternOf(in.SizedText());
  const Pattern second = PatternOf(in.SizedText());
  if (const auto key = KeyOfFields(in)) keys.push_back(*key);
  for (const Key& key : keys) CheckKey(key);
  for (const Key& a : keys) {
    for (const Key& b : keys) CheckOrder(a, b);
  }
  CheckPattern(first, second, keys);
  CheckPattern(second, first, keys);
  return keys.size() == 3 && !first.Problem() && !second.Problem();
}

std::string Number(std::int64_t value) {
  return NumberBytes(1, 1) + NumberBytes(static_cast<std::uint64_t>(value), 8);
}
std::string Text(std::string_view text) {
  return NumberBytes(2, 1) + SizedTextBytes(text);
}

std::vector<Seed> Seeds() {
  using namespace std::string_literals;
  const auto op = [](Op value) { return std::string(1, static_cast<char>(value)); };
  const auto seed = [](const Key& a, const Key& b, const std::string& p, const std::string& q,
                       const std::string& fields) {
    return SizedTextBytes(a.bytes()) + SizedTextBytes(b.bytes()) + SizedTextBytes(p) +
           SizedTextBytes(q) + fields;
  };
  const std::string step = "\x01"s + op(Op::kExact) + Text("job") + op(Op::kAtMost) + Number(7);
  const std::string later = "\x01"s + op(Op::kPrefix) + Text("j") + op(Op::kAtLeast) + Number(-1);
  const std::string any = "\x01"s + op(Op::kAny) + Text("");
  const std::string zero = "\0"s + op(Op::kExact) + Text("a\0"s);
  const std::string zero_prefix = "\0"s + op(Op::kPrefix) + Text("a\0"s);
  return {
      {"steps", seed(Key{"job", 3, "tile"}, Key{"job", 4}, step, later, Text("job") + Number(5))},
      {"zeros", seed(Key{"a\0"s}, Key{"a\0b"s}, zero, zero_prefix, Text("a"))},
      {"bounds", seed(Key{INT64_MIN}, Key{INT64_MAX, "x"}, any, step, Number(-1) + Text("x"))}};
}

const Registration registration({"key", Run, Seeds});

}  // namespace
}  // namespace acan::fuzz::key_target
