#include "tuplespace/key.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

namespace tuplespace {
namespace {

using namespace std::string_literals;

// The order that the encoding must preserve, computed from the fields.
int CompareFields(const std::vector<Field>& a, const std::vector<Field>& b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i].index() != b[i].index()) return a[i].index() < b[i].index() ? -1 : 1;
    if (const auto* x = std::get_if<std::int64_t>(&a[i])) {
      const auto y = std::get<std::int64_t>(b[i]);
      if (*x != y) return *x < y ? -1 : 1;
    } else {
      const int order = std::get<std::string>(a[i]).compare(std::get<std::string>(b[i]));
      if (order != 0) return order < 0 ? -1 : 1;
    }
  }
  if (a.size() == b.size()) return 0;
  return a.size() < b.size() ? -1 : 1;
}

std::int64_t RandomInteger(std::mt19937_64& random) {
  static const std::vector<std::int64_t> kIntegers = {INT64_MIN, -256, -1,  0,
                                                      1,         255,  256, INT64_MAX};
  return kIntegers[random() % kIntegers.size()];
}

std::vector<Field> RandomFields(std::mt19937_64& random) {
  // Only a few different bytes, including those with a role in the encoding, so that common
  // prefixes are frequent.
  static const std::string kBytes = "\x00\x01\x02\xFE\xFF"s + "a";
  std::vector<Field> fields(1 + random() % 4);
  for (Field& field : fields) {
    if (random() % 2 == 0) {
      field = RandomInteger(random);
    } else {
      std::string text(random() % (random() % 4 == 0 ? 24 : 4), ' ');
      for (char& c : text) c = kBytes[random() % kBytes.size()];
      field = text;
    }
  }
  return fields;
}

TEST(KeyTest, EncodingIsTheDocumentedOne) {
  EXPECT_EQ((Key{"a\0b"s, 1}).bytes(),
            "\x02"s + "a\x00\xFF"s + "b\x00\x01"s + "\x01\x80\x00\x00\x00\x00\x00\x00\x01"s);
  EXPECT_EQ(Key{-1}.bytes(), "\x01\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF"s);
}

TEST(KeyTest, FieldsComeBack) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    const std::vector<Field> fields = RandomFields(random);
    const Key key(fields);
    EXPECT_EQ(key.Fields(), fields);
    ASSERT_EQ(key.FieldCount(), fields.size());
    for (std::size_t left = 0; left < fields.size() && fields.size() > 1; ++left) {
      std::vector<Field> others = fields;
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(left));
      EXPECT_EQ(key.BytesWithout(left), Key(others).bytes());
    }
    EXPECT_EQ(key.FirstBytes(0), "");
    for (std::size_t count = 1; count <= fields.size(); ++count) {
      const auto end = fields.begin() + static_cast<std::ptrdiff_t>(count);
      EXPECT_EQ(key.FirstBytes(count), Key(std::vector<Field>(fields.begin(), end)).bytes());
    }
    EXPECT_EQ(key.FirstBytes(fields.size() + 1), key.bytes());
    for (std::size_t at = 0; at < fields.size(); ++at) {
      const auto* integer = std::get_if<std::int64_t>(&fields[at]);
      EXPECT_EQ(key.IsInteger(at), integer != nullptr);
      EXPECT_EQ(key.Integer(at), integer ? std::optional(*integer) : std::nullopt);
      if (integer == nullptr) continue;
      const std::int64_t number = RandomInteger(random);
      std::vector<Field> others = fields;
      others[at] = number;
      Key other = key;
      other.SetInteger(at, number);
      EXPECT_EQ(other, Key(others));
    }
    EXPECT_FALSE(key.IsInteger(fields.size()));
    const auto again = Key::FromBytes(key.bytes());
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(*again, key);
  }
}

TEST(KeyTest, ByteOrderIsFieldOrder) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 100'000; ++i) {
    const std::vector<Field> a = RandomFields(random);
    const std::vector<Field> b = RandomFields(random);
    const Key ka(a);
    const Key kb(b);
    const int expected = CompareFields(a, b);
    EXPECT_EQ(ka < kb, expected < 0) << ka.ToString() << " " << kb.ToString();
    EXPECT_EQ(ka == kb, expected == 0) << ka.ToString() << " " << kb.ToString();
  }
}

TEST(KeyTest, FromBytesAcceptsOnlyWhatItWouldWrite) {
  std::mt19937_64 random(3);
  int accepted = 0;
  for (int i = 0; i < 200'000; ++i) {
    std::string bytes = Key(RandomFields(random)).bytes();
    switch (random() % 4) {
      case 0:
        bytes[random() % bytes.size()] = static_cast<char>(random());
        break;
      case 1:
        bytes.resize(random() % bytes.size());
        break;
      case 2:
        bytes.insert(random() % bytes.size(), 1, static_cast<char>(random() % 3));
        break;
      default:
        bytes.erase(random() % bytes.size(), 1);
    }
    if (const auto key = Key::FromBytes(bytes)) {
      ++accepted;
      EXPECT_EQ(Key(key->Fields()).bytes(), bytes);
    }
  }
  EXPECT_GT(accepted, 0);
}

TEST(KeyTest, FromBytesRefusesWhatIsNotCanonical) {
  const std::string good = Key{"ab", 7}.bytes();
  ASSERT_TRUE(Key::FromBytes(good));
  EXPECT_FALSE(Key::FromBytes(""));
  for (std::size_t cut = 1; cut < good.size(); ++cut) {
    const auto key = Key::FromBytes(good.substr(0, cut));
    EXPECT_EQ(key.has_value(), cut == Key{"ab"}.bytes().size()) << cut;
  }
  EXPECT_FALSE(Key::FromBytes("\x03"s + good));          // unknown tag
  EXPECT_FALSE(Key::FromBytes("\x02"s + "a\x00\x02"s));  // neither an escaped NUL nor the end
  EXPECT_FALSE(Key::FromBytes("\x02"s + "a\x00"s));      // cut in the terminator
  EXPECT_FALSE(Key::FromBytes(good + "\x00"s));          // bytes after the last field
  std::string seventeen;
  for (int i = 0; i < 17; ++i) seventeen += Key{i}.bytes();
  EXPECT_FALSE(Key::FromBytes(seventeen));
  EXPECT_TRUE(Key::FromBytes(std::string_view(seventeen).substr(9)));
  EXPECT_TRUE(Key::FromBytes("\x02"s + std::string(256, 'x') + "\x00\x01"s));
  EXPECT_FALSE(Key::FromBytes("\x02"s + std::string(257, 'x') + "\x00\x01"s));
}

TEST(KeyTest, LongestKeyIsAccepted) {
  const Key key(std::vector<Field>(kMaxKeyFields, Field(std::string(kMaxStringFieldBytes, '\0'))));
  const auto again = Key::FromBytes(key.bytes());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->Fields(), key.Fields());
}

TEST(KeyTest, RefusesTooManyFieldsAndTooLongStrings) {
  EXPECT_THROW(Key(std::vector<Field>{}), std::invalid_argument);
  EXPECT_THROW(Key(std::vector<Field>(17, Field(std::int64_t{1}))), std::invalid_argument);
  EXPECT_THROW((Key{std::string(257, 'x')}), std::invalid_argument);
}

TEST(KeyTest, TextIsForPeople) {
  EXPECT_EQ((Key{"job", 3, "ti\"le\n"}).ToString(), R"(("job", 3, "ti\"le\x0a"))");
  EXPECT_EQ(Key().ToString(), "()");
  const Pattern pattern{{FieldPattern::Exact("job"), FieldPattern::AtMost(3),
                         FieldPattern::AtLeast(4), FieldPattern::Any(), FieldPattern::Prefix("t")},
                        true};
  EXPECT_EQ(pattern.ToString(), R"(("job", <= 3, >= 4, *, "t"*, ...))");
}

FieldPattern RandomFieldPattern(std::mt19937_64& random, const Field& near) {
  switch (random() % 5) {
    case 0:
      return FieldPattern::Any();
    case 1:
      return FieldPattern::Exact(near);
    case 2:
      if (const auto* number = std::get_if<std::int64_t>(&near))
        return FieldPattern::AtMost(*number);
      return FieldPattern::AtMost(0);
    case 3:
      if (const auto* number = std::get_if<std::int64_t>(&near))
        return FieldPattern::AtLeast(*number);
      return FieldPattern::AtLeast(0);
    default:
      if (const auto* text = std::get_if<std::string>(&near)) {
        return FieldPattern::Prefix(text->substr(0, random() % 3));
      }
      return FieldPattern::Prefix("a");
  }
}

bool MatchesByDefinition(const Pattern& pattern, const std::vector<Field>& fields) {
  if (pattern.open ? fields.size() < pattern.fields.size()
                   : fields.size() != pattern.fields.size()) {
    return false;
  }
  for (std::size_t i = 0; i < pattern.fields.size(); ++i) {
    const FieldPattern& want = pattern.fields[i];
    const auto* number = std::get_if<std::int64_t>(&fields[i]);
    const auto* text = std::get_if<std::string>(&fields[i]);
    bool ok = false;
    switch (want.op) {
      case FieldPattern::Op::kAny:
        ok = true;
        break;
      case FieldPattern::Op::kExact:
        ok = fields[i] == want.value;
        break;
      case FieldPattern::Op::kAtMost:
        ok = number != nullptr && *number <= std::get<std::int64_t>(want.value);
        break;
      case FieldPattern::Op::kAtLeast:
        ok = number != nullptr && *number >= std::get<std::int64_t>(want.value);
        break;
      case FieldPattern::Op::kPrefix:
        ok = text != nullptr && text->starts_with(std::get<std::string>(want.value));
        break;
    }
    if (!ok) return false;
  }
  return true;
}

TEST(PatternTest, MatchesByDefinitionAndPrefixIsShared) {
  std::mt19937_64 random(4);
  int matched = 0;
  for (int i = 0; i < 200'000; ++i) {
    const std::vector<Field> fields = RandomFields(random);
    const std::vector<Field> near = random() % 2 == 0 ? fields : RandomFields(random);
    Pattern pattern;
    pattern.open = random() % 2 == 0;
    const std::size_t count = pattern.open ? random() % (near.size() + 1) : near.size();
    for (std::size_t f = 0; f < count; ++f) {
      pattern.fields.push_back(RandomFieldPattern(random, near[f]));
    }
    ASSERT_FALSE(pattern.Problem()) << pattern.ToString();
    const Key key(fields);
    const bool expected = MatchesByDefinition(pattern, fields);
    EXPECT_EQ(pattern.Matches(key), expected) << pattern.ToString() << " " << key.ToString();
    if (expected) {
      ++matched;
      EXPECT_TRUE(key.bytes().starts_with(pattern.ExactPrefixBytes()))
          << pattern.ToString() << " " << key.ToString();
    }
    if (const auto exact = pattern.AsExactKey()) {
      EXPECT_EQ(*exact == key, expected);
    }
  }
  EXPECT_GT(matched, 10'000);
}

TEST(PatternTest, OfAKeyMatchesJustThatKey) {
  const Key key{"job", 3, "a\0b"s};
  const Pattern pattern = Pattern::Of(key);
  EXPECT_TRUE(pattern.Matches(key));
  EXPECT_EQ(pattern.AsExactKey(), key);
  EXPECT_EQ(pattern.ExactPrefixBytes(), key.bytes());
  EXPECT_FALSE(pattern.Matches(Key{"job", 3}));
  EXPECT_FALSE(pattern.Matches(Key{"job", 3, "a\0b"s, 1}));
  EXPECT_FALSE(pattern.Matches(Key()));
}

TEST(PatternTest, ProblemsAreNamed) {
  EXPECT_FALSE((Pattern{{}, true}).Problem());  // every key
  EXPECT_TRUE((Pattern{}).Problem());
  EXPECT_EQ(*(Pattern{std::vector<FieldPattern>(17), false}).Problem(), "17 fields, at most 16");
  EXPECT_EQ(*(Pattern{{{FieldPattern::Op::kAtMost, "x"}}, false}).Problem(),
            "field 0 is a bound that is a string, must be an integer");
  EXPECT_EQ(*(Pattern{{FieldPattern::Any(), {FieldPattern::Op::kPrefix, 1}}, false}).Problem(),
            "field 1 is a prefix that is an integer, must be a string");
  EXPECT_EQ(*(Pattern{{FieldPattern::Exact(std::string(257, 'x'))}, false}).Problem(),
            "field 0 is a string of 257 bytes, at most 256");
  EXPECT_TRUE((Pattern{{{static_cast<FieldPattern::Op>(9), 1}}, false}).Problem());
}

}  // namespace
}  // namespace tuplespace
