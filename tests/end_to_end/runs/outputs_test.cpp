// The outputs of a run: model, metrics and receipt agree with each other and with later
// evaluations.
#include <cstring>
#include <filesystem>
#include <numeric>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ragged_job.h"

namespace acan::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Outputs : public ::testing::Test {
 protected:
  Outputs() : job_(WriteRaggedJob(folder_)), out_(folder_ / "out") {
    receipt_ = Train(job_, out_, {"--handlers", "2xcpu:1@64MiB", "--set", "train.epochs=8"});
  }

  TestFolder folder_;
  std::string job_;
  std::string out_;
  nlohmann::json receipt_;
};

TEST_F(Outputs, AgreeWithEachOther) {
  ASSERT_TRUE(receipt_.is_object());
  EXPECT_EQ(nlohmann::json::parse(ReadFile(out_ + "/receipt.json")), receipt_);
  EXPECT_EQ(receipt_["weights_sha256"], HashOfModelFile(out_ + "/model.safetensors"));
  EXPECT_EQ(receipt_["steps"], 72);  // 300 samples in batches of 37 make 9 steps; 8 epochs
  EXPECT_EQ(receipt_["handlers"].size(), 2u);

  std::vector<double> losses;
  std::istringstream lines(ReadFile(out_ + "/metrics.jsonl"));
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json metrics = nlohmann::json::parse(line);
    if (metrics.contains("loss")) losses.push_back(metrics["loss"]);
  }
  ASSERT_EQ(losses.size(), 72u);
  const auto mean_of_epoch = [&losses](std::ptrdiff_t epoch) {
    return std::accumulate(losses.begin() + 9 * epoch, losses.begin() + 9 * epoch + 9, 0.0) / 9;
  };
  EXPECT_LT(mean_of_epoch(7), mean_of_epoch(0));
}

TEST_F(Outputs, ModelLearnsAndEvaluatesToTheReceiptsAccuracy) {
  ASSERT_TRUE(receipt_.is_object());
  EXPECT_GT(receipt_["test_accuracy"].get<double>(), 0.5);
  const Result eval = RunAcan({"eval", job_, "--model", out_ + "/model.safetensors", "--handlers",
                               "cpu:1@64MiB", "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  const nlohmann::json evaluated = nlohmann::json::parse(LastLine(eval.out));
  EXPECT_EQ(evaluated["test_accuracy"], receipt_["test_accuracy"]);
  EXPECT_EQ(evaluated["test_loss"], receipt_["test_loss"]);
  EXPECT_EQ(evaluated["weights_sha256"], receipt_["weights_sha256"]);
}

TEST_F(Outputs, EvalTakesOtherData) {
  const Result eval = RunAcan({"eval", job_, "--model", out_ + "/model.safetensors", "--handlers",
                               "cpu:1@64MiB", "--inputs", folder_ / "train-inputs", "--targets",
                               folder_ / "train-labels", "--json"});
  ASSERT_EQ(eval.code, 0) << eval.err;
  EXPECT_TRUE(nlohmann::json::parse(LastLine(eval.out))["test_accuracy"].is_number());
  const Result other = RunAcan(
      {"eval", job_, "--model", out_ + "/model.safetensors", "--set", "model.layers=[97, 64, 10]"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, AllOf(HasSubstr("which the model lacks (the first is 'layers.2.bias')"),
                               HasSubstr(job_)));
}

TEST_F(Outputs, EvalNamesAPathThatItsReceiptCannotHave) {
  std::filesystem::create_directory(folder_ / "caf\xe9");
  const std::string model =
      folder_.Write("caf\xe9/m.safetensors", ReadFile(out_ + "/model.safetensors"));
  const Result eval = RunAcan({"eval", job_, "--model", model, "--json"});
  EXPECT_EQ(eval.code, 2);
  EXPECT_THAT(eval.err, AllOf(HasSubstr("--model " + model), HasSubstr("is not UTF-8")));
}

// Initial weights are checked before anything of the previous run is removed.
TEST_F(Outputs, AJobWhoseInitialWeightsAreWrongLeavesThemAlone) {
  std::filesystem::create_directory(out_ + "/snapshots");
  const std::string snapshot =
      folder_.Write("out/snapshots/step-000000000009.safetensors", "of a run before");
  const std::string receipt = ReadFile(out_ + "/receipt.json");
  const std::string metrics = ReadFile(out_ + "/metrics.jsonl");
  const auto refused = [&](const std::string& weights, const std::string& layers) {
    const Result result =
        RunAcan({"train", job_, "--out", out_, "--handlers", "cpu:1@64MiB", "--set",
                 "model.initial_weights=" + weights, "--set", "model.layers=" + layers});
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_EQ(ReadFile(out_ + "/receipt.json"), receipt);
    EXPECT_EQ(ReadFile(out_ + "/metrics.jsonl"), metrics);
    EXPECT_EQ(ReadFile(snapshot), "of a run before");
    return result.err;
  };
  EXPECT_THAT(refused(folder_ / "nowhere", "[97, 211, 53, 10]"), HasSubstr(folder_ / "nowhere"));
  EXPECT_THAT(refused(out_ + "/model.safetensors", "[97, 64, 10]"),
              AllOf(HasSubstr("model.initial_weights"), HasSubstr("'layers.2.bias'")));
  EXPECT_THAT(refused(job_, "[97, 211, 53, 10]"), HasSubstr(job_));
}

TEST_F(Outputs, WhatKilledManagersLeftUnfinishedGoes) {
  for (const char* name : {"model.safetensors", "metrics.jsonl", "job.json", "receipt.json"}) {
    folder_.Write("out/" + std::string(name) + ".1.0.tmp", "unfinished");
  }
  ASSERT_TRUE(Train(job_, out_, {"--handlers", "cpu:1@64MiB"}).is_object());
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(out_)) {
    names.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("model.safetensors", "metrics.jsonl",
                                                     "job.json", "receipt.json", "tuning.jsonl"));
}

// Files of an earlier run do not remain beside those of this run.
TEST_F(Outputs, OfAnEarlierRunGo) {
  folder_.Write("out/config.json", "of a model with other heads");
  folder_.Write("out/vocabulary.json", "of another text");
  ASSERT_TRUE(Train(job_, out_, {"--handlers", "cpu:1@64MiB"}).is_object());
  EXPECT_FALSE(std::filesystem::exists(out_ + "/config.json"));
  EXPECT_FALSE(std::filesystem::exists(out_ + "/vocabulary.json"));
}

// Under any name, including links: the job would lose its inputs.
TEST_F(Outputs, CannotReplaceWhatTheJobReads) {
  const std::string model = ReadFile(out_ + "/model.safetensors");
  std::filesystem::create_directory(out_ + "/snapshots");
  std::filesystem::copy(out_ + "/model.safetensors", out_ + "/snapshots/kept.safetensors");
  std::filesystem::create_symlink(out_, folder_ / "link");
  std::filesystem::create_symlink(out_ + "/model.safetensors", folder_ / "link.safetensors");
  std::filesystem::create_hard_link(out_ + "/model.safetensors", folder_ / "hard.safetensors");
  for (const char* weights : {"out/model.safetensors", "out/snapshots/kept.safetensors",
                              "link/model.safetensors", "link.safetensors", "hard.safetensors"}) {
    const Result result = RunAcan({"train", job_, "--out", out_, "--handlers", "cpu:1@64MiB",
                                   "--set", "model.initial_weights=" + (folder_ / weights)});
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_THAT(result.err, AllOf(HasSubstr("model.initial_weights: " + (folder_ / weights)),
                                  HasSubstr("choose another --out")));
  }
  std::filesystem::rename(folder_ / "train-inputs", out_ + "/metrics.jsonl");
  const Result data = RunAcan({"train", job_, "--out", out_, "--handlers", "cpu:1@64MiB", "--set",
                               "data.train_inputs=" + out_ + "/metrics.jsonl"});
  EXPECT_EQ(data.code, 2) << data.out;
  EXPECT_THAT(data.err, HasSubstr("data.train_inputs: " + out_ + "/metrics.jsonl is the file"));
  EXPECT_EQ(ReadFile(out_ + "/model.safetensors"), model);
  EXPECT_EQ(ReadFile(out_ + "/snapshots/kept.safetensors"), model);
  // Another --out does not replace them.
  const Result result =
      RunAcan({"train", job_, "--out", folder_ / "next", "--handlers", "cpu:1@64MiB", "--set",
               "model.initial_weights=" + out_ + "/model.safetensors", "--set",
               "data.train_inputs=" + out_ + "/metrics.jsonl"});
  EXPECT_EQ(result.code, 0) << result.err;
}

// They may be the only copies. Units pass --resume at the first start, too.
TEST_F(Outputs, DoNotReplaceWhatDescribesInitialWeights) {
  const std::string start =
      folder_.Write("next/start.safetensors", ReadFile(out_ + "/model.safetensors"));
  const std::string vocabulary = folder_.Write("next/vocabulary.json", "{}");
  for (const char* flag : {"--out", "--resume"}) {
    const Result result = RunAcan({"train", job_, flag, folder_ / "next", "--handlers",
                                   "cpu:1@64MiB", "--set", "model.initial_weights=" + start});
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_THAT(result.err, HasSubstr(vocabulary + " describes these weights"));
    EXPECT_EQ(ReadFile(vocabulary), "{}");
  }
}

TEST_F(Outputs, OfARunThatIsDoneStayAsTheyAre) {
  const std::string receipt = ReadFile(out_ + "/receipt.json");
  const auto resume = [&](const std::vector<std::string>& more, const Environment& environment) {
    std::vector<std::string> words = {"train", "--resume", out_, "--handlers", "cpu:1@64MiB"};
    words.insert(words.end(), more.begin(), more.end());
    const Result result = RunAcan(words, environment);
    EXPECT_EQ(ReadFile(out_ + "/receipt.json"), receipt);
    EXPECT_THAT(result.out, Not(HasSubstr("wrote")));
    return result;
  };
  const auto refused = [&](const std::vector<std::string>& more, const std::string& why,
                           const Environment& environment = {}) {
    const Result result = resume(more, environment);
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_THAT(result.err, HasSubstr(why));
  };
  const std::string cannot = "--resume cannot extend or change";
  refused({job_, "--set", "train.epochs=9"}, cannot);
  refused({job_, "--set", "train.epochs=8", "--set", "train.seed=6"}, cannot);
  refused({job_, "--set", "train.epochs=9"},
          "model.initial_weights = \"" + out_ + "/model.safetensors\"");
  refused({folder_ / "nowhere.toml"}, "nowhere.toml");
  refused({job_, "--set", "train.epoch=8"}, "epochs");
  refused({"--set", "train.epochs=9"}, "--set needs the job file");
  refused({}, "ACAN_SET (here train.epochs=9) needs the job file",
          {{"ACAN_SET", "train.epochs=9"}});
  for (const std::vector<std::string>& same :
       {std::vector<std::string>{}, {job_, "--set", "train.epochs=8", "--set", "tasks.pouch=3"}}) {
    const Result result = resume(same, {});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("is done already"));
  }
}

TEST_F(Outputs, Verify) {
  const Result equal = RunAcan({"verify", out_});
  EXPECT_EQ(equal.code, 0) << equal.err;
  EXPECT_THAT(equal.out, AllOf(HasSubstr("equal"), Not(HasSubstr("DIFFERENT"))));

  const Result again = RunAcan({"verify", out_ + "/receipt.json", "--rerun"});
  EXPECT_EQ(again.code, 0) << again.out << again.err;
  EXPECT_THAT(again.out, HasSubstr("second training"));

  std::string model = ReadFile(out_ + "/model.safetensors");
  model.back() = static_cast<char>(model.back() ^ 1);
  folder_.Write("out/model.safetensors", model);
  const Result changed = RunAcan({"verify", out_});
  EXPECT_EQ(changed.code, 1);
  EXPECT_THAT(changed.out, AllOf(HasSubstr("DIFFERENT"), HasSubstr("weights_sha256")));
}

TEST_F(Outputs, AModelThatIsLostIsNotDone) {
  const std::string model = out_ + "/model.safetensors";
  std::filesystem::resize_file(model, std::filesystem::file_size(model) - 1);
  const Result verified = RunAcan({"verify", out_});
  EXPECT_EQ(verified.code, 1) << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("DIFFERENT  tensors of " + model));
  const auto expect_failure = [&](const Result& result) {
    EXPECT_EQ(result.code, 1) << result.out;
    EXPECT_THAT(result.err, AllOf(HasSubstr("done already, but the file of its weights is missing"),
                                  HasSubstr(model), HasSubstr("without --resume")));
  };
  expect_failure(RunAcan({"train", "--resume", out_}));
  std::filesystem::remove(model);
  expect_failure(RunAcan({"train", "--resume", out_}));
  const Result again = RunAcan(
      {"train", job_, "--out", out_, "--handlers", "cpu:1@64MiB", "--set", "train.epochs=8"});
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(RunAcan({"verify", out_}).code, 0);
}

// Initial weights may have such a tensor, which transformers' classes recreate.
TEST_F(Outputs, VerifySaysThatATensorWasAdded) {
  const std::string model = ReadFile(out_ + "/model.safetensors");
  std::uint64_t length = 0;
  std::memcpy(&length, model.data(), sizeof(length));
  auto header = nlohmann::json::parse(model.substr(8, length));
  const std::size_t data_bytes = model.size() - 8 - length;
  header["layers.0.weight.state0"] = {
      {"dtype", "F32"}, {"shape", {1}}, {"data_offsets", {data_bytes, data_bytes + 4}}};
  const std::string text = header.dump();
  length = text.size();
  std::string more(8, '\0');
  std::memcpy(more.data(), &length, sizeof(length));
  more += text + model.substr(model.size() - data_bytes) + std::string(4, '\0');
  folder_.Write("out/model.safetensors", more);
  const Result result = RunAcan({"verify", out_});
  EXPECT_EQ(result.code, 1) << result.out;
  EXPECT_THAT(result.out, AllOf(HasSubstr("DIFFERENT  tensors of"),
                                HasSubstr("no run writes 'layers.0.weight.state0'")));
}

TEST_F(Outputs, VerifySaysThatAReceiptWasChanged) {
  nlohmann::json receipt = receipt_;
  receipt["test_loss"] = receipt["test_loss"].get<double>() / 2;
  folder_.Write("out/receipt.json", receipt.dump(2));
  const Result result = RunAcan({"verify", out_});
  EXPECT_EQ(result.code, 1) << result.out;
  EXPECT_THAT(result.out,
              HasSubstr("DIFFERENT  " + out_ + "/receipt.json: was changed after it was written"));
  // The weights are still right.
  EXPECT_THAT(result.out, HasSubstr("equal      weights_sha256"));
}

TEST_F(Outputs, VerifyTakesReceiptsWithoutAHash) {
  nlohmann::json receipt = receipt_;
  receipt.erase("receipt_sha256");
  folder_.Write("out/receipt.json", receipt.dump(2));
  const Result result = RunAcan({"verify", out_});
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_THAT(result.out, AllOf(HasSubstr("unchecked  " + out_ + "/receipt.json"),
                                HasSubstr("an earlier version of acan")));
}

// Someone who edits a receipt can also remove its hash.
TEST_F(Outputs, TrainingAgainNamesEachFieldThatWasEdited) {
  nlohmann::json receipt = receipt_;
  receipt.erase("receipt_sha256");
  receipt["test_loss"] = receipt["test_loss"].get<double>() / 2;
  receipt["test_accuracy"] = 1.0;
  receipt["final_train_loss"] = nullptr;
  receipt["steps"] = 73;
  receipt["epochs"] = 9;
  receipt["audits"]["share"] = 0.5;
  receipt["data"]["test_sha256"] = nullptr;
  receipt["data"]["train_samples"] = 999999;
  receipt["test_perplexity"] = 1.01;
  folder_.Write("out/receipt.json", receipt.dump(2));
  const Result result = RunAcan({"verify", out_, "--rerun"});
  EXPECT_EQ(result.code, 1) << result.out;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("DIFFERENT  data/train_samples of the second training: 300, "
                              "the receipt says 999999"),
                    HasSubstr("DIFFERENT  test_perplexity of the second training: null, "
                              "the receipt says 1.01")));
  for (const char* field : {"test_loss", "test_accuracy", "final_train_loss", "steps", "epochs"}) {
    EXPECT_THAT(result.out, HasSubstr("DIFFERENT  " + std::string(field) +
                                      " of the second training: " + receipt_[field].dump()));
  }
  EXPECT_THAT(result.out, HasSubstr("DIFFERENT  audits/share of the second training: 0.0"));
  EXPECT_THAT(result.out, AllOf(HasSubstr("DIFFERENT  test data"), HasSubstr("says none"),
                                HasSubstr("equal      weights_sha256 of the second training")));
}

TEST_F(Outputs, VerifySaysWhatReceiptsOfEarlierVersionsLack) {
  nlohmann::json receipt = receipt_;
  receipt.erase("receipt_sha256");
  receipt["data"].erase("train_samples");
  folder_.Write("out/receipt.json", receipt.dump(2));
  const Result result = RunAcan({"verify", out_, "--rerun"});
  EXPECT_EQ(result.code, 0) << result.out;
  EXPECT_THAT(result.out,
              AllOf(HasSubstr("unchecked  data/train_samples of the second training: 300; "),
                    Not(HasSubstr("test_perplexity"))));
}

// The fast products of the CPU are exact, so the bits are equal; the edited receipt stands in for
// one of another device.
TEST_F(Outputs, VerifySaysWhatFastPrecisionPromises) {
  nlohmann::json receipt =
      Train(job_, out_, {"--handlers", "cpu:1@64MiB", "--set", "train.precision=fast"});
  ASSERT_TRUE(receipt.is_object());
  receipt.erase("receipt_sha256");
  receipt["test_loss"] = receipt["test_loss"].get<double>() * 1.000001;
  folder_.Write("out/receipt.json", receipt.dump(2));
  const Result result = RunAcan({"verify", out_, "--rerun", "--handlers", "cpu:1@64MiB"});
  EXPECT_EQ(result.code, 1) << result.out;
  EXPECT_THAT(result.out, AllOf(HasSubstr("DIFFERENT  test_loss of the second training"),
                                HasSubstr("\"fast\", which does not promise equal bits")));
}

TEST_F(Outputs, VerifyNamesOtherNumerics) {
  nlohmann::json receipt = receipt_;
  receipt.erase("receipt_sha256");
  receipt["numerics_revision"] = 1000;
  receipt["test_loss"] = receipt["test_loss"].get<double>() * 1.000001;
  folder_.Write("out/receipt.json", receipt.dump(2));
  const Result result = RunAcan({"verify", out_, "--rerun"});
  EXPECT_EQ(result.code, 1) << result.out;
  EXPECT_THAT(result.out, HasSubstr("the receipt is of numerics revision 1000"));
  const Result resumed = RunAcan({"train", job_, "--resume", out_, "--handlers", "cpu:1"});
  EXPECT_EQ(resumed.code, 2);
  EXPECT_THAT(resumed.err, HasSubstr("another revision of the numerics"));
}

TEST_F(Outputs, VerifyNamesDataThatChanged) {
  std::string labels = ReadFile(folder_ / "train-labels");
  labels.back() = static_cast<char>(labels.back() == 0 ? 1 : 0);
  folder_.Write("train-labels", labels);
  const Result result = RunAcan({"verify", out_, "--rerun"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, AllOf(HasSubstr("DIFFERENT  training data"),
                                HasSubstr("DIFFERENT  weights_sha256 of the second training")));
}

// The receipt has the paths of the machine that trained.
TEST_F(Outputs, VerifyTrainsAgainWhereTheDataIsElsewhere) {
  for (const char* file : {"train-inputs", "train-labels", "test-inputs", "test-labels"}) {
    std::filesystem::create_directory(folder_ / "moved");
    std::filesystem::rename(folder_ / file, folder_ / ("moved/" + std::string(file)));
  }
  const Result lost = RunAcan({"verify", out_, "--rerun"});
  EXPECT_EQ(lost.code, 2);
  EXPECT_THAT(lost.err, AllOf(HasSubstr("train-inputs"), HasSubstr("--rerun --job JOB.toml")));

  std::filesystem::rename(job_, folder_ / "moved/job.toml");
  const std::vector<std::string> rerun = {"verify", out_, "--rerun", "--job",
                                          folder_ / "moved/job.toml"};
  std::vector<std::string> right = rerun;
  right.insert(right.end(), {"--set", "train.epochs=8", "--set", "tasks.audit=0.5"});
  const Result equal = RunAcan(right);
  EXPECT_EQ(equal.code, 0) << equal.out << equal.err;
  EXPECT_THAT(equal.out, HasSubstr("equal      weights_sha256 of the second training"));

  std::vector<std::string> other = rerun;
  other.insert(other.end(), {"--set", "train.epochs=8", "--set", "train.seed=77"});
  const Result refused = RunAcan(other);
  EXPECT_EQ(refused.code, 2) << refused.out;
  EXPECT_THAT(refused.err, AllOf(HasSubstr("moved/job.toml"), HasSubstr(out_ + "/receipt.json"),
                                 HasSubstr("train.seed is 77, must be ")));
}

TEST_F(Outputs, NeedTheInitialWeightsOfTheRunAndSayHowToNameThem) {
  const std::string start =
      folder_.Write("start.safetensors", ReadFile(out_ + "/model.safetensors"));
  const std::string next = folder_ / "next";
  const nlohmann::json receipt =
      Train(job_, next, {"--handlers", "cpu:1@64MiB", "--set", "model.initial_weights=" + start});
  ASSERT_TRUE(receipt.is_object());
  std::filesystem::remove(start);
  const auto refused = [&start](const std::vector<std::string>& words, const std::string& advice) {
    const Result result = RunAcan(words);
    EXPECT_EQ(result.code, 2) << result.out;
    EXPECT_THAT(result.err, AllOf(HasSubstr("model.initial_weights: " + start), HasSubstr(advice)));
  };
  refused({"verify", next, "--rerun"}, "--rerun --job JOB.toml");
  // As after a kill before the first snapshot.
  std::filesystem::remove(next + "/receipt.json");
  std::filesystem::remove_all(next + "/snapshots");
  refused({"train", "--resume", next}, "acan train JOB.toml --resume " + next);
}

TEST_F(Outputs, VerifyNeedsAReceipt) {
  const Result result = RunAcan({"verify", folder_ / "nothing"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr(folder_ / "nothing"));
}

}  // namespace
}  // namespace acan::testing
