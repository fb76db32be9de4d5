// Keys of steps, and how people see text that other processes send about themselves.
#include "acan/core/names.h"

#include <gtest/gtest.h>

#include "acan/core/text/broker_flags.h"
#include "acan/core/text/one_line.h"
#include "acan/core/tuple_kinds.h"

namespace acan {
namespace {

using tuplespace::Key;

TEST(BrokerFlagsTest, ALimitIsNamedWithItsFlag) {
  const std::string full = ": 2 more with 9 there, at most 10";
  EXPECT_EQ(
      WithBrokerFlag("limits.payload_bytes" + full),
      "limits.payload_bytes" + full + " (acan broker --payloads, or ACAN_PAYLOADS, is this limit)");
  EXPECT_EQ(WithBrokerFlag("no room: limits.tuples" + full),
            "no room: limits.tuples" + full + " (acan broker --tuples is this limit)");
  EXPECT_EQ(WithBrokerFlag("limits.tuples_per_request" + full), "limits.tuples_per_request" + full);
}

TEST(OneLineTest, KeepsWhatAPersonReads) {
  for (const char* text :
       {"", "cpu:1 on host", "\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80", "\xff\xC3"}) {
    EXPECT_EQ(OneLine(text), text);
  }
}

TEST(OneLineTest, NoLineBeginsAndNoTerminalObeys) {
  EXPECT_EQ(OneLine("a\nb\rc\x1b[2Jd\x7f"), "a b c [2Jd ");
  EXPECT_EQ(OneLine(std::string("a\0b", 3)), "a b");
  // C1 control CSI; next line; line separator; right-to-left override; right-to-left isolate.
  EXPECT_EQ(OneLine("a\xC2\x9B"
                    "b\xC2\x85"
                    "c\xE2\x80\xA8"
                    "d\xE2\x80\xAE"
                    "e\xE2\x81\xA7"),
            "a b c d e ");
}

TEST(TerminalTextTest, KeepsLinesAndTabsAndNoOtherControls) {
  TerminalText text;
  EXPECT_EQ(text.Add("a\n\tb\r"), "a\n\tb ");
  EXPECT_EQ(text.Add("\x1b]52;c;aGk=\x07\n"), " ]52;c;aGk= \n");
  EXPECT_EQ(text.Add(""), "");
  EXPECT_EQ(text.Finish(), "");
}

// The tokens of a model may be single bytes.
TEST(TerminalTextTest, ACharacterMayBeDivided) {
  const auto shown = [](const std::string& bytes) {
    TerminalText text;
    std::string all;
    for (const char byte : bytes) all += text.Add(std::string(1, byte));
    return all + text.Finish();
  };
  EXPECT_EQ(shown("a\xC2\x9B"
                  "b\xE2\x80\xAE"),
            "a b ");
  for (const char* kept : {"\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80\n", "\xC3", "\xE2\x80", "\xE2z"}) {
    EXPECT_EQ(shown(kept), kept);
  }
}

TEST(StepTest, ATupleOfAStepIsWhatThePatternMatches) {
  const tuplespace::Pattern pattern = AllOfSteps();
  for (const tuplespace::Key& key :
       {tuplespace::Key{"run", 1, "tile", 2}, tuplespace::Key{"run", -1, 0},
        tuplespace::Key{1, 1, 1}, tuplespace::Key{"run", 1}, tuplespace::Key{"run"},
        tuplespace::Key{"run", "1", "tile"}, tuplespace::Key{"run", "a field of nine", 1},
        tuplespace::Key{"handler", "id"}}) {
    EXPECT_EQ(IsOfStep(key), pattern.Matches(key)) << key.ToString();
  }
  EXPECT_TRUE(IsOfStep(tuplespace::Key{"run", 1, "tile"}));
}

TEST(CapacityTest, TextsForPeopleAreLinesAndNoneIsLarge) {
  Capacity capacity;
  capacity.name = "a\nb\xC2\x9B";
  capacity.device = "cpu:1";
  const auto read = CapacityFromJson(CapacityToJson(capacity));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->name, "a b ");
  capacity.jobs = std::string(64 << 10, 'x');
  EXPECT_FALSE(CapacityFromJson(CapacityToJson(capacity)));
}

TEST(NamesTest, KeysOfStepsMoveToOtherSteps) {
  const auto moved = [](Key key, std::int64_t steps) {
    MoveBySteps(steps, &key);
    return key;
  };
  const Key first{"job", std::int64_t{1}, "tile", std::int64_t{0}};
  EXPECT_EQ(moved(first, 300), (Key{"job", std::int64_t{301}, "tile", std::int64_t{0}}));
  EXPECT_EQ(moved(moved(first, 300), -300), first);
  for (const Key& stays : {Key{"job", kFrozenVersion, "frozen", std::int64_t{0}},
                           Key{"handler", "id"}, Key{"job"}, Key{std::int64_t{1}}}) {
    EXPECT_EQ(moved(stays, 1), stays);
  }
}

}  // namespace
}  // namespace acan
