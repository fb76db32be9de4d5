// Jobs whose model is a file with a graph.
#include <gtest/gtest.h>

#include <cctype>
#include <string>

#include "acan/manager/job.h"
#include "acan/manager/trained_model.h"
#include "acan/manager/training_id.h"
#include "job_model_cases.h"
#include "nlohmann/json.hpp"
#include "test_files.h"

namespace acan {
namespace {

Job ParseGraph(const std::string& path, const std::string& more = "") {
  return ParseModel("kind = \"graph\"\nfile = \"" + path + "\"\n" + more);
}

TEST(GraphFileJobTest, TheJobHasTheFileAsItWas) {
  const TestFolder folder;
  const Job preset = ParseModel(ModelKindCases()[0].model);
  const std::string path = folder.Write("net.json", GraphTextOf(preset));
  const Job job = ParseGraph(path);
  EXPECT_EQ(model::Dump(BuildModel(job)->training), model::Dump(BuildModel(preset)->training));
  EXPECT_EQ(model::Dump(BuildModel(job)->evaluation), model::Dump(BuildModel(preset)->evaluation));
  EXPECT_EQ(BuildModel(job)->kind, "graph");
  const nlohmann::json json = JobToJson(job).at("model");
  EXPECT_EQ(json.at("file"), path);
  EXPECT_EQ(JobToJson(ParseJob(JobToToml(job), "again", "/", {})), JobToJson(job));
  EXPECT_EQ(JobToJson(JobFromJson(JobToJson(job), "receipt.json")), JobToJson(job));
  // The id depends on the file's content, not on its path.
  const auto id = [](const Job& of) { return TrainingId(of, "a", "b"); };
  EXPECT_EQ(id(ParseGraph(folder.Write("moved.json", GraphTextOf(preset)))), id(job));
  EXPECT_NE(id(ParseGraph(folder.Write("other.json", GraphTextOf(preset) + "\n"))), id(job));
  folder.Write("net.json", GraphTextOf(preset) + "\n");
  EXPECT_EQ(GraphTextOf(job), GraphTextOf(preset));
  ExpectError([&] { JobFromJson(JobToJson(job), "receipt.json"); },
              {path + ": the file has changed: its SHA-256 is ", json.at("file_sha256")});
}

TEST(GraphFileJobTest, ARunHasItsCopyOfAFileThatWasEditedSince) {
  const TestFolder folder;
  const std::string graph = GraphTextOf(ParseModel(ModelKindCases()[0].model));
  const Job job = ParseGraph(folder.Write("net.json", graph));
  folder.Write("net.json", "of the next experiment");
  const std::string kept = folder.Path("job.json");
  ExpectError([&] { JobFromJson(JobToJson(job), kept); }, {"net.json: the file has changed"});
  folder.Write("graph.json", graph);
  const Job again = JobFromJson(JobToJson(job), kept);
  EXPECT_EQ(JobToJson(again), JobToJson(job));
  EXPECT_EQ(GraphTextOf(again), graph);
}

TEST(GraphFileJobTest, HashesAreOf64Digits) {
  const TestFolder folder;
  const std::string path =
      folder.Write("net.json", GraphTextOf(ParseModel(ModelKindCases()[0].model)));
  const auto sha256 = JobToJson(ParseGraph(path)).at("model").at("file_sha256").get<std::string>();
  const auto with = [&](const std::string& digits) {
    return ParseGraph(path, "file_sha256 = \"" + digits + "\"\n");
  };
  std::string upper = sha256;
  for (char& c : upper) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  EXPECT_EQ(JobToJson(with(upper)), JobToJson(with(sha256)));
  ExpectError([&] { with(std::string(64, '0')); }, {"the file has changed"});
  for (const std::string& wrong : {std::string(), std::string("ABC"), sha256.substr(1) + "g"}) {
    ExpectError([&] { with(wrong); },
                {"model.file_sha256 = \"" + wrong.substr(0, 40), "64 hexadecimal"});
    ExpectModelRefused(
        "layers = [4, 2]\ninitial_weights = \"w\"\ninitial_weights_sha256 = \"" + wrong + "\"\n",
        {"model.initial_weights_sha256", "64 hexadecimal"});
  }
}

TEST(GraphFileJobTest, MistakesAreNamed) {
  const TestFolder folder;
  ExpectModelRefused("kind = \"graph\"\n", {"job.toml has no model.file"});
  ExpectModelRefused("kind = \"gpt\"\nfile = \"x\"\n", {"model.file", "kind = \"graph\""});
  ExpectModelRefused("kind = \"graph\"\nfile = \"x\"\nn_layer = 2\n", {"model.n_layer"});
  ExpectError([&] { ParseGraph(folder.Path("none.json")); }, {"none.json: cannot open"});
  ExpectError([&] { ParseGraph(folder.path()); }, {"is a directory"});
  const std::string path = folder.Write("net.json", "{\"format\": \"acan-graph-1\"}");
  ExpectError([&] { ParseGraph(path); }, {path + ": 'inputs' is missing"});
  // A job whose loss depends on no parameter is refused.
  folder.Write("net.json", R"({"format": "acan-graph-1",
    "inputs": [{"name": "x", "role": "numbers"}, {"name": "targets", "role": "targets"}],
    "parameters": [], "outputs": {},
    "nodes": [{"name": "loss", "operator": "squared_error", "inputs": ["x", "targets"]}],
    "loss": "loss"})");
  ExpectError([&] { ParseGraph(path); }, {"job.toml: the model has no parameter to train"});
}

// Which parameters are frozen is in the job, but the mistake is in the file.
TEST(GraphFileJobTest, WhatCannotBeTrainedIsNamedWithItsFile) {
  const TestFolder folder;
  const auto path = [&](const std::string& parameters, const std::string& nodes) {
    return folder.Write("net.json", R"({"format": "acan-graph-1",
      "inputs": [{"name": "x", "role": "numbers", "features": 4},
                 {"name": "labels", "role": "labels", "bound": 4}],
      "parameters": [{"name": "w", "role": "matrix", "rows": 4, "columns": 4,
                      "initial": {"constant": 0}}, )" +
                                        parameters + R"(],
      "nodes": [{"name": "y", "operator": "linear", "inputs": ["x", "w"]}, )" +
                                        nodes + R"(,
                {"name": "loss", "operator": "cross_entropy", "inputs": ["y", "labels"]}],
      "outputs": {"y": "y", "n": "n"}, "loss": "loss"})");
  };
  const std::string unread = path(
      R"({"name": "p", "role": "matrix", "rows": 4, "columns": 4, "initial": {"constant": 0}})",
      R"({"name": "n", "operator": "linear", "inputs": ["x", "p"]})");
  ExpectError([&] { ParseGraph(unread); },
              {"job.toml: " + unread + ": parameter 'p': the loss does not depend on it",
               "freeze it (train.freeze), or leave it out"});
  EXPECT_NO_THROW(
      ParseModel("kind = \"graph\"\nfile = \"" + unread + "\"\n", "[train]\nfreeze = [\"p\"]\n"));
}

TEST(GraphFileJobTest, ATrainedMeanIsNamedWithItsFile) {
  const TestFolder folder;
  const auto vector = [](const std::string& name, const std::string& role) {
    return R"({"name": ")" + name + R"(", "role": ")" + role +
           R"(", "columns": 4, "initial": {"constant": 1}})";
  };
  const std::string path = folder.Write("net.json", R"({"format": "acan-graph-1",
      "inputs": [{"name": "x", "role": "numbers", "features": 4},
                 {"name": "labels", "role": "labels", "bound": 4}],
      "parameters": [)" + vector("s", "scale") + ", " + vector("b", "bias") +
                                                        ", " + vector("m", "bias") + ", " +
                                                        vector("v", "statistic") + R"(],
      "nodes": [{"name": "n", "operator": "batch_norm_inference",
                 "inputs": ["x", "s", "b", "m", "v"]},
                {"name": "loss", "operator": "cross_entropy", "inputs": ["n", "labels"]}],
      "outputs": {}, "loss": "loss"})");
  ExpectError([&] { ParseGraph(path); },
              {"job.toml: " + path +
               ": node 'n' (batch_norm_inference): there is no gradient of a "
               "mean or a variance that is trained"});
}

TEST(GraphFileJobTest, TheLossSaysWhatTheDataAre) {
  const TestFolder folder;
  Job of_values;
  of_values.model = Perceptron{.layers = {4, 3}, .loss = Loss::kMeanSquaredError};
  const std::string path = folder.Write("net.json", GraphTextOf(of_values));
  const std::string model = "[model]\nkind = \"graph\"\nfile = \"" + path + "\"\n";
  EXPECT_EQ(
      ParseJob(model + "[data]\ngenerated = \"regression\"\nsamples = 9\n", "job.toml", "/jobs", {})
          .loss(),
      Loss::kMeanSquaredError);
  ExpectError([&] { ParseGraph(path); }, {"data.train_labels"});
}

}  // namespace
}  // namespace acan
