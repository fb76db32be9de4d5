// A run that starts from the weights of a run with text has their tokens, whatever its own text is.
#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ragged_job.h"

namespace acan::testing {
namespace {

using ::testing::HasSubstr;

class InitialVocabulary : public ::testing::Test {
 protected:
  InitialVocabulary() {
    receipt_ = Train(WriteJob("first", Repeated("abcd")), first_, {"--handlers", "cpu:1@64MiB"});
  }

  static std::string Repeated(const std::string& part) {
    std::string text;
    for (int i = 0; i < 40; ++i) text += part;
    return text;
  }
  // A job that trains and tests with `text`; returns its path.
  std::string WriteJob(const std::string& name, const std::string& text) const {
    folder_.Write(name + ".txt", text);
    const std::string files =
        "train_text = \"" + name + ".txt\"\ntest_text = \"" + name + ".txt\"\n";
    return folder_.Write(name + ".toml", R"([model]
kind = "gpt"
n_layer = 1
n_head = 1
n_embd = 8
block_size = 8
vocab_size = 256
[train]
batch = 4
steps = 3
[data]
)" + files);
  }
  // Options for a training that starts from the first run's weights.
  std::vector<std::string> FromFirst() const {
    return {"--handlers", "cpu:1@64MiB", "--set", "model.initial_weights=" + weights_};
  }
  void Refused(std::vector<std::string> words, const std::vector<std::string>& parts) const {
    words.insert(words.end(), {"--handlers", "cpu:1@64MiB"});
    const Result result = RunAcan(words);
    EXPECT_EQ(result.code, 2) << result.out;
    for (const std::string& part : parts) EXPECT_THAT(result.err, HasSubstr(part));
  }

  const TestFolder folder_;
  const std::string first_ = folder_ / "first";
  const std::string weights_ = first_ + "/model.safetensors";
  const std::string vocabulary_ = first_ + "/vocabulary.json";
  nlohmann::json receipt_;
};

TEST_F(InitialVocabulary, NumbersATextThatLacksCharacters) {
  ASSERT_TRUE(receipt_.is_object());
  const std::string job = WriteJob("fewer", Repeated("bdc"));
  std::vector<std::string> words = FromFirst();
  words.insert(words.end(), {"--set", "train.epochs=0"});
  const nlohmann::json started = Train(job, folder_ / "out", words);
  ASSERT_TRUE(started.is_object());
  EXPECT_EQ(ReadFile(folder_ / "out/vocabulary.json"), ReadFile(vocabulary_));
  const auto loss = [](const std::vector<std::string>& eval) {
    const Result result = RunAcan(eval);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.code == 0 ? nlohmann::json::parse(LastLine(result.out))["test_loss"]
                            : nlohmann::json();
  };
  const nlohmann::json expected =
      loss({"eval", first_, "--inputs", folder_ / "fewer.txt", "--json", "--handlers", "cpu:1"});
  EXPECT_EQ(started["test_loss"], expected);
  EXPECT_EQ(loss({"eval", job, "--model", weights_, "--json", "--handlers", "cpu:1"}), expected);
}

TEST_F(InitialVocabulary, RefusesTextThatTheWeightsDoNotKnow) {
  ASSERT_TRUE(receipt_.is_object());
  const std::vector<std::string> parts = {folder_ / "more.txt" + ", line 1: has the character 'A'",
                                          vocabulary_, "remove others from the text"};
  const std::string more = WriteJob("more", "A" + Repeated("abcd"));
  const std::string start = "model.initial_weights=" + weights_;
  Refused({"train", more, "--out", folder_ / "out", "--set", start}, parts);
  Refused({"eval", more, "--model", weights_}, parts);
  Refused({"eval", folder_ / "first.toml", "--model", weights_, "--set", "data.tokenizer=bytes"},
          {"data.tokenizer = \"bytes\"", vocabulary_, "set data.tokenizer to \"characters\""});
}

// Also if the files beside the weights are gone.
TEST_F(InitialVocabulary, OfARunIsKeptByTheRun) {
  ASSERT_TRUE(receipt_.is_object());
  const std::string job = WriteJob("fewer", Repeated("bdc"));
  const std::string out = folder_ / "out";
  const nlohmann::json started = Train(job, out, FromFirst());
  ASSERT_TRUE(started.is_object());
  std::filesystem::remove(vocabulary_);
  const Result rerun = RunAcan({"verify", out, "--rerun"});
  EXPECT_EQ(rerun.code, 0) << rerun.out << rerun.err;
  const Result done = RunAcan(
      {"train", job, "--resume", out, "--set", "model.initial_weights=" + weights_, "--json"});
  EXPECT_EQ(done.code, 0) << done.err;
  EXPECT_THAT(done.err, HasSubstr("is done already"));
  // As after a kill before the first snapshot.
  std::filesystem::remove(out + "/receipt.json");
  const Result resumed = RunAcan({"train", "--resume", out, "--handlers", "cpu:1", "--json"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(nlohmann::json::parse(LastLine(resumed.out))["weights_sha256"],
            started["weights_sha256"]);
}

// What transformers knows of the tokens, too.
TEST_F(InitialVocabulary, HasTheSameEndOfATextAfterARunIsResumed) {
  ASSERT_TRUE(receipt_.is_object());
  const std::string config = folder_.Write("first/config.json", R"({"eos_token_id": 3})");
  const std::string out = folder_ / "out";
  std::vector<std::string> words = FromFirst();
  words.insert(words.end(), {"--set", "output.config=transformers"});
  ASSERT_TRUE(Train(first_ + ".toml", out, words).is_object());
  std::filesystem::remove(config);
  // As after a kill before the first snapshot.
  std::filesystem::remove(out + "/receipt.json");
  const Result resumed = RunAcan({"train", "--resume", out, "--handlers", "cpu:1"});
  ASSERT_EQ(resumed.code, 0) << resumed.err;
  EXPECT_EQ(nlohmann::json::parse(ReadFile(out + "/config.json"))["eos_token_id"], 3);
}

TEST_F(InitialVocabulary, OfOtherWeightsDoesNotFitTheTextOfARun) {
  ASSERT_TRUE(receipt_.is_object());
  const std::string other = folder_ / "other";
  ASSERT_TRUE(
      Train(WriteJob("other", Repeated("efgh")), other, {"--handlers", "cpu:1@64MiB"}).is_object());
  Refused({"eval", first_, "--model", other + "/model.safetensors"},
          {other + "/vocabulary.json numbers the tokens otherwise than " + vocabulary_,
           "with a job file"});
  const Result same = RunAcan({"eval", first_, "--model", weights_, "--handlers", "cpu:1"});
  EXPECT_EQ(same.code, 0) << same.err;
}

}  // namespace
}  // namespace acan::testing
