// IDX, NPY and CSV: what is read, and the error for each kind of broken file.
#include <gtest/gtest.h>

#include <limits>

#include "acan/manager/input_file.h"
#include "data_jobs.h"
#include "float_mode.h"

namespace acan {
namespace {

using Values = std::vector<float>;
const Values kValues = {1.0f, -2.5f, 0.1f, 3e20f};

TEST(IdxTest, BytesStayBytesAndAreScaledOnCopy) {
  const TwoByTwo data;
  const auto set = data.Load(IdxBytes({2, 1, 2}, {0, 255, 51, 7}));
  EXPECT_EQ(Inputs(*set), (Values{0.0f, 1.0f, 51.0f / 255.0f, 7.0f / 255.0f}));
}

TEST(IdxTest, FloatsAndIntegersAreBigEndian) {
  const TwoByTwo data;
  std::string floats = IdxHeader(0x0d, {2, 2});
  for (const float value : kValues) floats += BigEndian(std::bit_cast<std::uint32_t>(value));
  EXPECT_EQ(Inputs(*data.Load(floats)), kValues);
  std::string integers = IdxHeader(0x0c, {2, 2});
  for (const int value : {1, -2, 70000, 0})
    integers += BigEndian(static_cast<std::uint32_t>(value));
  EXPECT_EQ(Inputs(*data.Load(integers)), (Values{1, -2, 70000, 0}));
  const std::string bytes("\1\x80\xff\0", 4);
  EXPECT_EQ(Inputs(*data.Load(IdxHeader(0x09, {2, 2}) + bytes)), (Values{1, -128, -1, 0}));
  const std::string shorts("\0\1\x80\0\xff\xfe\1\0", 8);
  EXPECT_EQ(Inputs(*data.Load(IdxHeader(0x0b, {2, 2}) + shorts)), (Values{1, -32768, -2, 256}));
  std::string doubles = IdxHeader(0x0e, {2, 2});
  for (const double value : {1.0, -2.5, 0.1, 3e20}) {
    const auto bits = std::bit_cast<std::uint64_t>(value);
    doubles += BigEndian(static_cast<std::uint32_t>(bits >> 32)) +
               BigEndian(static_cast<std::uint32_t>(bits));
  }
  EXPECT_EQ(Inputs(*data.Load(doubles)), kValues);
}

TEST(IdxTest, BrokenFilesAreNamed) {
  const TwoByTwo data;
  const std::string good = IdxBytes({2, 2}, {1, 2, 3, 4});
  data.Refused(good.substr(0, 3), {"truncated", "IDX header"});
  data.Refused(good.substr(0, 9), {"truncated", "2 dimensions"});
  data.Refused(good.substr(0, good.size() - 1), {"truncated", "shape [2, 2] (4 bytes"});
  data.Refused(good + "x", {"longer than its header says", "[2, 2]"});
  data.Refused(IdxHeader(0x0a, {2, 2}) + std::string(8, 'a'), {"0x0a", "0x08 (uint8)"});
  data.Refused(IdxHeader(0x08, {}), {"0 dimensions"});
  data.Refused(IdxHeader(0x08, std::vector<std::uint32_t>(9, 1)) + "a", {"9 dimensions"});
  data.Refused(IdxHeader(0x08, {0, 2}), {"shape [0, 2]", "at least one sample"});
  data.Refused(IdxHeader(0x08, {0xffffffff, 0xffffffff, 0xffffffff}), {"more than the limit"});
  data.Refused(IdxHeader(0x08, {1 << 20, 1 << 10}) + "abc", {"truncated", "at most 15"});
}

TEST(GzipTest, PackedFilesReadAsTheirContent) {
  const TwoByTwo data;
  const std::string idx = IdxBytes({2, 2}, {1, 2, 3, 4});
  EXPECT_EQ(data.Load(Gzip(idx))->sha256(), data.Load(idx)->sha256());
  EXPECT_EQ(Inputs(*data.Load(Gzip("1,2\n3,4\n"))), (Values{1, 2, 3, 4}));
  // Consecutive gzip members are one file.
  EXPECT_EQ(Inputs(*data.Load(Gzip(idx.substr(0, 5)) + Gzip(idx.substr(5)))).size(), 4u);
  // Zeros after a member are padding, however many follow.
  EXPECT_EQ(Inputs(*data.Load(Gzip(idx) + std::string(512, '\0'))).size(), 4u);
  EXPECT_EQ(Inputs(*data.Load(Gzip(idx) + std::string(1 << 20, '\0'))).size(), 4u);
  EXPECT_EQ(Inputs(*data.Load(Gzip(idx.substr(0, 5)) + std::string(3, '\0') + Gzip(idx.substr(5))))
                .size(),
            4u);
}

TEST(GzipTest, DamageIsNamed) {
  const TwoByTwo data;
  const std::string good = Gzip(IdxBytes({2, 2}, {1, 2, 3, 4}));
  data.Refused(good.substr(0, good.size() - 1), {"truncated", "gzip"});
  data.Refused(good.substr(0, 12), {"truncated", "gzip"});
  std::string checksum = good;
  checksum[good.size() - 8] ^= 1;
  data.Refused(checksum, {"damaged gzip data"});
  std::string header = good;
  header[2] = 9;
  data.Refused(header, {"damaged gzip data"});
  data.Refused(good + "garbage", {"damaged gzip data"});
  data.Refused(good + std::string(512, '\0') + "abc", {"damaged gzip data"});
  data.Refused(good + std::string(512, '\0') + good.substr(0, 12), {"truncated", "gzip"});
  data.Refused(Gzip(""), {"is empty"});
  // A header that claims more than this gzip file could contain is refused before allocation.
  data.Refused(Gzip(IdxHeader(0x08, {1 << 20, 1 << 10}) + "abc"), {"truncated", "at most"});
  // A gzip bomb: bytes beyond the size in the header are never unpacked.
  data.Refused(Gzip(IdxBytes({2, 2}, std::vector<std::uint8_t>(1 << 24))), {"longer than"});
}

TEST(NpyTest, TypesAndVersions) {
  const TwoByTwo data;
  EXPECT_EQ(Inputs(*data.Load(Npy("<f4", "(2, 2)", Raw(kValues)))), kValues);
  EXPECT_EQ(Inputs(*data.Load(Npy("<f4", "(2, 2)", Raw(kValues), 2))), kValues);
  EXPECT_EQ(Inputs(*data.Load(Npy("<f4", "(2, 2)", Raw(kValues), 3))), kValues);
  EXPECT_EQ(Inputs(*data.Load(Npy("<f4", "(2, 1, 2, 1)", Raw(kValues)))), kValues);
  EXPECT_EQ(Inputs(*data.Load(Npy("<f8", "(2, 2)", Raw(std::vector<double>{1, -2.5, 0.1, 3e20})))),
            kValues);
  EXPECT_EQ(Inputs(*data.Load(Npy("|u1", "(2, 2)", "abcd"))).size(), 4u);
  // Only uint8 is scaled.
  EXPECT_EQ(Inputs(*data.Load(Npy("|b1", "(2, 2)", std::string("\1\0\0\1", 4)))),
            (Values{1, 0, 0, 1}));
  EXPECT_EQ(Inputs(*data.Load(Npy("|i1", "(2, 2)", Raw(std::vector<std::int8_t>{1, -2, 3, 127})))),
            (Values{1, -2, 3, 127}));
  EXPECT_EQ(Inputs(*data.Load(Npy("<i2", "(2, 2)", Raw(std::vector<std::int16_t>{1, -2, 3, 300})))),
            (Values{1, -2, 3, 300}));
  EXPECT_EQ(
      Inputs(*data.Load(Npy("<u2", "(2, 2)", Raw(std::vector<std::uint16_t>{1, 2, 3, 65535})))),
      (Values{1, 2, 3, 65535}));
  EXPECT_EQ(
      Inputs(*data.Load(Npy("<u4", "(2, 2)", Raw(std::vector<std::uint32_t>{1, 2, 3, 1U << 31})))),
      (Values{1, 2, 3, 2147483648.0f}));
  EXPECT_EQ(Inputs(*data.Load(
                Npy("<u8", "(2, 2)", Raw(std::vector<std::uint64_t>{1, 2, 3, 1ULL << 63})))),
            (Values{1, 2, 3, 9223372036854775808.0f}));
  EXPECT_EQ(Inputs(*data.Load(Npy("<i4", "(2, 2)", Raw(std::vector<std::int32_t>{1, -2, 3, 4})))),
            (Values{1, -2, 3, 4}));
  EXPECT_EQ(Inputs(*data.Load(Npy("<i8", "(2, 2)", Raw(std::vector<std::int64_t>{1, -2, 3, 4})))),
            (Values{1, -2, 3, 4}));
}

// As a library can leave the thread that reads, such as a driver that was linked with -ffast-math.
TEST(NpyTest, DenormalNumbersAreReadAsSuchInAThreadThatFlushesThem) {
  const TwoByTwo data;
  const std::string file = Npy("<f8", "(2, 2)", Raw(std::vector<double>{1e-40, -1e-39, 1e-45, 1}));
  std::vector<std::uint32_t> expected;
  for (const float value : Values{1e-40f, -1e-39f, 1e-45f, 1}) {
    expected.push_back(std::bit_cast<std::uint32_t>(value));
  }
  const std::string sha256 = data.Load(file)->sha256();
  std::vector<std::uint32_t> words;
  std::string flushed_sha256;
  {
    const test::FlushToZero flush;
    const auto set = data.Load(file);
    words = Words(*set, "x");
    flushed_sha256 = set->sha256();
  }
  EXPECT_EQ(words, expected);
  EXPECT_EQ(flushed_sha256, sha256);
}

TEST(NpyTest, BrokenFilesAreNamed) {
  const TwoByTwo data;
  const std::string good = Npy("<f4", "(2, 2)", Raw(kValues));
  data.Refused(good.substr(0, 4), {"NUMPY"});
  data.Refused(good.substr(0, 9), {"truncated inside the NPY header"});
  data.Refused(good.substr(0, 40), {"truncated inside the NPY header"});
  data.Refused(good.substr(0, good.size() - 1), {"truncated", "16 bytes"});
  data.Refused(good + "x", {"longer than its header says"});
  data.Refused("\x93NUMPX" + good.substr(6), {"begins like NPY"});
  std::string version = good;
  version[6] = 4;
  data.Refused(version, {"version 4.0"});
  data.Refused(Npy(">f4", "(2, 2)", Raw(kValues)), {"'>f4'", "little-endian"});
  data.Refused(Npy("<f2", "(2, 2)", "abcdefgh"), {"'<f2'", "not supported"});
  data.Refused(NpyWith("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }", Raw(kValues)),
               {"Fortran order", "ascontiguousarray"});
  data.Refused(NpyWith("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2, ), }", ""),
               {"holds records"});
  data.Refused(NpyWith("{'descr': '<f4', 'fortran_order': False, }", ""), {"lacks one of"});
  data.Refused(NpyWith("{'descr': '<f4', 'descr': '<f4'}", ""), {"repeated entry 'descr'"});
  data.Refused(NpyWith("{'descr': '<f4', 'fortran_order': Maybe}", ""), {"True or False"});
  data.Refused(NpyWith("{'descr': '<f4'} x", ""), {"text after its closing brace"});
  data.Refused(NpyWith("['descr']", ""), {"malformed at byte 0"});
  data.Refused(Npy("<f4", "()", "abcd"), {"single value"});
  data.Refused(Npy("<f4", "(0, 2)", ""), {"[0, 2]", "at least one sample"});
  data.Refused(Npy("<f4", "(-2, 2)", ""), {"has the size -2; expected sizes from 0 to"});
  data.Refused(Npy("<f4", "(99999999999999999999, 2)", ""),
               {"has the size 99999999999999999999; expected sizes from 0 to 9223372036854775807"});
  data.Refused(Npy("<f4", "(x, 2)", ""), {"malformed at byte", "expected a size"});
  data.Refused(Npy("<f4", "(9223372036854775807, 9223372036854775807)", ""),
               {"more than the limit"});
  data.Refused(Npy("<f4", "(1, 1, 1, 1, 1, 1, 1, 1, 2)", "abcdefgh"), {"at most 8 sizes"});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  data.Refused(Npy("<f4", "(2, 2)", Raw(Values{1, 2, nan, 4})), {"sample 1, value 0 is nan"});
  const double big = 1e39;
  data.Refused(Npy("<f8", "(2, 2)", Raw(std::vector<double>{1, 2, 3, big})),
               {"sample 1, value 1 is 1e+39", "finite 32-bit"});
}

TEST(CsvTest, NumbersHeadersAndLineEnds) {
  const TwoByTwo data;
  const Values expected = {1.0f, -2.5f, 0.1f, 3e20f};
  EXPECT_EQ(Inputs(*data.Load("1,-2.5\n0.1,3e20\n")), expected);
  EXPECT_EQ(Inputs(*data.Load("1,-2.5\n0.1,3e20")), expected);
  EXPECT_EQ(Inputs(*data.Load("1,-2.5\r\n0.1,3e20\r\n\r\n\n")), expected);
  EXPECT_EQ(Inputs(*data.Load("\xef\xbb\xbf"
                              "1 ,\t-2.5\n .1,3E20\n")),
            expected);
  EXPECT_EQ(Inputs(*data.Load("width,height\n1,-2.5\n0.1,3e20\n")), expected);
  EXPECT_EQ(Inputs(*data.Load("\"width\",\"height\"\r\n1,-2.5\r\n0.1,3e20\r\n")), expected);
  EXPECT_EQ(Inputs(*data.Load("+1,-2.5\n+.1,+3e+20\n")), expected);
  EXPECT_EQ(Inputs(*data.Load("+1,+2\n+3,+4\n")), (Values{1, 2, 3, 4})) << "no names";
  // A name in quotes may have commas, and a comment of numpy.savetxt has no names.
  EXPECT_EQ(Inputs(*data.Load("\"width, or so\",height\n1,-2.5\n0.1,3e20\n")), expected);
  EXPECT_EQ(Inputs(*data.Load("5\" wide,high\n1,-2.5\n0.1,3e20\n")), expected);
  EXPECT_EQ(Inputs(*data.Load("# some data\n1,-2.5\n0.1,3e20\n")), expected);
  // Names may begin like numbers.
  EXPECT_EQ(Inputs(*data.Load("1stFloor,2020-01-31\n1,-2.5\n0.1,3e20\n")), expected);
  // A value too small for 32 bits is 0 or denormal, never an error,
  EXPECT_EQ(Inputs(*data.Load("1e-50,1e-400\n1e-40,-0\n")), (Values{0, 0, 1e-40f, -0.0f}));
  // however it is written.
  const std::string zeros(400, '0');
  EXPECT_EQ(Inputs(*data.Load("0." + zeros + "1,-0." + zeros + "1E0\n1" + zeros + "e-400,1\n")),
            (Values{0, -0.0f, 1, 1}));
}

TEST(CsvTest, BrokenFilesAreNamedWithLineAndColumn) {
  const TwoByTwo data;
  data.Refused("", {"the file is empty"});
  data.Refused("\n\n", {"no line of numbers"});
  data.Refused("a,b\n", {"no line of numbers"});
  data.Refused("1,2\n3,x\n", {"line 2, column 2", "'x' is not a number"});
  data.Refused("1,2\n3,4\n5,\x1b[2J\x07\n", {"is not IDX, NPY or CSV"});
  data.Refused("1,2\n3,4.5.6\n", {"line 2, column 2", "'4.5.6'"});
  data.Refused("1,2\n3,\n", {"line 2, column 2", "'' is not a number"});
  // As pandas writes it with its index.
  data.Refused(",a,b\n0,1,2\n1,3,4\n",
               {"line 1, column 1: '' is not a number", "a name for each column", "index=False"});
  data.Refused("1,b\n3,4\n", {"line 1, column 2", "'b'"});
  data.Refused("a,4\n1,2\n3,4\n", {"line 1, column 1: 'a' is not a number",
                                   "each field must be a "
                                   "name, and neither a number nor empty"});
  // As a file whose index has no name at all.
  data.Refused("a\n0,1\n1,3\n", {"line 2: has 2 values, but line 1 has 1 names"});
  data.Refused("a,b,c\n0,1\n1,3\n", {"line 2: has 2 values, but line 1 has 3 names"});
  data.Refused("1,2\nnan,4\n", {"line 2, column 1", "not finite"});
  data.Refused("1,2\n3,-inf\n", {"line 2, column 2", "'-inf'"});
  data.Refused("1,2\n3,1e39\n", {"line 2, column 2", "'1e39' is not finite in 32 bits"});
  data.Refused("1,2\n3,1e999\n", {"line 2, column 2"});
  data.Refused("1,2\n3,1" + std::string(500, '0') + "e-100\n", {"line 2, column 2", "not finite"});
  data.Refused("1,2\n3,0x10\n", {"line 2, column 2"});
  data.Refused("1,2\n3,4,5\n", {"line 2", "has 3 values", "have 2"});
  data.Refused("1,2\n3\n", {"line 2", "has 1 values"});
  data.Refused("1,2\n\n3,4\n", {"line 2", "is empty"});
  data.Refused("1,2\n3,+-4\n", {"line 2, column 2", "'+-4'"});
  data.Refused("1,2\n3,++4\n", {"line 2, column 2", "'++4'"});
  // A first line of damaged numbers does not count as a line of names.
  for (const std::string& field : std::vector<std::string>{"\"1\"", "'-1.5'", "++1", "+-1", "4.5.6",
                                                           "1_000", "1 000", "12%"}) {
    data.Refused(field + ",x\n1,2\n3,4\n", {"line 1, column 1", field, "nor a column name"});
    data.Refused("x," + field + "\n1,2\n3,4\n", {"line 1, column 2", field, "nor a column name"});
  }
  data.Refused("1;2\n3;4\n", {"line 2, column 1", "'3;4' is not a number", "separated by commas"});
  data.Refused("a,b\n1;2\n3;4\n", {"line 2, column 1", "'1;2'"});
}

// As pandas writes the names of columns that have none.
TEST(CsvTest, NumberedColumnsAreFound) {
  const TestFolder folder;
  const auto columns = [&folder](const std::string& bytes) {
    return NumberedColumns(folder.Write("x", bytes));
  };
  EXPECT_EQ(columns("0,1,2\n0.5,0.5,0.5\n"), 3);
  EXPECT_EQ(columns("\xef\xbb\xbf"
                    "0,1,2\r\n0.5,0.5,0.5\r\n"),
            3);
  EXPECT_EQ(columns("0,1"), 2);
  EXPECT_EQ(columns("0\n1\n"), 1);
  std::string wide = "0";
  for (int i = 1; i < 5000; ++i) wide += "," + std::to_string(i);
  EXPECT_EQ(columns(wide + "\n1"), 5000);
  EXPECT_EQ(columns(Gzip(wide + "\n1")), 5000);
  EXPECT_EQ(columns(wide + ",5000,5002\n1"), 0);
  // The '\r' is the last byte of one of the chunks in which the line is read.
  std::int64_t count = 1;
  for (wide = "0"; (wide.size() + 1) % 4096 != 0; ++count) wide += "," + std::to_string(count);
  EXPECT_EQ(columns(wide + "\r\n1"), count);
  EXPECT_EQ(columns(wide + "\r"), count);
  EXPECT_EQ(columns(wide + "\r,1\n1"), 0);
  for (const char* other : {"0,2,1\n", "1,2,3\n", "0,1,2.0\n", "0, 1\n", "0,1,\n", "a,b\n",
                            "0,1,23\n", "0.0,1.0\n", "\n0,1\n", "00,1\n"}) {
    EXPECT_EQ(columns(other), 0) << other;
  }
  EXPECT_EQ(columns(IdxBytes({2, 2}, {0, 1, 2, 3})), 0);
  EXPECT_EQ(columns(Npy("<i8", "(1,)", std::string(8, '\0'))), 0);
}

TEST(FormatTest, UnknownContentIsShown) {
  const TwoByTwo data;
  data.Refused(std::string("\x7f"
                           "ELF\2\1\1\0",
                           8),
               {"is not IDX, NPY or CSV", "7f 45 4c 46"});
}

TEST(FormatTest, PicturesMustBeConverted) {
  const TwoByTwo data;
  data.Refused(std::string("\x89PNG\r\n\x1a\n\0", 9),
               {"is not IDX, NPY or CSV, but a PNG picture: convert", "docs/models.md"});
  data.Refused(std::string("\xff\xd8\xff\xe0\0\x10JFIF", 10), {"but a JPEG picture: convert"});
  data.Refused(Gzip("\xff\xd8\xff\xdb"), {"but a JPEG picture"});
}

TEST(FormatTest, TypesAreKnownFromTheBeginning) {
  const TestFolder folder;
  const auto type = [&folder](const std::string& bytes) {
    return std::string(Word(TypeOfArray(folder.Write("x", bytes))));
  };
  EXPECT_EQ(type(IdxBytes({2, 2}, {1, 2})), "uint8") << "the rest is not read";
  EXPECT_EQ(type(Gzip(IdxBytes({1}, {1}))), "uint8");
  EXPECT_EQ(type(IdxHeader(0x0e, {1}) + std::string(8, '\0')), "float64");
  EXPECT_EQ(type(Npy("<i8", "(1,)", std::string(8, '\0'))), "int64");
  EXPECT_EQ(type("a,b\n1,2\n"), "float32");
  ExpectError([&] { type(""); }, {"the file is empty"});
  ExpectError([&] { type("\x89PNG\r\n\x1a\n"); }, {"a PNG picture"});
}

}  // namespace
}  // namespace acan
