// Vocabularies of runs: text to tokens and back, and each mistake in the file.
#include "acan/manager/vocabulary.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>

#include "graph_jobs.h"

namespace acan {
namespace {

using Tokens = std::vector<std::int32_t>;

// The vocabulary of a run with this text and tokenizer.
std::shared_ptr<const Vocabulary> VocabularyOf(const TestFolder& folder, const std::string& text,
                                               const std::string& tokenizer) {
  folder.Write("train", text);
  const Data data = LoadFrom(folder, "train_text = \"train\"\ntokenizer = \"" + tokenizer + "\"",
                             GptInputs(1, 256));
  return ReadVocabulary(folder.Write("vocabulary.json", data.vocabulary));
}

TEST(VocabularyTest, CharactersAreTheTokensOfTraining) {
  const TestFolder folder;
  const auto vocabulary = VocabularyOf(folder,
                                       "b\xc3\xa9\n\xf0\x9d\x84\x9e"
                                       "ab",
                                       "characters");
  EXPECT_EQ(vocabulary->size(), 5);
  EXPECT_EQ(vocabulary->TokensOf("a\xf0\x9d\x84\x9e\n", "--prompt"), (Tokens{1, 4, 0}));
  EXPECT_EQ(vocabulary->TextOf(3), "\xc3\xa9");
  ExpectError([&] { vocabulary->TokensOf("ab\nc", "--prompt"); },
              {"--prompt, line 2: has the character 'c' (U+0063)", "of 5 characters lacks"});
  ExpectError([&] { vocabulary->TokensOf("a\xff", "--prompt"); }, {"byte 1", "not UTF-8"});
  ExpectError([&] { vocabulary->TextOf(5); }, {"token 5", "0 to 4"});
  ExpectError([&] { vocabulary->TextOf(-1); }, {"token -1"});
}

// The file may be that of somebody else. The model needs no room on a disk, but would fill the
// memory.
TEST(VocabularyTest, AModelWithoutEndIsRefusedAtOnce) {
  const TestFolder folder;
  const std::string model = folder.Write("big.model", "");
  std::filesystem::resize_file(model, std::uintmax_t{1} << 34);
  const std::string path = folder.Write(
      "vocabulary.json",
      R"({"tokenizer": "sentencepiece", "model_sha256": "0", "model": ")" + model + "\"}");
  ExpectError([&] { ReadVocabulary(path); },
              {model + ": is longer than the limit of 268435456 bytes for a SentencePiece model"});
}

TEST(VocabularyTest, BytesAreThemselves) {
  const TestFolder folder;
  const auto vocabulary = VocabularyOf(folder, "abcdef", "bytes");
  EXPECT_EQ(vocabulary->size(), 256);
  EXPECT_EQ(vocabulary->TokensOf("a\xff", "--prompt"), (Tokens{97, 255}));
  EXPECT_EQ(vocabulary->TextOf(255), "\xff");
  ExpectError([&] { vocabulary->TextOf(256); }, {"token 256"});
}

TEST(VocabularyTest, MistakesOfTheFileAreNamed) {
  const TestFolder folder;
  const auto refused = [&](const std::string& text, const std::vector<std::string>& parts) {
    const std::string path = folder.Write("v.json", text);
    ExpectError([&] { ReadVocabulary(path); }, parts);
  };
  refused("", {"v.json: is not a JSON object"});
  refused("[]", {"v.json: is not a JSON object"});
  refused("{}", {"v.json: 'tokenizer' must be"});
  refused(R"({"tokenizer": "words"})", {"\"characters\", \"bytes\" or \"sentencepiece\""});
  refused(R"({"tokenizer": "characters"})", {"'tokens' must be an array of characters"});
  refused(R"({"tokenizer": "characters", "tokens": []})", {"'tokens' must be an array"});
  refused(R"({"tokenizer": "characters", "tokens": ["a", "bc"]})", {"entry 1", "\"bc\""});
  refused(R"({"tokenizer": "characters", "tokens": ["a", 7]})", {"entry 1", "is 7"});
  refused(R"({"tokenizer": "characters", "tokens": ["a", "b", "a"]})", {"entries 0 and 2"});
  refused(R"({"tokenizer": "sentencepiece"})", {"'model' must be a string"});
  refused(R"({"tokenizer": "sentencepiece", "model": "/nowhere", "model_sha256": ""})",
          {"/nowhere"});
  const std::string deep = std::string(300'000, '[') + std::string(300'000, ']');
  refused(R"({"tokenizer": "characters", "tokens": [)" + deep + "]}", {"v.json: nests arrays"});
  ExpectError([&] { ReadVocabulary(folder.Path("none")); }, {"none: cannot open"});
}

}  // namespace
}  // namespace acan
