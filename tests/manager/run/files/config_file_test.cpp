// The config.json of a run keeps what that of its initial weights knows.
#include "acan/manager/config_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "acan/manager/job.h"
#include "nlohmann/json.hpp"
#include "test_files.h"

namespace acan {
namespace {

class ConfigFileTest : public ::testing::Test {
 protected:
  ConfigFileTest() {
    std::filesystem::create_directory(start_);
    std::filesystem::create_directory(out_);
    Write("start/config.json", {{"eos_token_id", 7}});
    Write("start/model.safetensors", 0);
  }

  void Write(const std::string& name, const nlohmann::json& value) const {
    folder_.Write(name, value.dump());
  }
  Job Given(const std::string& config) const {
    return ParseJob(
        "[model]\nkind = \"gpt\"\nn_layer = 1\nn_head = 2\nn_embd = 8\n"
        "initial_weights = \"start/model.safetensors\"\ninitial_weights_sha256 = \"" +
            std::string(64, 'a') +
            "\"\n[data]\ntrain_inputs = \"x\"\ntrain_labels = \"y\"\n[output]\nconfig = \"" +
            config + "\"\n",
        "job.toml", folder_.path(), {});
  }
  nlohmann::json EndOfText() const {
    std::ifstream file(out_ + "/config.json");
    return nlohmann::json::parse(file).at("eos_token_id");
  }

  const TestFolder folder_;
  const std::string start_ = folder_.Path("start");
  const std::string out_ = folder_.Path("out");
};

TEST_F(ConfigFileTest, KeepsTheNamesAfterTheWeightsAreGone) {
  ConfigFile file(Given("transformers"));
  std::filesystem::remove_all(start_);
  EXPECT_EQ(file.Begin(out_, false), "");
  EXPECT_EQ(EndOfText(), 7);
  std::filesystem::remove(out_ + "/config.json");
  file.Write(out_);
  EXPECT_EQ(EndOfText(), 7);
}

TEST_F(ConfigFileTest, OfARunThatIsResumedHasTheSameNames) {
  const Job job = Given("transformers");
  ConfigFile(job).Begin(out_, false);
  Write("out/job.json", JobToJson(job));
  Write("start/config.json", {{"eos_token_id", 8}});
  EXPECT_EQ(ConfigFile(job).Begin(out_, true), "");
  EXPECT_EQ(EndOfText(), 7);
  std::filesystem::remove_all(start_);
  EXPECT_EQ(ConfigFile(job).Begin(out_, true), "");
  EXPECT_EQ(EndOfText(), 7);
}

TEST_F(ConfigFileTest, OfAnotherRunIsNotTaken) {
  const Job job = Given("transformers");
  Write("out/config.json", {{"eos_token_id", 9}});
  ConfigFile(job).Begin(out_, true);
  EXPECT_EQ(EndOfText(), 7);
  Write("out/job.json", JobToJson(job));
  Write("out/config.json", {{"eos_token_id", 9}});
  ConfigFile(job).Begin(out_, false);
  EXPECT_EQ(EndOfText(), 7);
}

TEST_F(ConfigFileTest, WithoutTheNamesSaysSo) {
  std::filesystem::remove_all(start_);
  const std::string warning = ConfigFile(Given("transformers")).Begin(out_, true);
  EXPECT_NE(warning.find(start_ + "/model.safetensors is gone"), std::string::npos) << warning;
  EXPECT_TRUE(EndOfText().is_null());
}

TEST_F(ConfigFileTest, IsRemovedIfTheJobRequestsNone) {
  Write("out/config.json", {{"eos_token_id", 9}});
  ConfigFile file(Given("none"));
  EXPECT_EQ(file.Begin(out_, false), "");
  file.Write(out_);
  EXPECT_FALSE(std::filesystem::exists(out_ + "/config.json"));
}

}  // namespace
}  // namespace acan
