// Lines of files that others may have written are read with a limit.
#include "acan/manager/line_reader.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace acan {
namespace {

using Line = LineReader::Line;
using Lines = std::vector<std::pair<Line, std::string>>;

// Until the end.
Lines Read(const std::string& text, std::size_t max_bytes = 4) {
  std::istringstream stream(text);
  LineReader reader(stream, max_bytes);
  Lines lines;
  for (;;) {
    const Line line = reader.Next();
    if (line == Line::kNone) return lines;
    lines.emplace_back(line, reader.text());
  }
}

TEST(LineReaderTest, LinesMayBeAsLongAsTheLimit) {
  EXPECT_EQ(Read(""), Lines{});
  EXPECT_EQ(Read("\n"), (Lines{{Line::kWhole, ""}}));
  EXPECT_EQ(Read("a\n\nabcd\n"),
            (Lines{{Line::kWhole, "a"}, {Line::kWhole, ""}, {Line::kWhole, "abcd"}}));
  const std::string zero("a\0b\n", 4);
  EXPECT_EQ(Read(zero), (Lines{{Line::kWhole, zero.substr(0, 3)}}));
}

TEST(LineReaderTest, LongLinesAreReadInOnePiece) {
  constexpr std::size_t kMost = 100'000;
  for (const std::size_t bytes : {4095u, 4096u, 4097u, 8194u, 99'999u, 100'000u}) {
    const std::string line(bytes, 'x');
    EXPECT_EQ(Read(line + "\na\n", kMost), (Lines{{Line::kWhole, line}, {Line::kWhole, "a"}}));
    EXPECT_EQ(Read(line, kMost), (Lines{{Line::kTorn, line}}));
  }
  const std::string most(kMost, 'x');
  EXPECT_EQ(Read(most + "yz\n", kMost), (Lines{{Line::kPart, most}, {Line::kPart, "yz"}}));
}

// As of a file that is not there.
TEST(LineReaderTest, AStreamThatHasFailedHasNoLines) {
  std::istringstream stream("a\n");
  stream.setstate(std::ios::failbit);
  LineReader reader(stream, 4);
  EXPECT_EQ(reader.Next(), Line::kNone);
  EXPECT_EQ(reader.Next(), Line::kNone);
  EXPECT_EQ(reader.text(), "");
}

TEST(LineReaderTest, TheLastLineMayBeTorn) {
  EXPECT_EQ(Read("a\nbc"), (Lines{{Line::kWhole, "a"}, {Line::kTorn, "bc"}}));
  EXPECT_EQ(Read("abcd"), (Lines{{Line::kTorn, "abcd"}}));
}

TEST(LineReaderTest, NoPartOfALongerLineIsTakenForALine) {
  EXPECT_EQ(Read("abcde\nf\n"),
            (Lines{{Line::kPart, "abcd"}, {Line::kPart, "e"}, {Line::kWhole, "f"}}));
  EXPECT_EQ(Read("abcdefgh\ni"),
            (Lines{{Line::kPart, "abcd"}, {Line::kPart, "efgh"}, {Line::kTorn, "i"}}));
  EXPECT_EQ(Read("abcdefghi"),
            (Lines{{Line::kPart, "abcd"}, {Line::kPart, "efgh"}, {Line::kPart, "i"}}));
}

}  // namespace
}  // namespace acan
