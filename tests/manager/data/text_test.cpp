// Text and streams of tokens: their tokens, the windows of an epoch, and each mistake.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "acan/core/text/json_text.h"
#include "acan/manager/stored_array.h"
#include "failing_status.h"
#include "graph_jobs.h"
#include "nlohmann/json.hpp"

namespace acan {
namespace {

using Tokens = std::vector<std::int32_t>;

// "abcabc..." with `count` characters.
std::string Alphabet(std::size_t count) {
  std::string text;
  for (std::size_t i = 0; i < count; ++i) text += static_cast<char>('a' + i % 3);
  return text;
}

TEST(TextTest, CharactersAreNumberedInTheirOrder) {
  const TestFolder folder;
  // In Unicode's order:
  // , a, b, e with an accent (2 bytes), a clef (4 bytes).
  folder.Write("train",
               "b\xc3\xa9\n\xf0\x9d\x84\x9e"
               "ab\n\xc3\xa9");
  const Data data =
      LoadFrom(folder, "train_text = \"train\"\ntokenizer = \"characters\"", GptInputs(4, 5));
  EXPECT_EQ(data.test, nullptr);
  EXPECT_EQ(data.train->samples(), 1);
  const auto vocabulary = ParseJson(data.vocabulary);
  EXPECT_EQ(vocabulary["tokenizer"], "characters");
  EXPECT_EQ(vocabulary["tokens"], nlohmann::json({"\n", "a", "b", "\xc3\xa9", "\xf0\x9d\x84\x9e"}));
  // b e \n clef a b \n e; the offset of epoch 1 is 5 mod 4 = 1 of 64 random bits (draws.py).
  const Tokens all = {2, 3, 0, 4, 1, 2, 0, 3};
  for (std::int64_t epoch = 0; epoch < 8; ++epoch) {
    const Tokens tokens = Integers(*data.train, "tokens", epoch);
    const Tokens labels = Integers(*data.train, "labels", epoch);
    const auto begin = std::search(all.begin(), all.end(), tokens.begin(), tokens.end());
    ASSERT_NE(begin, all.end());
    EXPECT_TRUE(std::equal(labels.begin(), labels.end(), begin + 1));
  }
}

// draws.py computes these offsets.
TEST(TextTest, WindowsBeginAtAnOffsetThatTheEpochDraws) {
  const TestFolder folder;
  std::vector<std::uint16_t> numbers(100);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::uint16_t>(i);
  folder.Write("train", Raw(numbers));
  folder.Write("test", Raw(numbers));
  const Data data =
      LoadFrom(folder, "train_tokens = \"train\"\ntest_tokens = \"test\"\ntokens_type = \"uint16\"",
               GptInputs(16, 100));
  ASSERT_EQ(data.train->samples(), (100 - 16) / 16);
  EXPECT_TRUE(data.vocabulary.empty());
  const std::int32_t offsets[] = {12, 5, 6, 7, 11, 0, 14, 2};
  for (std::int64_t epoch = 0; epoch < 8; ++epoch) {
    const Tokens tokens = Integers(*data.train, "tokens", epoch);
    const Tokens labels = Integers(*data.train, "labels", epoch);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      ASSERT_EQ(tokens[i], offsets[epoch] + static_cast<std::int32_t>(i));
      ASSERT_EQ(labels[i], tokens[i] + 1);
    }
    EXPECT_EQ(Integers(*data.test, "tokens", epoch)[0], 0);
  }
  // A part of a sample.
  std::vector<std::uint32_t> part(3);
  data.test->Copy({"labels", 2, 0, {13, 16}, {0, 1}}, part);
  EXPECT_EQ(part, (std::vector<std::uint32_t>{46, 47, 48}));
}

// Like nanoGPT's prepare.py: the first int(n * 0.9) characters are for training.
TEST(TextTest, OneTextIsCutBetweenTwoCharacters) {
  const TestFolder folder;
  std::string text;
  for (int i = 0; i < 21; ++i) text += "\xc3\xa9";
  folder.Write("text", text + "z");
  const Data data = LoadFrom(folder, "text = \"text\"\ntest_fraction = 0.25", GptInputs(1, 2));
  EXPECT_EQ(data.train->samples(), 16 - 1);  // int(22 * 0.75) = 16 characters
  EXPECT_EQ(data.test->samples(), 6 - 1);
  // The last character occurs only in the test part, but is in the vocabulary, too.
  EXPECT_EQ(Integers(*data.test, "labels"), (Tokens{1, 1, 1, 1, 0}));
  EXPECT_EQ(LoadFrom(folder, "text = \"text\"\ntest_fraction = 0", GptInputs(1, 2)).test, nullptr);
  ExpectError([&] { LoadFrom(folder, "text = \"text\"\ntest_fraction = 0.999", GptInputs(1, 2)); },
              {"data.test_fraction = 0.999", "leaves none"});
}

TEST(TextTest, BytesStayInTheFile) {
  const TestFolder folder;
  folder.Write("text", "\xff" + Alphabet(19));
  const Data data = LoadFrom(folder, "text = \"text\"\ntokenizer = \"bytes\"", GptInputs(1, 256));
  EXPECT_EQ(data.train->samples(), 17);
  EXPECT_EQ(data.test->samples(), 1);
  EXPECT_EQ(Integers(*data.train, "tokens")[0], 255);
  EXPECT_EQ(Integers(*data.test, "tokens"), (Tokens{'c'}));
  EXPECT_EQ(ParseJson(data.vocabulary)["tokenizer"], "bytes");
  // A file that is cut off or changed later gives an error message.
  std::filesystem::resize_file(folder.Path("text"), 5);
  ExpectError([&] { Integers(*data.test, "tokens"); }, {"text: was truncated while it was in use"},
              Error::Kind::kFailure);
}

TEST(TextTest, FilesThatChangeAreNamed) {
  const TestFolder folder;
  folder.Write("text", Alphabet(20));
  const Data data =
      LoadFrom(folder, "train_text = \"text\"\ntokenizer = \"bytes\"", GptInputs(2, 256));
  const auto time = std::filesystem::last_write_time(folder.Path("text"));
  std::ofstream(folder.Path("text"), std::ios::binary | std::ios::in) << "b";
  std::filesystem::last_write_time(folder.Path("text"), time + std::chrono::seconds(1));
  ExpectError([&] { Integers(*data.train, "tokens"); }, {"was changed while it was in use"},
              Error::Kind::kFailure);
}

TEST(TextTest, MistakesAreNamed) {
  const TestFolder folder;
  const std::vector<WantedInput> gpt = GptInputs(4, 3);
  const auto refused = [&](const std::string& data, const std::vector<std::string>& parts,
                           const std::vector<WantedInput>& wanted) {
    ExpectError([&] { LoadFrom(folder, data, wanted); }, parts);
  };
  folder.Write("short", "abcabca");
  refused("train_text = \"short\"", {"short: has 7 tokens", "sequences have 4", "at least 8"}, gpt);
  // The file is long enough, but its test part is not.
  folder.Write("long", Alphabet(60));
  refused("text = \"long\"",
          {"long: has 6 tokens", "at least 8", "for testing: data.test_fraction = 0.1"}, gpt);
  folder.Write("four", Alphabet(20) + "d");
  refused("train_text = \"four\"", {"4 different tokens", "model has 3", "model.vocab_size"}, gpt);
  folder.Write("train", Alphabet(20));
  refused("train_text = \"train\"\ntokenizer = \"bytes\"", {"256 different tokens"}, gpt);
  folder.Write("test", "abc\nabd\n");
  refused("train_text = \"train\"\ntest_text = \"test\"",
          {"test, line 1", "U+000A", "which the training text lacks"}, gpt);
  folder.Write("bad", "ab\nc\xc3(" + Alphabet(20));
  refused("train_text = \"bad\"", {"bad, line 2: byte 4 is not UTF-8"}, gpt);
  for (const char* bad : {"\x80", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82"}) {
    folder.Write("bad", bad);
    refused("train_text = \"bad\"", {"byte 0 is not UTF-8"}, gpt);
  }
  folder.Write("empty", "");
  refused("train_text = \"empty\"", {"empty: the file is empty"}, gpt);
  refused("train_text = \"train\"", {"data.train_text is for language models", "\"images\""},
          ImageInputs(2, 2, 1, 2));
  refused("train_text = \"train\"", {"\"x\", \"labels\""},
          {{"x"}, {"labels", model::InputRole::kLabels}});
}

TEST(TokenStreamTest, TypesOfFiles) {
  const TestFolder folder;
  const auto load = [&](const std::string& more) {
    return LoadFrom(folder, "train_tokens = \"tokens\"\n" + more, GptInputs(2, 60000)).train;
  };
  const Tokens expected = {1, 2, 59999, 4, 5, 6};
  const auto check = [&](const std::string& file, const std::string& more) {
    folder.Write("tokens", file);
    const auto set = load(more);
    EXPECT_EQ(set->samples(), 2);
    // Finds an epoch whose windows have the offset 0.
    std::int64_t epoch = 0;
    while (Integers(*set, "tokens", epoch)[0] != 1) ++epoch;
    EXPECT_EQ(Integers(*set, "tokens", epoch), (Tokens{1, 2, 59999, 4}));
    EXPECT_EQ(Integers(*set, "labels", epoch), (Tokens{2, 59999, 4, 5}));
    return set->sha256();
  };
  const std::vector<std::uint16_t> u16(expected.begin(), expected.end());
  const std::vector<std::uint32_t> u32(expected.begin(), expected.end());
  const std::vector<std::int64_t> i64(expected.begin(), expected.end());
  // The same tokens have the same hash in any format.
  const std::string hash = check(Raw(u16), "tokens_type = \"uint16\"");
  EXPECT_EQ(hash, check(Raw(u32), "tokens_type = \"uint32\""));
  EXPECT_EQ(hash, check(Npy("<u2", "(6,)", Raw(u16)), ""));
  EXPECT_EQ(hash, check(Npy("<u4", "(6,)", Raw(u32)), ""));
  EXPECT_EQ(hash, check(Npy("<i4", "(6,)", Raw(expected)), ""));
  EXPECT_EQ(hash, check(Npy("<i8", "(6,)", Raw(i64)), ""));
  EXPECT_EQ(hash, check(Gzip(Npy("<u2", "(6,)", Raw(u16))), ""));
}

// The first two bytes of token 35615 are those of gzip.
TEST(TokenStreamTest, RawFilesAreNotUnpacked) {
  const TestFolder folder;
  const std::vector<std::uint16_t> u16 = {35615, 7, 3, 4, 5, 6};
  folder.Write("tokens", Raw(u16));
  const StoredArray tokens = OpenRaw(folder.Path("tokens"), NumberType::kUint16);
  std::vector<std::int64_t> read(u16.size());
  ASSERT_EQ(tokens.count(), static_cast<std::int64_t>(u16.size()));
  tokens.ReadIntegers(0, read);
  EXPECT_EQ(read, std::vector<std::int64_t>(u16.begin(), u16.end()));
  // Read as bytes of a text, all bytes are kept.
  folder.Write("text", "\x1f\x8b\x08 and more");
  EXPECT_EQ(OpenRaw(folder.Path("text"), NumberType::kUint8).count(), 12);
}

// A server that does not answer has not changed the file.
TEST(TokenStreamTest, AFileWhoseStatusIsUnknownHasNotChanged) {
  const TestFolder folder;
  const std::string path = folder.Write("tokens", "abcd");
  const StoredArray tokens = OpenRaw(path, NumberType::kUint8);
  bool fails = false;
  std::thread([&] {
    fails = MakeStatusFail();
    if (!fails) return;
    std::vector<std::int64_t> read(4);
    const std::vector<std::string> text = {path + ": cannot read: Connection timed out"};
    ExpectError([&] { tokens.ReadIntegers(0, read); }, text, Error::Kind::kFailure);
    ExpectError([&] { OpenRaw(path, NumberType::kUint8); }, text, Error::Kind::kFailure);
  }).join();
  if (!fails) GTEST_SKIP() << "the system has no filters of system calls (seccomp)";
}

TEST(TokenStreamTest, MistakesAreNamed) {
  const TestFolder folder;
  const auto refused = [&](const std::string& file, const std::string& more,
                           const std::vector<std::string>& parts) {
    folder.Write("tokens", file);
    ExpectError([&] { LoadFrom(folder, "train_tokens = \"tokens\"\n" + more, GptInputs(2, 10)); },
                parts);
  };
  const std::string u16 = "tokens_type = \"uint16\"";
  const std::string good = Raw(std::vector<std::uint16_t>{1, 2, 3, 10, 5});
  std::vector<WantedInput> few_labels = GptInputs(2, 20);
  few_labels.back().bound = 10;
  ASSERT_EQ(few_labels.back().name, "labels");
  folder.Write("tokens", good);
  ExpectError([&] { LoadFrom(folder, "train_tokens = \"tokens\"\n" + u16, few_labels); },
              {"token 3 of the file is 10", "input \"labels\" is 10", "expected 0 to 9"});
  refused(good, u16,
          {"tokens: token 3 of the file is 10", "10 tokens (model.vocab_size)", "expected 0 to 9"});
  refused(Npy("<i8", "(4,)", Raw(std::vector<std::int64_t>{1, -2, 3, 4})), "",
          {"token 1 of the file is -2"});
  refused(Npy("<f4", "(4,)", Raw(std::vector<float>{1, 2, 3.5f, 4})), "",
          {"value 2 is 3.5", "whole number"});
  refused(good + "x", u16, {"has 11 bytes", "not a multiple of the 2 bytes"});
  refused("", u16, {"the file is empty"});
  refused(Npy("<u2", "(5,)", good), u16, {"is NPY, which states"});
  refused(Npy("<u2", "(1, 5)", good), "", {"has shape [1, 5]", "one dimension", "train_labels"});
  // CSV always has two dimensions.
  refused("1\n2\n3\n", "",
          {"has shape [3, 1]", "save it as NPY", "raw values with data.tokens_type"});
  refused(Npy("<u2", "(6,)", good), "", {"truncated", "shape [6] (12 bytes", "has 10"});
  refused(Npy("<u2", "(4,)", good), "", {"is longer than its header says", "[4]"});
  refused(Npy(">u2", "(5,)", good), "", {"'>u2' are not supported", "'<u2'"});
}

}  // namespace
}  // namespace acan
