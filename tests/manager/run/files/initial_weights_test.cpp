// The id of a training depends on the content of its initial weights, not on their path.
#include "acan/manager/initial_weights.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <filesystem>

#include "acan/core/error.h"
#include "acan/manager/model_config.h"
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

// A standby manager may wait for days before it opens the file again.
TEST_F(InitialWeightsTest, ReplacedBeforeTheyAreReadAreRefused) {
  const std::string path = Write("start", 1);
  const Job job = HeldJob(path);
  RequireWeightsOf(job, ModelReader(path, *BuildModel(job)));
  Write("start", 2);
  ExpectError([&] { RequireWeightsOf(job, ModelReader(path, *BuildModel(job))); },
              {"model.initial_weights: " + path, "the file has changed"});
}

TEST_F(InitialWeightsTest, ChangedWhileTheyAreReadAreRefused) {
  const std::string path = Write("start", 1);
  const ModelReader reader(path, *BuildModel(JobFrom("")));
  std::array<float, 3> values{};
  reader.Read(0, 0, 0, 1, 3, values);
  const auto written = std::filesystem::last_write_time(path);
  std::filesystem::last_write_time(path, written + std::chrono::seconds(1));
  ExpectError([&] { reader.Read(0, 0, 0, 1, 3, values); },
              {path + ": was changed while it was in use"}, Error::Kind::kFailure);
}

// The shapes of tensors do not show these values.
TEST_F(InitialWeightsTest, OfAnotherModelAreRefusedIfAConfigBesideThemSaysSo) {
  Job job = JobFrom(folder_.Path("model.safetensors"));
  model::LlamaOptions llama;
  llama.vocab_size = 7;
  llama.hidden_size = 8;
  llama.intermediate_size = 8;
  llama.num_hidden_layers = 1;
  llama.num_attention_heads = 2;
  llama.max_position_embeddings = 4;
  job.model = llama;
  const auto hold = [&](nlohmann::json config) {
    folder_.Write("config.json", config.dump());
    HoldToInitialWeights(&job);
  };
  const nlohmann::json own = TransformersConfig(job.model);
  // Only now is the file of weights, which does not exist, looked at.
  ExpectError([&] { hold(own); }, {"model.safetensors: cannot open"});
  ExpectError([&] { hold({{"other", 1}}); }, {"model.safetensors: cannot open"});
  ExpectError([&] { hold({{"rope_scaling", nullptr}}); }, {"model.safetensors: cannot open"});
  const auto with = [&own](const char* field, const nlohmann::json& value) {
    nlohmann::json config = own;
    config[field] = value;
    return config;
  };
  ExpectError([&] { hold(with("rope_theta", 500000)); },
              {"model.initial_weights: " + folder_.Path("config.json"), "rope_theta = 500000",
               "the job's model has 10000"});
  ExpectError([&] { hold(with("num_attention_heads", 4)); }, {"num_attention_heads = 4"});
  ExpectError([&] { hold(with("rms_norm_eps", 1e-5)); }, {"rms_norm_eps = 1e-05"});
  ExpectError([&] { hold(with("hidden_act", "gelu")); }, {"hidden_act = \"gelu\""});
  ExpectError(
      [&] {
        hold(with("rope_scaling", {{"rope_type", "llama3"}}));
      },
      {"rope_scaling", "acan's model is that of null"});
  ExpectError(
      [&] {
        hold(with("rope_parameters", {{"rope_theta", 5e5}, {"rope_type", "default"}}));
      },
      {"rope_theta = 5"});
  // What people change for a fine-tuning, and another name of the same function.
  ExpectError([&] { hold(with("attention_dropout", 0.5)); }, {"cannot open"});
  ExpectError([&] { hold(with("hidden_act", "swish")); }, {"cannot open"});
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
