#include "acan/manager/training_id.h"

#include <gtest/gtest.h>

namespace acan {
namespace {

Job SmallJob() {
  return ParseJob(
      "[model]\nlayers = [4, 3]\n[data]\ntrain_inputs = \"x.npy\"\ntrain_labels = \"y.npy\"\n",
      "job.toml", "/jobs", {});
}

// An MLP and a GPT both have an activation, which would come first.
TEST(TrainingIdTest, TheKindIsTheFirstDifference) {
  Job gpt = SmallJob();
  gpt.model = model::GptOptions();
  EXPECT_EQ(FirstDifference(gpt, SmallJob()), "model.kind is \"gpt\", must be \"mlp\"");
}

// Runs that exist must keep their ids, or they cannot be resumed.
TEST(TrainingIdTest, TheFirstRevisionOfTheNumericsHasTheIdsFromBefore) {
  EXPECT_EQ(TrainingId(SmallJob(), "a", "b", 1), "a6515fb53731be1e");
}

TEST(TrainingIdTest, EachRevisionOfTheNumericsHasIdsOfItsOwn) {
  const std::string first = TrainingId(SmallJob(), "a", "b", 1);
  const std::string second = TrainingId(SmallJob(), "a", "b", 2);
  EXPECT_NE(second, first);
  EXPECT_NE(TrainingId(SmallJob(), "a", "b", 3), second);
  EXPECT_EQ(TrainingId(SmallJob(), "a", "b"), TrainingId(SmallJob(), "a", "b", kNumericsRevision));
}

// A receipt has the id of the arithmetic that made it, not of this program's.
TEST(TrainingIdTest, AReceiptBelongsToItsOwnRevision) {
  Receipt receipt;
  receipt.train_sha256 = "a";
  receipt.test_sha256 = "b";
  receipt.numerics_revision = kNumericsRevision + 1;
  EXPECT_EQ(TrainingIdOf(receipt, SmallJob()),
            TrainingId(SmallJob(), "a", "b", kNumericsRevision + 1));
}

TEST(TrainingIdTest, KnowsWhatDecidesTheBitsAndNothingElse) {
  const std::string job =
      "[model]\nlayers = [4, 2]\nloss = \"mse\"\n[data]\ngenerated = \"regression\"\n"
      "samples = 100\n";
  const auto id = [&](const std::string& more) {
    return TrainingId(ParseJob(job + more, "test", ".", {}), "a", "b");
  };
  EXPECT_EQ(id(""), id("[tasks]\nsize_bytes = 20000\n"));
  EXPECT_EQ(id(""), id("[snapshots]\nevery_steps = 7\n"));
  EXPECT_EQ(id(""), id("[train]\nstop_if_not_finite = false\n"));
  // The id must never change, so that snapshots of earlier versions of acan remain usable.
  EXPECT_EQ(id(""), "b6a17f48035145b9");
  EXPECT_NE(id(""), id("[train]\nseed = 2\n"));
  EXPECT_NE(id(""), id("[train]\nepochs = 2\n"));
  EXPECT_NE(TrainingId(ParseJob(job, "test", ".", {}), "a", "c"), id(""));
}

TEST(TrainingIdTest, TheFirstDifferenceIsNamed) {
  const auto job = [&](const std::string& layers, const std::string& more) {
    return ParseJob("[model]\nlayers = " + layers +
                        "\nloss = \"mse\"\n[data]\ngenerated = \"regression\"\nsamples = 100\n" +
                        more,
                    "test", ".", {});
  };
  const Job expected = job("[4, 2]", "");
  EXPECT_EQ(FirstDifference(job("[4, 2]", "[tasks]\naudit = 1\n"), expected), "");
  EXPECT_EQ(FirstDifference(job("[4, 2]", "[train]\nseed = 8\n"), expected),
            "train.seed is 8, must be 1");
  EXPECT_EQ(FirstDifference(job("[4, 3, 2]", ""), expected), "model.layers.1 is 3, must be 2");
  EXPECT_EQ(FirstDifference(job("[4, 2]", "[train]\nsteps = 8\n"), expected),
            "train.epochs is absent, must be 5");
}

}  // namespace
}  // namespace acan
