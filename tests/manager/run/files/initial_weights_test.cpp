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
#include "acan/manager/model_file.h"
#include "acan/manager/output_names.h"
#include "acan/manager/overwritten_inputs.h"
#include "acan/manager/training_id.h"
#include "descriptor_limit.h"
#include "graph_files.h"
#include "initial_weights_job.h"
#include "nlohmann/json.hpp"
#include "test_files.h"

namespace acan {
namespace {

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
