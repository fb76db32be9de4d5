// What a run leaves: model, metrics and receipt agree with each other and with later evaluations.
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
  EXPECT_EQ(HashOfModelFile(out_ + "/model.safetensors"), receipt_["weights_sha256"]);
  EXPECT_EQ(receipt_["steps"], 72);  // 300 samples in batches of 37 are 9 steps; 8 epochs
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
  EXPECT_THAT(other.err, AllOf(HasSubstr("97, 211, 53, 10"), HasSubstr("97, 64, 10")));
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

TEST_F(Outputs, VerifyNamesDataThatChanged) {
  std::string labels = ReadFile(folder_ / "train-labels");
  labels.back() = static_cast<char>(labels.back() == 0 ? 1 : 0);
  folder_.Write("train-labels", labels);
  const Result result = RunAcan({"verify", out_, "--rerun"});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.out, AllOf(HasSubstr("DIFFERENT  training data"),
                                HasSubstr("DIFFERENT  weights_sha256 of the second training")));
}

TEST_F(Outputs, VerifyNeedsAReceipt) {
  const Result result = RunAcan({"verify", folder_ / "nothing"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr(folder_ / "nothing"));
}

}  // namespace
}  // namespace acan::testing
