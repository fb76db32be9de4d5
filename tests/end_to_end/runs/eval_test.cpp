// `acan eval` of a run's folder uses the data of the run, whatever happened to its files.
#include <filesystem>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ragged_job.h"

namespace acan::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Eval : public ::testing::Test {
 protected:
  Result Run(const std::vector<std::string>& more = {}, const Environment& environment = {}) const {
    std::vector<std::string> words = {"eval", out_, "--handlers", "cpu:1@64MiB", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return RunAcan(words, environment);
  }
  nlohmann::json Evaluated(const std::vector<std::string>& more = {}) const {
    const Result result = Run(more);
    EXPECT_EQ(result.code, 0) << result.err;
    return result.code == 0 ? nlohmann::json::parse(LastLine(result.out)) : nlohmann::json();
  }
  void Refused(const std::vector<std::string>& parts,
               const std::vector<std::string>& more = {}) const {
    const Result result = Run(more);
    EXPECT_EQ(result.code, 2) << result.out;
    for (const std::string& part : parts) EXPECT_THAT(result.err, HasSubstr(part));
  }

  TestFolder folder_;
  std::string out_ = folder_ / "out";
};

class EvalOfText : public Eval {
 protected:
  EvalOfText() : text_("the king of all the lands went up.\n") {
    for (int i = 0; i < 4; ++i) text_ += text_;
    folder_.Write("text.txt", text_);
    folder_.Write("new.txt", "all the kings went up the land.\n");
    const std::string job = folder_.Write("job.toml", R"([model]
kind = "gpt"
n_layer = 1
n_head = 1
n_embd = 8
block_size = 8
vocab_size = 32
[data]
text = "text.txt"
[train]
batch = 4
steps = 3
)");
    receipt_ = Train(job, out_, {"--handlers", "cpu:1@64MiB"});
  }

  std::string text_;
  nlohmann::json receipt_;
};

TEST_F(EvalOfText, NumbersTokensAsInTraining) {
  ASSERT_TRUE(receipt_.is_object());
  EXPECT_EQ(Evaluated()["test_loss"], receipt_["test_loss"]);
  const std::vector<std::string> other = {"--inputs", folder_ / "new.txt"};
  const nlohmann::json loss = Evaluated(other)["test_loss"];
  ASSERT_TRUE(loss.is_number());
  // The new characters sort before and between those of the original text.
  folder_.Write("text.txt", text_ + "\x01!b\xc3\xa4");
  EXPECT_EQ(Evaluated(other)["test_loss"], loss);
  std::filesystem::remove(folder_ / "text.txt");
  const nlohmann::json evaluated = Evaluated(other);
  EXPECT_EQ(evaluated["test_loss"], loss);
  EXPECT_EQ(evaluated["data"]["train_sha256"], receipt_["data"]["train_sha256"]);
}

TEST_F(EvalOfText, RefusesATextThatHasChanged) {
  ASSERT_TRUE(receipt_.is_object());
  folder_.Write("text.txt", text_ + text_.substr(0, 9));
  Refused({folder_ / "text.txt" + ": the test data have changed since the run", "receipt.json says",
           "--inputs"});
}

// The job splits the text in two; --inputs replaces only the second part.
TEST_F(EvalOfText, WithAJobFileSaysWhatTheModelWasTrainedOn) {
  ASSERT_TRUE(receipt_.is_object());
  const std::vector<std::string> other = {"--inputs", folder_ / "new.txt"};
  const nlohmann::json expected = Evaluated(other);
  const Result result =
      RunAcan({"eval", folder_ / "job.toml", "--model", out_ + "/model.safetensors", "--inputs",
               folder_ / "new.txt", "--handlers", "cpu:1@64MiB", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const nlohmann::json evaluated = nlohmann::json::parse(LastLine(result.out));
  EXPECT_EQ(evaluated["data"], expected["data"]);
  EXPECT_EQ(evaluated["data"]["train_sha256"], receipt_["data"]["train_sha256"]);
  EXPECT_EQ(evaluated["test_loss"], expected["test_loss"]);
}

// The shapes of tensors do not show the number of heads.
TEST_F(EvalOfText, RefusesWeightsOfAnotherModel) {
  ASSERT_TRUE(receipt_.is_object());
  const auto refused = [](const std::vector<std::string>& words, const std::string& part) {
    const Result result = RunAcan(words);
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_THAT(result.err, HasSubstr(part));
  };
  const std::string job = folder_ / "job.toml";
  refused({"eval", job, "--model", out_ + "/model.safetensors", "--set", "model.n_head=2"},
          out_ + "/job.json: describes the weights and has model.n_head = 1");
  folder_.Write("saved/config.json", R"({"n_head": 2})");
  const std::string saved = folder_ / "saved/model.safetensors";
  std::filesystem::copy(out_ + "/model.safetensors", saved);
  refused({"eval", job, "--model", saved}, "n_head = 2, but the job's model has 1");
  Refused({"n_head = 2, but the job's model has 1"}, {"--model", saved});
  const std::string damaged = folder_.Write("saved/config.json", R"({"n_head": 2)");
  refused({"eval", job, "--model", saved}, damaged + ": describes the weights, but is not JSON");
  Refused({damaged + ": describes the weights, but is not JSON"}, {"--model", saved});
}

// An entry of a SentencePiece model, which is a protocol buffer. Kinds: 1 is of text, 2 is <unk>.
std::string Piece(const std::string& text, char kind) {
  const std::string fields =
      "\x0a" + std::string(1, static_cast<char>(text.size())) + text + "\x18" + kind;
  return "\x0a" + std::string(1, static_cast<char>(fields.size())) + fields;
}

TEST_F(Eval, WarnsOfCharactersThatThePiecesLack) {
  // <unk>, the mark of a word's beginning and two letters, for a tokenizer of single characters.
  folder_.Write("ab.model", Piece("<unk>", 2) + Piece("\xe2\x96\x81", 1) + Piece("a", 1) +
                                Piece("b", 1) + "\x12\x02\x18\x04");
  std::string text = "ab ba ";
  for (int i = 0; i < 4; ++i) text += text;
  folder_.Write("text.txt", text);
  const std::string job = folder_.Write("job.toml", R"([model]
kind = "gpt"
n_layer = 1
n_head = 1
n_embd = 8
block_size = 4
vocab_size = 4
[data]
text = "text.txt"
tokenizer = "ab.model"
[train]
batch = 4
steps = 1
)");
  const Result trained = RunAcan({"train", job, "--out", out_, "--handlers", "cpu:1@64MiB"});
  if (trained.err.find("built without SentencePiece") != std::string::npos) {
    GTEST_SKIP() << "no SentencePiece";
  }
  ASSERT_EQ(trained.code, 0) << trained.err;
  const auto unknown = [&](const std::string& name) {
    return HasSubstr(name + ": 2 of 9 tokens are <unk>, because " + folder_ / "ab.model" +
                     " lacks characters of the text");
  };
  const std::string other = folder_.Write("new.txt", "xab y ab");
  const Result of_run = Run({"--inputs", other});
  EXPECT_EQ(of_run.code, 0);
  EXPECT_THAT(of_run.err, unknown(other));
  const Result of_job = RunAcan({"eval", job, "--model", out_ + "/model.safetensors", "--inputs",
                                 other, "--handlers", "cpu:1@64MiB"});
  EXPECT_EQ(of_job.code, 0);
  EXPECT_THAT(of_job.err, unknown(other));
  const Result continued =
      RunAcan({"generate", out_, "--prompt", "xab y ab", "--tokens", "1", "--device", "cpu:1"});
  EXPECT_EQ(continued.code, 0);
  EXPECT_THAT(continued.err, unknown("--prompt"));
  EXPECT_EQ(RunAcan({"generate", out_, "--prompt", "ab", "--device", "cpu:1"}).err, "");
}

// As in a folder of which only the weights were kept.
TEST_F(EvalOfText, WithoutAVocabularyTakesThatOfTheSameTextOnly) {
  ASSERT_TRUE(receipt_.is_object());
  std::filesystem::remove(out_ + "/vocabulary.json");
  EXPECT_EQ(Evaluated()["test_loss"], receipt_["test_loss"]);
  folder_.Write("text.txt", text_ + "\x01");
  Refused({folder_ / "text.txt" + ": the training data have changed since the run",
           "no vocabulary.json"},
          {"--inputs", folder_ / "new.txt"});
}

TEST_F(EvalOfText, RefusesOverridesOfItsJob) {
  ASSERT_TRUE(receipt_.is_object());
  const Result result = Run({}, {{"ACAN_SET", "train.epochs=3"}});
  EXPECT_EQ(result.code, 2) << result.out;
  EXPECT_THAT(result.err, AllOf(HasSubstr("ACAN_SET (here train.epochs=3) needs the job file"),
                                HasSubstr("whose job cannot be overridden")));
  EXPECT_EQ(Run({}, {{"ACAN_SET", ";"}}).code, 0);
}

TEST_F(Eval, NeedsTheTestDataOfItsRunAlone) {
  const nlohmann::json receipt = Train(WriteRaggedJob(folder_), out_,
                                       {"--handlers", "cpu:1@64MiB", "--set", "train.epochs=1"});
  ASSERT_TRUE(receipt.is_object());
  std::filesystem::remove(folder_ / "train-inputs");
  std::filesystem::remove(folder_ / "train-labels");
  EXPECT_EQ(Evaluated()["test_loss"], receipt["test_loss"]);
  const std::vector<std::string> other = {"--inputs", folder_ / "test-inputs", "--targets",
                                          folder_ / "test-labels"};
  EXPECT_EQ(Evaluated(other)["test_loss"], receipt["test_loss"]);
  std::string labels = ReadFile(folder_ / "test-labels");
  labels.back() = static_cast<char>(labels.back() == 0 ? 1 : 0);
  folder_.Write("test-labels", labels);
  Refused({folder_ / "test-inputs" + " and " + (folder_ / "test-labels"),
           "the test data have changed since the run"});
  EXPECT_NE(Evaluated(other)["test_loss"], receipt["test_loss"]);
  std::filesystem::remove(folder_ / "test-labels");
  Refused({folder_ / "test-labels", "elsewhere now", "name them with --inputs"});
}

TEST_F(Eval, WarnsOfInputsOfAnotherType) {
  const nlohmann::json receipt = Train(WriteRaggedJob(folder_), out_,
                                       {"--handlers", "cpu:1@64MiB", "--set", "train.epochs=0"});
  ASSERT_TRUE(receipt.is_object());
  std::string line = "0.5";
  for (int i = 1; i < 97; ++i) line += ",0.5";
  const Result result = Run({"--inputs", folder_.Write("floats.csv", line + "\n"), "--targets",
                             folder_.Write("labels.csv", "3\n")});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("warning: " + (folder_ / "train-inputs") +
                                    " has uint8, which is scaled to 0..1"));
}

// A batch is at most as large as the training set; evaluation cuts the test set into such batches.
TEST_F(Eval, CutsTheTestDataAsTrainingDid) {
  const auto name = [this](const char* key, const char* file) {
    return std::string(key) + "=" + (folder_ / file);
  };
  const nlohmann::json receipt =
      Train(WriteRaggedJob(folder_), out_,
            {"--handlers", "cpu:1@64MiB", "--set", "train.epochs=1", "--set", "train.batch=1500",
             "--set", name("data.train_inputs", "test-inputs"),  // smaller than the test set
             "--set", name("data.train_labels", "test-labels"),  //
             "--set", name("data.test_inputs", "train-inputs"),  //
             "--set", name("data.test_labels", "train-labels")});
  ASSERT_TRUE(receipt.is_object());
  EXPECT_EQ(receipt["data"].value("train_samples", 0), kTestSamples);
  const nlohmann::json evaluated = Evaluated();
  EXPECT_EQ(evaluated["test_loss"], receipt["test_loss"]);
  EXPECT_EQ(evaluated["data"], receipt["data"]);
  EXPECT_EQ(evaluated["steps"], receipt["steps"]);
  EXPECT_EQ(evaluated["epochs"], receipt["epochs"]);
}

// As when a run removes its older snapshots, or a new run replaces its model.
TEST_F(Eval, ReportsTheWeightsThatItHasReadWhateverHappensToTheirFile) {
  const std::string job = WriteRaggedJob(folder_);
  const nlohmann::json receipt =
      Train(job, out_, {"--handlers", "cpu:1@64MiB", "--set", "train.epochs=1"});
  ASSERT_TRUE(receipt.is_object());
  const std::string model = ReadFile(out_ + "/model.safetensors");
  std::string others = model;
  others.back() = static_cast<char>(others.back() ^ 1);
  for (const bool replaced : {false, true}) {
    SCOPED_TRACE(replaced);
    const std::string weights = folder_.Write("weights.safetensors", model);
    const std::string other = folder_.Write("other.safetensors", others);
    Program eval({"eval", job, "--model", weights, "--handlers", "cpu:1@64MiB", "--json"},
                 {{"ACAN_THROTTLE", "0.05"}});
    ASSERT_TRUE(eval.WaitForErr("plan:"));
    if (replaced) {
      std::filesystem::rename(other, weights);
    } else {
      std::filesystem::remove(weights);
    }
    ASSERT_EQ(eval.Wait(), 0) << eval.err();
    EXPECT_EQ(nlohmann::json::parse(LastLine(eval.out()))["weights_sha256"],
              receipt["weights_sha256"]);
  }
}

// Tensors of the right names and shapes are not those of another model.
TEST_F(Eval, BlamesTheJobForOtherTensorsOnly) {
  const std::string job = WriteRaggedJob(folder_);
  const nlohmann::json receipt =
      Train(job, out_, {"--handlers", "cpu:1@64MiB", "--set", "train.epochs=0"});
  ASSERT_TRUE(receipt.is_object());
  std::string model = ReadFile(out_ + "/model.safetensors");
  const auto refused = [&](const std::string& layers) {
    const Result result = RunAcan({"eval", job, "--model", folder_.Write("w.safetensors", model),
                                   "--set", "model.layers=" + layers});
    EXPECT_EQ(result.code, 2) << result.out;
    return result.err;
  };
  EXPECT_THAT(refused("[97, 64, 10]"), HasSubstr("describes another model"));
  const std::string type = R"("F32")";
  model.replace(model.find(type), type.size(), R"("I32")");
  EXPECT_THAT(refused("[97, 211, 53, 10]"),
              AllOf(HasSubstr(R"(expected "F32")"), Not(HasSubstr("another model"))));
}

}  // namespace
}  // namespace acan::testing
