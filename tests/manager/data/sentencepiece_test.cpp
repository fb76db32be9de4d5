// Tokens of SentencePiece models.
#include <gtest/gtest.h>

#include "acan/core/text/json_text.h"
#include "acan/manager/vocabulary.h"
#include "graph_jobs.h"
#include "nlohmann/json.hpp"

#ifdef ACAN_SENTENCEPIECE
#include <sentencepiece_trainer.h>
#endif

namespace acan {
namespace {

#ifdef ACAN_SENTENCEPIECE

using Tokens = std::vector<std::int32_t>;

// A model whose pieces are single characters, numbered from the most frequent one, after <unk>, <s>
// and </s>. So the tokens of a text can be computed by hand.
std::string CharacterModel(const TestFolder& folder) {
  folder.Write("corpus", "aaaaaaaaaaaaaaaaaaa bbbbbbbbbb ccccc");
  const auto status = sentencepiece::SentencePieceTrainer::Train(
      "--input=" + folder.Path("corpus") + " --model_prefix=" + folder.Path("abc") +
      " --model_type=char --vocab_size=7 --character_coverage=1.0 --minloglevel=2");
  EXPECT_TRUE(status.ok()) << status.ToString();
  return folder.Path("abc.model");
}

TEST(SentencePieceTest, TokensAreThoseOfTheModel) {
  const TestFolder folder;
  const std::string path = CharacterModel(folder);
  // Pieces: 3 a, 4 b, 5 c, 6 the mark for the beginning of a word.
  folder.Write("train", "ab cab");
  folder.Write("test", "ccd");
  const Data data =
      LoadFrom(folder, "train_text = \"train\"\ntest_text = \"test\"\ntokenizer = \"abc.model\"",
               GptInputs(1, 7));
  // _ a b _ c a b
  EXPECT_EQ(Integers(*data.train, "tokens"), (Tokens{6, 3, 4, 6, 5, 3}));
  EXPECT_EQ(Integers(*data.train, "labels"), (Tokens{3, 4, 6, 5, 3, 4}));
  // Unknown characters become <unk>, with a warning.
  EXPECT_EQ(Integers(*data.test, "labels"), (Tokens{5, 5, 0}));
  ASSERT_EQ(data.warnings.size(), 1u);
  EXPECT_EQ(data.warnings.front(), folder.Path("test") + ": 1 of 4 tokens are <unk>, because " +
                                       path + " lacks characters of the text");
  const auto vocabulary = ParseJson(data.vocabulary);
  EXPECT_EQ(vocabulary["tokenizer"], "sentencepiece");
  EXPECT_EQ(vocabulary["model"], path);
  EXPECT_EQ(vocabulary["size"], 7);
}

TEST(SentencePieceTest, TheVocabularyOfARunMakesTextAgain) {
  const TestFolder folder;
  const std::string path = CharacterModel(folder);
  folder.Write("train", "ab cab");
  const Data data =
      LoadFrom(folder, "train_text = \"train\"\ntokenizer = \"abc.model\"", GptInputs(1, 7));
  const auto vocabulary = ReadVocabulary(folder.Write("vocabulary.json", data.vocabulary));
  EXPECT_EQ(vocabulary->size(), 7);
  EXPECT_EQ(vocabulary->TokensOf("ab cab", "--prompt"), (Tokens{6, 3, 4, 6, 5, 3, 4}));
  std::string text;
  for (const std::int32_t token : {6, 3, 4, 6, 5, 3, 1, 0}) text += vocabulary->TextOf(token);
  EXPECT_EQ(text, " ab ca\xef\xbf\xbd");
  // Replaces the model's file.
  folder.Write("abc.model", "changed");
  ExpectError([&] { ReadVocabulary(folder.Path("vocabulary.json")); },
              {"vocabulary.json", path + " is not the SentencePiece model of the training"});
}

// As acan eval and acan generate read a text.
TEST(SentencePieceTest, OtherTextsAreSearchedForUnknownCharacters) {
  const TestFolder folder;
  const std::string path = CharacterModel(folder);
  folder.Write("train", "ab cab");
  const std::string keys = "train_text = \"train\"\ntokenizer = \"abc.model\"";
  const Data data = LoadFrom(folder, keys, GptInputs(1, 7));
  const auto vocabulary = ReadVocabulary(folder.Write("vocabulary.json", data.vocabulary));
  const auto warnings = [&](const std::string& text) {
    folder.Write("test", text);
    const Job job = ParseJob(
        "[model]\nkind = \"gpt\"\nn_layer = 1\nn_head = 1\nn_embd = 4\nblock_size = 1\n"
        "vocab_size = 7\n[data]\n" +
            keys + "\ntest_text = \"test\"",
        "job", folder.path(), {});
    return LoadTestData(job, vocabulary.get()).warnings;
  };
  const std::string lacks = " tokens are <unk>, because " + path + " lacks characters of the text";
  EXPECT_EQ(warnings("ccd"), std::vector{folder.Path("test") + ": 1 of 4" + lacks});
  EXPECT_TRUE(warnings("cca").empty());
  EXPECT_EQ(vocabulary->UnknownText(vocabulary->TokensOf("dad", "--prompt"), "--prompt"),
            "--prompt: 2 of 4" + lacks);
  EXPECT_EQ(vocabulary->UnknownText(vocabulary->TokensOf("a", "--prompt"), "--prompt"), "");
}

// The model of the weights' vocabulary.json may have moved.
TEST(SentencePieceTest, TextOfAJobWithInitialWeightsNeedsTheirModel) {
  const TestFolder folder;
  CharacterModel(folder);
  folder.Write("train", "ab cab");
  const std::string text = "train_text = \"train\"\ntokenizer = ";
  const Data first = LoadFrom(folder, text + "\"abc.model\"", GptInputs(1, 7));
  folder.Write("vocabulary.json", first.vocabulary);
  std::filesystem::rename(folder.Path("abc.model"), folder.Path("moved.model"));
  const auto load = [&](const std::string& model) {
    Job job =
        ParseJob("[model]\nlayers = [1, 2]\n[data]\n" + text + model, "job", folder.path(), {});
    job.initial_weights = folder.Path("model.safetensors");
    return LoadData(job, GptInputs(1, 7));
  };
  const Data moved = load("\"moved.model\"");
  EXPECT_EQ(moved.train->sha256(),
            LoadFrom(folder, text + "\"moved.model\"", GptInputs(1, 7)).train->sha256());
  EXPECT_EQ(ParseJson(moved.vocabulary)["model"], folder.Path("moved.model"));
  CharacterModel(folder);
  std::filesystem::resize_file(folder.Path("abc.model"), 10);
  ExpectError([&] { load("\"abc.model\""); }, {"abc.model\": its SHA-256 is", "vocabulary.json"});
}

TEST(SentencePieceTest, MistakesAreNamed) {
  const TestFolder folder;
  CharacterModel(folder);
  folder.Write("train", "ab cab");
  const std::string data = "train_text = \"train\"\ntokenizer = ";
  ExpectError([&] { LoadFrom(folder, data + "\"abc.model\"", GptInputs(1, 6)); },
              {"7 different tokens", "model has 6", "model.vocab_size"});
  folder.Write("bad.model", "no model");
  ExpectError([&] { LoadFrom(folder, data + "\"bad.model\"", GptInputs(1, 7)); },
              {"bad.model: is not a SentencePiece model"});
  ExpectError([&] { LoadFrom(folder, data + "\"none.model\"", GptInputs(1, 7)); },
              {"none.model: cannot open"});
  // Needs no room on a disk, but would fill the memory.
  std::filesystem::resize_file(folder.Write("big.model", ""), std::uintmax_t{1} << 34);
  ExpectError([&] { LoadFrom(folder, data + "\"big.model\"", GptInputs(1, 7)); },
              {"big.model: is longer than the limit of 268435456 bytes"});
}

#else

TEST(SentencePieceTest, ProgramsWithoutItSaySo) {
  const TestFolder folder;
  folder.Write("train", "ab cab");
  ExpectError(
      [&] { LoadFrom(folder, "train_text = \"train\"\ntokenizer = \"a.model\"", GptInputs(1, 7)); },
      {"a.model: this program was built without SentencePiece", "libsentencepiece-dev"});
}

#endif

}  // namespace
}  // namespace acan
