// The id of a training depends on the content of its initial weights, not on their path.
#include "acan/manager/initial_weights.h"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/error.h"
#include "acan/manager/model_config.h"
#include "acan/manager/model_file.h"
#include "acan/manager/output_names.h"
#include "acan/manager/overwritten_inputs.h"
#include "acan/manager/training_id.h"
#include "descriptor_limit.h"
#include "graph_files.h"
#include "nlohmann/json.hpp"
#include "test_files.h"

namespace acan {
namespace {

Job JobFrom(const std::string& weights) {
  Job job;
  job.model = Perceptron{{2, 3}};
  job.initial_weights = weights;
  job.data.train_inputs = "/inputs";
  job.data.train_targets = "/labels";
  return job;
}

Job HeldJob(const std::string& weights) {
  Job job = JobFrom(weights);
  HoldToInitialWeights(&job, JobOrigin::kUser);
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
  EXPECT_NO_THROW(HoldToInitialWeights(&same, JobOrigin::kRun));
  Write("start", 2);
  Job changed = begun;
  try {
    HoldToInitialWeights(&changed, JobOrigin::kRun);
    ADD_FAILURE() << "other weights were accepted";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(path + ": the file has changed"), std::string::npos)
        << error.what();
  }
  // A job that continues from a snapshot does not need them.
  std::filesystem::remove(path);
  Job moved = begun;
  HoldToInitialWeights(&moved, JobOrigin::kRun);
  EXPECT_EQ(IdOf(moved), IdOf(begun));
}

// A job that is queued again is started with the user's file each time.
TEST_F(InitialWeightsTest, OfARunThatIsContinuedMayBeGone) {
  const std::string path = Write("start", 1);
  const Job begun = HeldJob(path);
  folder_.Write(kJobName, JobToJson(begun).dump());
  std::filesystem::remove(path);
  Job again = JobFrom(path);
  HoldToInitialWeights(&again, JobOrigin::kUser, folder_.path());
  EXPECT_EQ(IdOf(again), IdOf(begun));
  const auto refused = [](Job job, const std::string& run_folder) {
    ExpectError([&] { HoldToInitialWeights(&job, JobOrigin::kUser, run_folder); },
                {"model.initial_weights: " + job.initial_weights + ": cannot open"});
  };
  refused(JobFrom(folder_.Path("another")), folder_.path());
  refused(JobFrom(path), folder_.Path("of no run"));
}

// The run is not another one because the disk or the process is in trouble for a moment.
TEST_F(InitialWeightsTest, OfARunWhoseJobCannotBeReadNowAreUnknown) {
  const std::string path = Write("start", 1);
  const Job begun = HeldJob(path);
  const std::string kept = folder_.Write(kJobName, JobToJson(begun).dump());
  std::filesystem::remove(path);
  Job again = JobFrom(path);
  const auto hold = [&] { HoldToInitialWeights(&again, JobOrigin::kUser, folder_.path()); };
  const auto compare = [&] { BeganFromWeights(begun.initial_weights_sha256, folder_.path()); };
  {
    const DescriptorLimit limit;
    const std::vector<std::string> text = {kept + ": cannot open", "Too many open files"};
    ExpectError(hold, text, Error::Kind::kFailure);
    ExpectError(compare, text, Error::Kind::kFailure);
  }
  std::filesystem::remove(kept);
  std::filesystem::create_symlink(kJobName, kept);
  ExpectError(hold, {kept + ": cannot open", "Too many levels of symbolic links"});
  ExpectError(compare, {kept + ": cannot open", "Too many levels of symbolic links"});
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

// These files may be the only copies: a new run in their folder would remove or replace them.
TEST_F(InitialWeightsTest, KeepTheFilesBesideThem) {
  const Job job = HeldJob(Write("start", 1));
  EXPECT_NO_THROW(RequireOtherInputs(job, folder_.path()));
  for (const char* name : {kConfigName, kVocabularyName, kJobName}) {
    SCOPED_TRACE(name);
    const std::string path = folder_.Write(name, "{}");
    ExpectError([&] { RequireOtherInputs(job, folder_.path()); },
                {"model.initial_weights: " + path, "describes these weights", "another --out"});
    EXPECT_NO_THROW(RequireOtherInputs(job, folder_.Path("out")));
    std::filesystem::remove(path);
  }
  // Those of a run that began from the same weights are its own.
  folder_.Write(kJobName, JobToJson(job).dump());
  folder_.Write(kVocabularyName, "{}");
  EXPECT_NO_THROW(RequireOtherInputs(job, folder_.path()));
}

// The run would remove the log, or replace it, and end as if its records were there.
TEST_F(InitialWeightsTest, AndTheAuditLogAreNoOutputs) {
  const std::string out = folder_.Path("out");
  const auto refused = [&out](const std::string& log, const std::string& output) {
    SCOPED_TRACE(log);
    ExpectError([&] { RequireOtherAuditLog(log, out); },
                {"the audit log " + log + " is the file " + output, "name another file"});
  };
  const auto all_refused = [&] {
    for (const char* name : {kMetricsName, kModelName, kReceiptName, kTuningName, kGraphName}) {
      refused(out + "/" + name, out + "/" + name);
      refused(out + "/./" + name, out + "/" + name);
    }
    refused(out + "/manager.lock", out + "/manager.lock");
    EXPECT_NO_THROW(RequireOtherAuditLog(out + "/audit.jsonl", out));
  };
  const std::string link = folder_.Path("link.jsonl"), far_link = folder_.Path("far.jsonl");
  std::filesystem::create_symlink("out/../out/" + std::string(kTuningName), link);
  std::filesystem::create_symlink(link, far_link);
  std::filesystem::create_symlink("out", folder_.Path("logs"));
  const auto links_refused = [&] {
    const std::string tuning = out + "/" + kTuningName;
    for (const std::string& log : {link, far_link, folder_.Path("logs/tuning.jsonl")}) {
      refused(log, tuning);
    }
    EXPECT_NO_THROW(RequireOtherAuditLog(folder_.Path("logs/audit.jsonl"), out));
  };
  links_refused();
  all_refused();  // the folder does not exist yet
  std::filesystem::create_directory(out);
  links_refused();
  all_refused();
  folder_.Write("out/" + std::string(kTuningName), "");
  all_refused();
  std::filesystem::create_hard_link(out + "/" + kTuningName, folder_.Path("other.jsonl"));
  refused(folder_.Path("other.jsonl"), out + "/" + kTuningName);
  const std::string circle = folder_.Path("circle.jsonl");
  std::filesystem::create_symlink("circle.jsonl", circle);
  EXPECT_NO_THROW(RequireOtherAuditLog(circle, out));
  EXPECT_NO_THROW(RequireOtherAuditLog("", out));
  EXPECT_NO_THROW(RequireOtherAuditLog(folder_.Path("other.jsonl"), ""));
}

// Copying what it has would take a stack frame for each level.
TEST_F(InitialWeightsTest, AreNotThoseOfADeeplyNestedJob) {
  const Job job = HeldJob(Write("start", 1));
  constexpr std::size_t kDepth = 500'000;
  folder_.Write(kJobName, "{\"x\": " + std::string(kDepth, '[') + std::string(kDepth, ']') + "}");
  EXPECT_FALSE(BeganFromWeights(job.initial_weights_sha256, folder_.path()));
}

// Returns the hash of all tensors. All weights are 1, and all optimizer state is 2.
std::string WriteWithStates(const std::string& path, const TrainedModel& model, int states) {
  SnapshotExtras extras;
  extras.states = states;
  ModelWriter writer(path, model, extras);
  const std::vector<TensorInfo> tensors = ModelTensors(model, states);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const bool is_value = tensors[i].matrix.state == ParameterState::kValue;
    const std::vector<float> values(static_cast<std::size_t>(tensors[i].rows * tensors[i].cols),
                                    is_value ? 1.0f : 2.0f);
    writer.Write(i, 0, 0, tensors[i].rows, tensors[i].cols, values);
  }
  return writer.Finish();
}

// The read calls of this process so far; nullopt where the system does not tell.
std::optional<std::int64_t> ReadCalls() {
  std::ifstream counts("/proc/self/io");
  std::string name;
  for (std::int64_t count = 0; counts >> name >> count;) {
    if (name == "syscr:") return count;
  }
  return std::nullopt;
}

// A row of a transposed tensor is nowhere contiguous in the file.
TEST_F(InitialWeightsTest, AreSearchedForWhatIsNotFiniteInLargePieces) {
  model::GptOptions gpt = SmallGpt();
  gpt.n_embd = 64;
  Job job;
  job.model = gpt;
  job.initial_weights = folder_.Path("gpt");
  const std::shared_ptr<const TrainedModel> model = BuildModel(job);
  const std::vector<TensorInfo> tensors = ModelTensors(*model);
  const auto write = [&](float last) {
    ModelWriter writer(job.initial_weights, *model);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      std::vector<float> values(static_cast<std::size_t>(tensors[i].rows * tensors[i].cols));
      if (i + 1 == tensors.size()) values.back() = last;
      writer.Write(i, 0, 0, tensors[i].rows, tensors[i].cols, values);
    }
    writer.Finish();
  };
  write(1);
  EXPECT_EQ(NotFiniteInitialWeight(job), "");
  write(std::numeric_limits<float>::infinity());
  const std::optional<std::int64_t> before = ReadCalls();
  EXPECT_EQ(NotFiniteInitialWeight(job),
            job.initial_weights + ": tensor '" + tensors.back().name + "' has the value inf");
  const std::optional<std::int64_t> after = ReadCalls();
  if (before && after) {
    EXPECT_LT(*after - *before, 1000);
  }
}

// A job may freeze other parameters than the run that wrote the snapshot.
TEST_F(InitialWeightsTest, OfASnapshotAreReadWithoutTheOptimizersState) {
  Job whole;
  whole.model = Perceptron{{2, 4, 3}};
  Job frozen = whole;
  frozen.freeze = {"layers.0.*"};
  const std::string path = folder_.Path("snapshot");
  const std::string sha256 = WriteWithStates(folder_.Path("weights"), *BuildModel(whole), 0);
  for (const auto& [run, next] : {std::pair(whole, frozen), std::pair(frozen, whole)}) {
    SCOPED_TRACE(run.freeze.size());
    WriteWithStates(path, *BuildModel(run), 2);
    for (const Job& job : {run, next}) {
      const ModelReader reader(path, *BuildModel(job));
      EXPECT_EQ(reader.states(), 0);
      EXPECT_EQ(reader.WeightsSha256(), sha256);
      ASSERT_EQ(reader.Tensors().size(), 4u);
      for (std::size_t i = 0; i < reader.Tensors().size(); ++i) {
        std::array<float, 1> value{};
        reader.Read(i, 0, 0, 1, 1, value);
        EXPECT_EQ(value[0], 1.0f) << reader.Tensors()[i].name;
      }
    }
    // The run itself goes on only with the state of all that it trains.
    const auto file = std::make_shared<const SafetensorsFile>(path);
    const auto with_states = [&file](const Job& job) {
      return ModelReader(file, *BuildModel(job), ModelReader::Take::kWithStates).states();
    };
    EXPECT_EQ(with_states(run), 2);
    ExpectError([&with_states, &job = next] { with_states(job); }, {"'layers.0.bias.state0'"});
  }
}

// The shapes of tensors do not show what these files say. The file of weights itself, which does
// not exist, is looked at after them.
class WeightsOfAnotherModel : public InitialWeightsTest {
 protected:
  void Accepted(const nlohmann::json& file) { Refused(file, {"model.safetensors: cannot open"}); }
  void Refused(const nlohmann::json& file, const std::vector<std::string>& parts) {
    RefusedText(file.dump(), parts);
  }
  void RefusedText(const std::string& file, const std::vector<std::string>& parts) {
    folder_.Write(name_, file);
    SCOPED_TRACE(file.substr(0, 100));
    ExpectError([&] { HoldToInitialWeights(&job_, JobOrigin::kUser); }, parts);
  }

  Job job_ = JobFrom(folder_.Path("model.safetensors"));
  std::string name_ = "config.json";
};

TEST_F(WeightsOfAnotherModel, AreRefusedIfAConfigSaysSo) {
  job_.model = SmallLlama();
  const nlohmann::json own = TransformersConfig(job_.model);
  Accepted(own);
  Accepted({{"other", 1}});
  Accepted({{"rope_scaling", nullptr}});
  const auto with = [&own](const char* field, const nlohmann::json& value) {
    nlohmann::json config = own;
    config[field] = value;
    return config;
  };
  Refused(with("rope_theta", 500000), {"model.initial_weights: " + folder_.Path("config.json"),
                                       "rope_theta = 500000", "the job's model has 10000"});
  Refused(with("num_attention_heads", 4), {"num_attention_heads = 4"});
  Refused(with("rms_norm_eps", 1e-5), {"rms_norm_eps = 1e-05"});
  Refused(with("hidden_act", "gelu"), {"hidden_act = \"gelu\""});
  // A file of a tied model may have the head as well, so its tensors would fit.
  Refused(with("tie_word_embeddings", true),
          {"tie_word_embeddings = true", "the job's model has false"});
  Refused(with("rope_scaling", {{"rope_type", "llama3"}}),
          {"rope_scaling", "acan does not scale rotary positions (only null)"});
  Refused(with("rope_parameters", {{"rope_theta", 5e5}, {"rope_type", "default"}}),
          {"rope_theta = 5"});
  Refused(with("rope_parameters", {{"type", "linear"}, {"factor", 2}, {"rope_theta", 10000}}),
          {"rope_scaling", "acan does not scale rotary positions"});
  Refused(with("rope_scaling", {{"type", "default"}, {"rope_theta", 5e5}}), {"rope_theta = 5"});
  Refused(with("rope_scaling", "linear"), {"rope_scaling = \"linear\""});
  // These scale nothing.
  Accepted(with("rope_scaling", nlohmann::json::object()));
  Accepted(with("rope_scaling", {{"type", "default"}}));
  Accepted(with("rope_scaling", {{"rope_type", "default"}}));
  // What people change for a fine-tuning, and another name of the same function.
  Accepted(with("attention_dropout", 0.5));
  Accepted(with("hidden_act", "swish"));
}

// transformers' class has a value for each field that the file leaves out.
TEST_F(WeightsOfAnotherModel, AreRefusedIfAConfigLeavesOutAnotherDefault) {
  model::LlamaOptions llama = SmallLlama();
  llama.rope_theta = 3;
  job_.model = llama;
  Refused({{"model_type", "llama"}, {"num_attention_heads", 2}},
          {"no rope_theta, which means 10000", "the job's model has 3"});
  Refused({{"model_type", "llama"}, {"rope_theta", 3}}, {"no num_attention_heads", "32"});
  Accepted({{"model_type", "llama"}, {"num_attention_heads", 2}, {"rope_theta", 3}});
  llama.tie_word_embeddings = true;
  job_.model = llama;
  Refused({{"model_type", "llama"}, {"num_attention_heads", 2}, {"rope_theta", 3}},
          {"no tie_word_embeddings, which means false", "the job's model has true"});
}

// As after an interrupted download. Nobody knows what the rest of the file said.
TEST_F(WeightsOfAnotherModel, AreRefusedIfAFileIsDamaged) {
  job_.model = SmallLlama();
  const std::string deep = std::string(300'000, '[') + std::string(300'000, ']');
  for (const char* name : {"config.json", "job.json"}) {
    name_ = name;
    const std::string about =
        "model.initial_weights: " + folder_.Path(name) + ": describes the weights, but ";
    const std::string advice = "restore the file, or keep the weights in a folder without it";
    RefusedText(R"({"model_type": "llama", "num_att)", {about + "is not JSON", advice});
    RefusedText("", {about + "is not JSON"});
    RefusedText("[3]", {about + "is a JSON array, not an object", advice});
    RefusedText("{\"x\": " + deep + "}", {about + "nests arrays and objects more than 16 deep"});
    Accepted(nlohmann::json::object());
  }
}

// GPT2Config takes the heads under both names, and prefers the second.
TEST_F(WeightsOfAnotherModel, AreComparedByTheSecondNameOfTheHeads) {
  job_.model = SmallGpt();
  const std::int64_t heads = SmallGpt().n_head;
  const auto with = [&](std::int64_t value) {
    nlohmann::json config = TransformersConfig(job_.model);
    config["num_attention_heads"] = value;
    return config;
  };
  Accepted(with(heads));
  Refused(with(heads + 1), {"n_head = " + std::to_string(heads + 1)});
  nlohmann::json only_second = with(heads);
  only_second.erase("n_head");
  Accepted(only_second);
}

// The embedding of this token is not trained.
TEST_F(WeightsOfAnotherModel, AreRefusedForAnotherPaddingToken) {
  model::BertOptions bert;
  bert.task = model::BertTask::kMaskedLanguage;
  job_.model = bert;
  Accepted({{"pad_token_id", 0}});
  Accepted({{"model_type", "bert"}});
  Refused({{"pad_token_id", 5}}, {"pad_token_id = 5, but the job's model has 0"});
  // null means none, and -1 the last token; in a job, -1 means none.
  Refused({{"pad_token_id", nullptr}},
          {"pad_token_id = null, which is -1 in a job", "the job's model has 0"});
  Refused({{"pad_token_id", -1}}, {"pad_token_id = -1, which is 30521 in a job"});
  const auto set = [&](std::int64_t token) {
    bert.pad_token_id = token;
    job_.model = bert;
  };
  set(5);
  Accepted({{"pad_token_id", 5}});
  Refused({{"model_type", "bert"}}, {"no pad_token_id, which means 0"});
  set(-1);
  Accepted({{"pad_token_id", nullptr}});
  Accepted(TransformersConfig(job_.model));
  Refused({{"pad_token_id", -1}}, {"the job's model has -1"});
  Refused({{"pad_token_id", -30523}}, {"pad_token_id = -30523, but the job's model has -1"});
  set(bert.vocab_size - 1);
  Accepted({{"pad_token_id", -1}});
  Refused({{"pad_token_id", nullptr}}, {"the job's model has 30521"});
}

TEST_F(WeightsOfAnotherModel, AreRefusedIfTheJobOfTheirRunSaysSo) {
  job_.model = SmallLlama();
  name_ = "job.json";
  nlohmann::json kept = JobToJson(job_);
  kept["model"]["attention_dropout"] = 0.5;
  Accepted(kept);
  nlohmann::json other = kept;
  other["model"]["kind"] = "bert";
  other["model"]["num_attention_heads"] = 4;
  Accepted(other);
  Accepted({{"model", 3}});
  kept["model"]["num_attention_heads"] = 4;
  Refused(kept, {"model.initial_weights: " + folder_.Path("job.json"),
                 "model.num_attention_heads = 4", "the job's model has 2"});
  kept["model"]["num_attention_heads"] = 2;
  kept["model"]["rope_theta"] = 5e5;
  Refused(kept, {"model.rope_theta = 5"});
  // The snapshots of this run, too.
  job_.initial_weights = folder_.Path("snapshots/step-000000000012.safetensors");
  Refused(kept, {folder_.Path("job.json"), "model.rope_theta = 5"});
}

// Both have six patches, but at other places. Images of other kinds may have other sides.
TEST_F(WeightsOfAnotherModel, AreRefusedForImagesOfOtherSides) {
  name_ = "job.json";
  model::VitOptions vit;
  vit.image_size = {8, 12};
  vit.patch_size = 4;
  job_.model = vit;
  nlohmann::json kept = JobToJson(job_);
  Accepted(kept);
  kept["model"]["image_size"] = {12, 8};
  Refused(kept, {"model.image_size = [12,8]", "the job's model has [8,12]"});
  job_.model = model::ResnetOptions();
  kept = JobToJson(job_);
  kept["model"]["image_size"] = {12, 8};
  Accepted(kept);
}

// The hash in a job file says which weights, and not of which model they are.
TEST_F(InitialWeightsTest, WithAHashAreComparedWithTheFilesBesideThem) {
  Job job = HeldJob(Write("model.safetensors", 1));
  nlohmann::json kept = JobToJson(job);
  kept["model"]["activation"] = "tanh";
  folder_.Write("job.json", kept.dump());
  ExpectError([&] { HoldToInitialWeights(&job, JobOrigin::kUser); },
              {"model.activation = \"tanh\""});
  EXPECT_NO_THROW(HoldToInitialWeights(&job, JobOrigin::kRun));
}

TEST_F(InitialWeightsTest, AreNamedWhereTheyAreMissing) {
  Job job = JobFrom(folder_.Path("none"));
  try {
    HoldToInitialWeights(&job, JobOrigin::kUser);
    ADD_FAILURE() << "a missing file was accepted";
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find("model.initial_weights: "), 0u) << error.what();
  }
}

}  // namespace
}  // namespace acan
