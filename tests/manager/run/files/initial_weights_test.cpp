// The id of a training depends on the content of its initial weights, not on their path.
#include "acan/manager/initial_weights.h"

#include <gtest/gtest.h>

#include <array>
#include <filesystem>

#include "acan/core/error.h"
#include "acan/manager/model_file.h"
#include "acan/manager/training_id.h"
#include "nlohmann/json.hpp"
#include "test_files.h"

namespace acan {
namespace {

Job JobFrom(const std::string& weights) {
  Job job;
  job.model = Model{{2, 3}};
  job.initial_weights = weights;
  job.data.train_inputs = "/inputs";
  job.data.train_targets = "/labels";
  return job;
}

Job HeldJob(const std::string& weights) {
  Job job = JobFrom(weights);
  HoldToInitialWeights(&job);
  return job;
}

std::string IdOf(const Job& job) {
  return TrainingId(job, "a", "b");
}

class InitialWeightsTest : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, float first) const {
    const std::string path = folder_.Path(name);
    ModelWriter writer(path, *BuildModel(JobFrom("")));
    writer.Write(0, 0, 0, 1, 3, std::array{first, 0.0f, 0.0f});  // biases come first by name
    writer.Write(1, 0, 0, 3, 2, std::array{1.0f, 2.0f, 3.0f, 4.0f, 5.0f, 6.0f});
    writer.Finish();
    return path;
  }

  const TestFolder folder_;
};

TEST_F(InitialWeightsTest, AreAPartOfTheIdAndTheirPathIsNot) {
  const std::string id = IdOf(HeldJob(Write("one", 1)));
  EXPECT_EQ(IdOf(HeldJob(Write("elsewhere", 1))), id);
  EXPECT_NE(IdOf(HeldJob(Write("one", 2))), id);
  EXPECT_NE(IdOf(JobFrom("")), id);
}

TEST_F(InitialWeightsTest, OfARunThatHasBegunStayTheSame) {
  const std::string path = Write("start", 1);
  const Job begun = JobFromJson(JobToJson(HeldJob(path)), "job.json");
  EXPECT_EQ(IdOf(begun), IdOf(HeldJob(path)));
  Job same = begun;
  EXPECT_NO_THROW(HoldToInitialWeights(&same));
  Write("start", 2);
  Job changed = begun;
  try {
    HoldToInitialWeights(&changed);
    ADD_FAILURE() << "other weights were accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(path + ": the file has changed"), std::string::npos)
        << error.what();
  }
  // A job that continues from a snapshot does not need them.
  std::filesystem::remove(path);
  Job moved = begun;
  HoldToInitialWeights(&moved);
  EXPECT_EQ(IdOf(moved), IdOf(begun));
}

TEST_F(InitialWeightsTest, AreNamedWhereTheyAreMissing) {
  Job job = JobFrom(folder_.Path("none"));
  try {
    HoldToInitialWeights(&job);
    ADD_FAILURE() << "a missing file was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("model.initial_weights: "), 0u) << error.what();
  }
}

}  // namespace
}  // namespace acan
