// Text of jobs with initial weights: its tokens are those of the weights, or of the run that a job
// continues.
#include <gtest/gtest.h>

#include "acan/manager/job_vocabulary.h"
#include "descriptor_limit.h"
#include "graph_jobs.h"

namespace acan {
namespace {

using Tokens = std::vector<std::int32_t>;

// d does not come last, so an alphabet that is numbered anew differs.
constexpr const char* kDabc = R"({"tokenizer": "characters", "tokens": ["d", "a", "b", "c"]})";
constexpr const char* kAbcd = R"({"tokenizer": "characters", "tokens": ["a", "b", "c", "d"]})";
constexpr const char* kBytesText = R"({"tokenizer": "bytes", "size": 256})";
constexpr const char* kOfWeights = R"({"model": {"initial_weights_sha256": "17"}})";
constexpr const char* kOfOthers = R"({"model": {"initial_weights_sha256": "18"}})";

class GivenVocabularyTest : public ::testing::Test {
 protected:
  GivenVocabularyTest() {
    std::filesystem::create_directories(folder_.Path("weights/snapshots"));
    std::filesystem::create_directory(folder_.Path("run"));
    folder_.Write("text", "dcbadcba");
  }

  // No test reads the weights themselves.
  Job JobFor(const std::string& data = "train_text = \"text\"",
             const std::string& weights = "weights/model.safetensors") const {
    Job job = ParseJob("[model]\nlayers = [1, 2]\n[data]\n" + data, "job", folder_.path(), {});
    job.initial_weights = folder_.Path(weights);
    job.initial_weights_sha256 = "17";
    return job;
  }
  Data Load(const Job& job, const std::string& run = "", std::int64_t vocab_size = 256) const {
    return LoadData(job, GptInputs(1, vocab_size), run);
  }
  static Tokens TokensOf(const Data& data) { return Integers(*data.train, "tokens"); }
  void Refused(const Job& job, const std::vector<std::string>& parts,
               std::int64_t vocab_size = 256) const {
    ExpectError([&] { Load(job, "", vocab_size); }, parts);
  }

  const TestFolder folder_;
};

TEST_F(GivenVocabularyTest, IsThatOfTheWeights) {
  const Tokens anew = {3, 2, 1, 0, 3, 2, 1};
  const Tokens of_weights = {0, 3, 2, 1, 0, 3, 2};
  EXPECT_EQ(TokensOf(Load(JobFor())), anew) << "weights of another framework have no such file";
  folder_.Write("weights/vocabulary.json", kDabc);
  const Data data = Load(JobFor());
  EXPECT_EQ(TokensOf(data), of_weights);
  EXPECT_EQ(data.vocabulary, kDabc);
  Job without = JobFor();
  without.initial_weights.clear();
  EXPECT_EQ(TokensOf(Load(without)), anew);
  // A run that diverged leaves its last good weights in this folder.
  EXPECT_EQ(TokensOf(Load(JobFor("train_text = \"text\"", "weights/snapshots/step-1.safetensors"))),
            of_weights);
  EXPECT_EQ(TokensOf(Load(JobFor("train_text = \"text\"", "text"))), anew);
}

TEST_F(GivenVocabularyTest, NumbersBothPartsOfATextWithFewerCharacters) {
  folder_.Write("weights/vocabulary.json", kDabc);
  folder_.Write("text", "bcbcbcbccbcb");
  const Data data = Load(JobFor("text = \"text\"\ntest_fraction = 0.4"));
  EXPECT_EQ(TokensOf(data), (Tokens{2, 3, 2, 3, 2, 3}));
  EXPECT_EQ(Integers(*data.test, "labels"), (Tokens{3, 2, 3, 2}));
  EXPECT_EQ(data.vocabulary, kDabc);
}

TEST_F(GivenVocabularyTest, RefusesCharactersThatTheWeightsDoNotKnow) {
  folder_.Write("weights/vocabulary.json", kDabc);
  const std::string path = folder_.Path("weights/vocabulary.json");
  folder_.Write("text", "abcd\nabcd");
  Refused(JobFor(), {"text, line 1: has the character '\n' (U+000A)", "4 characters", path,
                     "remove others from the text", "without model.initial_weights"});
  folder_.Write("text", "abcdabcd");
  folder_.Write("test", "abcAbcd");
  Refused(JobFor("train_text = \"text\"\ntest_text = \"test\""),
          {"test, line 1: has the character 'A' (U+0041)", path});
  folder_.Write("text", "ab\xff");
  ExpectError([&] { Load(JobFor()); }, {"text, line 1: byte 2 is not UTF-8"});
}

TEST_F(GivenVocabularyTest, RefusesAnotherTokenizer) {
  const std::string path = folder_.Write("weights/vocabulary.json", kBytesText);
  Refused(JobFor(), {"data.tokenizer = \"characters\", but " + path, "\"bytes\"",
                     "set data.tokenizer to \"bytes\""});
  const Job bytes = JobFor("train_text = \"text\"\ntokenizer = \"bytes\"");
  EXPECT_EQ(TokensOf(Load(bytes))[0], 'd');
  folder_.Write("weights/vocabulary.json", kDabc);
  Refused(bytes, {"data.tokenizer = \"bytes\"", "set data.tokenizer to \"characters\""});
  const std::string model = folder_.Write("a.model", "some pieces");
  const Job pieces = JobFor("train_text = \"text\"\ntokenizer = \"a.model\"");
  Refused(pieces, {"data.tokenizer = \"" + model + "\"", "\"characters\""});
  folder_.Write("weights/vocabulary.json",
                R"({"tokenizer": "sentencepiece", "model": "/gone", "model_sha256": "f00"})");
  Refused(JobFor(), {"data.tokenizer = \"characters\"", "that SentencePiece model"});
  Refused(pieces, {"data.tokenizer = \"" + model + "\": its SHA-256 is", path, "f00"});
}

TEST_F(GivenVocabularyTest, RefusesFilesThatAreNoVocabularyOfTheModel) {
  const std::string path = folder_.Write("weights/vocabulary.json", "[\"a\", \"b\"]");
  Refused(JobFor(), {path + ": is not a JSON object"});
  folder_.Write("weights/vocabulary.json", kDabc);
  Refused(JobFor(), {path + " has 4 tokens, but the model has 3", "from another run"}, 3);
}

// The files beside the weights may be gone when a run is resumed.
TEST_F(GivenVocabularyTest, OfARunThatIsContinuedIsItsOwn) {
  const std::string run = folder_.Path("run");
  folder_.Write("run/vocabulary.json", kDabc);
  folder_.Write("run/job.json", kOfWeights);
  const Data alone = Load(JobFor(), run);
  EXPECT_EQ(alone.vocabulary, kDabc);
  EXPECT_TRUE(alone.warnings.empty());
  folder_.Write("weights/vocabulary.json", kDabc);
  EXPECT_TRUE(Load(JobFor(), run).warnings.empty());
  folder_.Write("weights/vocabulary.json", kAbcd);
  const Data own = Load(JobFor(), run);
  EXPECT_EQ(own.vocabulary, kDabc);
  ASSERT_EQ(own.warnings.size(), 1u);
  EXPECT_NE(own.warnings[0].find("the run keeps its own numbers"), std::string::npos);
  // The receipt, too, says from which weights a run began.
  std::filesystem::remove(folder_.Path("run/job.json"));
  EXPECT_EQ(Load(JobFor(), run).vocabulary, kAbcd);
  folder_.Write("run/receipt.json", std::string("{\"job\": ") + kOfWeights + "}");
  EXPECT_EQ(Load(JobFor(), run).vocabulary, kDabc);
}

// The numbers of the weights' vocabulary may be others.
TEST_F(GivenVocabularyTest, OfARunWhoseJobCannotBeReadNowIsUnknown) {
  const std::string run = folder_.Path("run");
  folder_.Write("run/vocabulary.json", kDabc);
  const std::string kept = folder_.Write("run/job.json", kOfWeights);
  const Job job = JobFor();
  std::vector<std::string> warnings;
  const auto find = [&] { GivenVocabulary(job, run, &warnings); };
  {
    const DescriptorLimit limit;
    ExpectError(find, {kept + ": cannot open", "Too many open files"}, Error::Kind::kFailure);
  }
  std::filesystem::remove(kept);
  std::filesystem::create_symlink("job.json", kept);
  ExpectError(find, {kept + ": cannot open", "Too many levels of symbolic links"});
  folder_.Write("run/job.json", kOfWeights);
  std::filesystem::remove(folder_.Path("run/vocabulary.json"));
  std::filesystem::create_symlink("vocabulary.json", folder_.Path("run/vocabulary.json"));
  ExpectError(find, {run + "/vocabulary.json: cannot open", "Too many levels"});
}

TEST_F(GivenVocabularyTest, OfAnotherRunInTheFolderDoesNotCount) {
  const std::string run = folder_.Path("run");
  folder_.Write("weights/vocabulary.json", kAbcd);
  folder_.Write("run/vocabulary.json", kDabc);
  for (const char* job : {kOfOthers, "{}", "{\"model\": {}}", "no JSON"}) {
    folder_.Write("run/job.json", job);
    EXPECT_EQ(Load(JobFor(), run).vocabulary, kAbcd) << job;
  }
  folder_.Write("run/job.json", kOfWeights);
  Job unknown = JobFor();
  unknown.initial_weights_sha256.clear();
  EXPECT_EQ(Load(unknown, run).vocabulary, kAbcd);
  std::filesystem::remove(folder_.Path("run/vocabulary.json"));
  EXPECT_EQ(Load(JobFor(), run).vocabulary, kAbcd);
  // Without initial weights, the text makes the vocabulary, whatever the folder has.
  Job random = JobFor();
  random.initial_weights.clear();
  random.initial_weights_sha256.clear();
  folder_.Write("run/vocabulary.json", kDabc);
  EXPECT_EQ(TokensOf(Load(random, run))[0], 3);
}

TEST_F(GivenVocabularyTest, IsForTextAlone) {
  folder_.Write("weights/vocabulary.json", kBytesText);
  folder_.Write("tokens", Npy("<i4", "(4,)", Raw(Tokens{3, 2, 1, 0})));
  EXPECT_EQ(TokensOf(Load(JobFor("train_tokens = \"tokens\""))), (Tokens{3, 2, 1}));
}

TEST(VocabularyFileTest, HasTheSameTokensWhateverItsForm) {
  const auto same = [](const std::string& one, const std::string& other) {
    return HaveSameTokens({"one", one}, {"other", other});
  };
  EXPECT_TRUE(same(kAbcd, R"({"tokens":["a","b","c","d"],"tokenizer":"characters"})"));
  EXPECT_FALSE(same(kAbcd, kDabc));
  EXPECT_FALSE(same(kAbcd, kBytesText));
  EXPECT_TRUE(same(kBytesText, R"({"tokenizer": "bytes"})"));
  const std::string pieces = R"({"tokenizer": "sentencepiece", "model_sha256": "1", "model": )";
  EXPECT_TRUE(same(pieces + "\"/a\"}", pieces + "\"/b\"}"));
  EXPECT_FALSE(same(pieces + "\"/a\"}",
                    R"({"tokenizer": "sentencepiece", "model_sha256": "2", "model": "/a"})"));
  ExpectError([&] { same(kAbcd, "{}"); }, {"other: 'tokenizer' must be"});
}

}  // namespace
}  // namespace acan
