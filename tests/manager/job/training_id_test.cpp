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

}  // namespace
}  // namespace acan
