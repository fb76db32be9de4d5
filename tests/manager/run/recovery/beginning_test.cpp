// Beginning with a real broker in this process: which of the versions that an earlier manager left
// in the space a run continues from, and what it must not replace.
#include "acan/manager/beginning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "acan/core/text/json_text.h"
#include "acan/manager/kept_metrics.h"
#include "acan/manager/kept_state.h"
#include "acan/manager/receipt.h"
#include "acan/manager/tuple_names.h"
#include "test_files.h"
#include "tuplespace/broker.h"
#include "tuplespace/client.h"

namespace acan {
namespace {

constexpr const char* kSpace = "inproc://beginning";
constexpr const char* kEarlierRun = "earlier";

class Halves final : public TileSource {
 public:
  std::vector<float> Read(const TileCell& tile) override {
    return std::vector<float>(static_cast<std::size_t>(tile.outputs.size() * tile.inputs.size()),
                              0.5F);
  }
};

// A manager that resumes a job in an empty folder, up to where it looks for a beginning.
struct Resuming {
  Resuming(RunSettings settings, tuplespace::ClientOptions client, const Job& job, const Data& data)
      : context(std::move(settings), std::move(client), job, BuildModel(job), data) {
    leadership.Connect();
    leadership.Take();
  }

  RunContext context;
  StopRequest stop{context.client, nullptr};
  FolderClaim folder{context, nullptr};
  Leadership leadership{context, stop, folder};
  Beginning beginning{context, leadership, {}};
};

class BeginningTest : public ::testing::Test {
 protected:
  BeginningTest() {
    tuplespace::BrokerOptions options;
    options.listen = {kSpace};
    options.context = &zmq_;
    broker_ = std::make_unique<tuplespace::Broker>(std::move(options));
    thread_ = std::thread([this] { broker_->Run(); });
    job_.perceptron().layers = {2, 2};
    job_.data.train_inputs = "inputs";
    job_.data.train_targets = "labels";
    earlier_ = std::make_unique<tuplespace::Client>(ClientNamed("earlier manager"));
    RunSettings settings;
    settings.endpoint = kSpace;
    settings.out_dir = folder_.path();
    settings.resume = true;
    settings.log = [this](const std::string& line) { log_.push_back(line); };
    manager_ = std::make_unique<Resuming>(std::move(settings), ClientNamed("manager"), job_, data_);
  }
  ~BeginningTest() override {
    manager_.reset();
    earlier_.reset();
    broker_->Stop();
    thread_.join();
    broker_.reset();
  }
  tuplespace::ClientOptions ClientNamed(const std::string& name) {
    return {.endpoint = kSpace, .name = name, .id = {}, .context = &zmq_};
  }

  void PutWeights(std::int64_t version) {
    const RunContext& context = manager_->context;
    std::vector<TileCell> tiles;
    for (const TensorInfo& tensor : ModelTensors(*context.model, context.OptimizerStates())) {
      const Range rows{0, tensor.rows}, cols{0, tensor.cols};
      tiles.push_back(
          {TileKey(kEarlierRun, version, tensor.matrix, rows, cols), tensor.matrix, rows, cols});
    }
    Halves values;
    TileMover(*earlier_, [] {}).Load(values, tiles);
  }
  SnapshotFolder Snapshots() const {
    const RunContext& context = manager_->context;
    return {folder_.path() + "/snapshots", context.job_id, context.model,
            context.OptimizerStates()};
  }
  void WriteSnapshot(const SnapshotFolder& snapshots, std::int64_t version,
                     const std::vector<std::string>& contributors = {}) const {
    const RunContext& context = manager_->context;
    RunState state;
    state.version = version;
    state.contributors = contributors;
    const std::unique_ptr<ModelWriter> writer = snapshots.Begin(state);
    std::size_t index = 0;
    for (const TensorInfo& tensor : ModelTensors(*context.model, context.OptimizerStates())) {
      const std::vector<float> values(static_cast<std::size_t>(tensor.rows * tensor.cols), 0.5F);
      writer->Write(index++, 0, 0, tensor.rows, tensor.cols, values);
    }
    writer->Finish();
  }
  void Submit(tuplespace::RequestBody body) {
    earlier_->Submit(std::move(body), [](tuplespace::ReplyBody&&) {});
  }
  void PutMetrics(std::int64_t steps, const std::string& last_loss = "0.5") {
    KeptMetrics kept([this](tuplespace::RequestBody body) { Submit(std::move(body)); },
                     manager_->context.job_id, kEarlierRun);
    for (std::int64_t step = 0; step < steps; ++step) {
      const std::string loss = step + 1 < steps ? "0.5" : last_loss;
      kept.AddStep(step, "{\"step\":" + std::to_string(step) + ",\"loss\":" + loss + "}\n");
    }
    EXPECT_TRUE(earlier_->GetStatistics());  // all are there
  }
  void PutState(const RunState& state) {
    KeptState kept([this](tuplespace::RequestBody body) { Submit(std::move(body)); },
                   manager_->context.job_id, kEarlierRun);
    kept.Put(state, 0);
    EXPECT_TRUE(earlier_->GetStatistics());
  }
  void WriteOthersReceipt() const {
    Receipt receipt;
    receipt.job = JobToJson(
        ParseJob("[model]\nlayers = [2, 2]\n[data]\ntrain_inputs = \"x\"\ntrain_labels = \"y\"\n",
                 "job.toml", "/jobs", {}));
    receipt.train_sha256 = std::string(64, 'a');
    receipt.weights_sha256 = std::string(64, 'b');
    WriteReceipt(folder_.Path("receipt.json"), receipt);
  }
  const Beginning& Find(const SnapshotFolder* snapshots = nullptr,
                        const BarredSnapshots& barred = {}) {
    manager_->beginning.Find(snapshots, {kEarlierRun}, barred);
    return manager_->beginning;
  }
  // The lines that say from where the run continues.
  std::vector<std::string> SaidToContinue() const {
    std::vector<std::string> lines;
    std::ranges::copy_if(log_, std::back_inserter(lines), [](const std::string& line) {
      return line.starts_with("continuing from");
    });
    return lines;
  }

  zmq::context_t zmq_;
  std::unique_ptr<tuplespace::Broker> broker_;
  std::thread thread_;
  TestFolder folder_;
  Job job_;
  Data data_;
  std::unique_ptr<tuplespace::Client> earlier_;
  std::vector<std::string> log_;
  std::unique_ptr<Resuming> manager_;
};

TEST_F(BeginningTest, IsTheNewestVersionWhoseMetricsAreThere) {
  PutMetrics(48);
  for (const std::int64_t version : {47, 48, 50}) PutWeights(version);
  const RunState& past = Find().past();
  EXPECT_EQ(past.version, 48);
  EXPECT_EQ(past.train_loss, 0.5);
  EXPECT_TRUE(past.unnamed_contributors) << "the space does not say who made the weights";
}

TEST_F(BeginningTest, IsNotAfterTheLastStep) {
  PutMetrics(51);
  for (const std::int64_t version : {48, 51}) PutWeights(version);
  Beginning beginning(manager_->context, manager_->leadership,
                      {.finite_through = std::nullopt, .steps = 50});
  beginning.Find(nullptr, {kEarlierRun}, {});
  EXPECT_EQ(beginning.past().version, 48);
}

// An undisturbed run would write that the last loss was no number, too.
TEST_F(BeginningTest, TheLossOfAnEarlierStepIsNotTheLastOne) {
  folder_.Write("job.json", JsonTextReplacing(JobToJson(job_)));
  folder_.Write("metrics.jsonl", "{\"step\":0,\"loss\":0.25}\n");
  PutMetrics(48, "null");
  PutWeights(48);
  const RunState& past = Find().past();
  EXPECT_EQ(past.version, 48);
  EXPECT_FALSE(past.train_loss);
}

// Nobody knows who contributed to the weights, but the counts and the conflicts are known.
TEST_F(BeginningTest, CountsAndConflictsStayWhereTheWeightsDoNot) {
  job_.tasks.audit = 1;
  RunState state;
  state.version = 48;
  state.tasks_done = 960;
  state.seconds = 12;
  state.failures = 2;
  state.conflicts.push_back({"key", "two results"});
  state.handlers.by_id["h1"].tasks = 950;
  PutState(state);
  PutMetrics(48);
  PutWeights(48);
  const Beginning& found = Find();
  EXPECT_FALSE(found.GoesOn());
  const RunState& past = found.past();
  EXPECT_EQ(past.version, 0);
  EXPECT_EQ(past.tasks_done, 960);
  EXPECT_EQ(past.seconds, 12);
  EXPECT_EQ(past.failures, 3);
  EXPECT_EQ(past.handlers.tasks(), 950);
  ASSERT_EQ(past.conflicts.size(), 1U);
  EXPECT_EQ(past.conflicts[0].text, "two results");
  ASSERT_FALSE(log_.empty());
  EXPECT_TRUE(log_.back().starts_with("the run had reached step 48")) << log_.back();
}

// As after a kill between the removal of the weights and that of the rest.
TEST_F(BeginningTest, CountsStayWithoutWeights) {
  RunState state;
  state.version = 48;
  state.tasks_done = 960;
  PutState(state);
  EXPECT_EQ(Find().past().tasks_done, 960);
}

TEST_F(BeginningTest, ARunThatHasNotBegunCountsNothing) {
  RunState state;
  state.seconds = 5000;
  state.begun = false;
  PutState(state);
  EXPECT_EQ(Find().past().seconds, 0);
}

// It went back as far as there is, because a handler was wrong, or the run diverged.
TEST_F(BeginningTest, TheCountsOfAnEarlierLifeStayWhenItBeginsAnew) {
  RunState counted;
  counted.version = 48;
  counted.tasks_done = 960;
  Beginning beginning(manager_->context, manager_->leadership,
                      {.earlier_lives = 1, .finite_through = {}, .counted = counted});
  beginning.Find(nullptr, {}, {});
  EXPECT_FALSE(beginning.GoesOn());
  EXPECT_EQ(beginning.past().version, 0);
  EXPECT_EQ(beginning.past().tasks_done, 960);
}

// These steps may not have been committed, and are cheap to repeat.
TEST_F(BeginningTest, AFewStepsWithoutMetricsAreRepeated) {
  PutWeights(3);
  EXPECT_FALSE(Find().GoesOn());
}

// No manager is so far ahead of its commits: only the metrics were lost.
TEST_F(BeginningTest, WeightsOfManyStepsAreUsedWithoutMetrics) {
  PutWeights(50);
  const Beginning& found = Find();
  EXPECT_TRUE(found.GoesOn());
  EXPECT_EQ(found.past().version, 50);
}

// The snapshot is older than the weights, so its steps would read as lost if it were named, too.
TEST_F(BeginningTest, OnlyTheChosenVersionIsNamed) {
  const SnapshotFolder snapshots = Snapshots();
  WriteSnapshot(snapshots, 30);
  PutMetrics(48);
  PutWeights(48);
  EXPECT_EQ(Find(&snapshots).saved_version(), 30);
  EXPECT_EQ(SaidToContinue(),
            std::vector<std::string>{"continuing from the weights in the space, after step 48"});
}

// On some file systems they cannot be removed, at least for a while.
TEST_F(BeginningTest, SnapshotsOfWrongHandlersAreNotUsedEvenIfTheyAreThere) {
  job_.tasks.audit = 1;
  const SnapshotFolder snapshots = Snapshots();
  WriteSnapshot(snapshots, 10, {"good/1"});
  WriteSnapshot(snapshots, 20, {"good/1", "evil/1"});
  EXPECT_EQ(Find(&snapshots, {.wrong = {"evil/1"}}).past().version, 10);
}

// What the key confirms from now on counts, even if nothing else is left that counts the lives.
TEST_F(BeginningTest, ALifeIsLaterThanTheOneThatDoubtedAKey) {
  job_.tasks.audit = 1;
  const SnapshotFolder snapshots = Snapshots();
  WriteSnapshot(snapshots, 10, {"good/1"});
  WriteSnapshot(snapshots, 20, {"evil/"});
  const RunState& past = Find(&snapshots, {.in_doubt = {{"evil/", 7}}}).past();
  EXPECT_EQ(past.version, 10);
  EXPECT_EQ(past.failures, 8);
  EXPECT_EQ(past.losses, 1) << "the interval between snapshots would be too short";
}

// An earlier run may have left the doubt in the space. The new run's snapshots must stay.
TEST_F(BeginningTest, ANewRunIsLaterThanTheDoubtsThatItFinds) {
  job_.tasks.audit = 1;
  const DoubtfulKeys in_doubt = {{"evil/", 3}, {"key/", 7}};
  manager_->beginning.BeginAfter(in_doubt);
  RunState state = manager_->beginning.past();
  EXPECT_FALSE(manager_->beginning.GoesOn());
  EXPECT_EQ(state.version, 0);
  EXPECT_EQ(state.losses, 0);
  state.version = 10;
  state.contributors = {"key/"};
  EXPECT_FALSE(state.HasUnconfirmedOf(in_doubt)) << state.failures;
}

// ---- the run of another job in the folder -------------------------------------------------------

TEST_F(BeginningTest, AFinishedRunOfAnotherJobIsNotReplacedFromTheSpace) {
  PutWeights(50);
  WriteOthersReceipt();
  ExpectError([this] { Find(); }, {"is done, and it trained another job", "another --out"});
}

TEST_F(BeginningTest, SnapshotsOfAnotherJobAreNotReplacedFromTheSpace) {
  PutWeights(50);
  const RunContext& context = manager_->context;
  const SnapshotFolder others(folder_.path() + "/snapshots", "of others", context.model,
                              context.OptimizerStates());
  WriteSnapshot(others, 30);
  const SnapshotFolder snapshots = Snapshots();
  ExpectError([&] { Find(&snapshots); }, {"none of the snapshots in", "another --out"});
}

// The job's file says nothing about the data.
TEST_F(BeginningTest, SnapshotsOfOtherDataAskForTheData) {
  folder_.Write("job.json", JsonTextReplacing(JobToJson(job_)));
  const RunContext& context = manager_->context;
  const SnapshotFolder others(folder_.path() + "/snapshots", "of other data", context.model,
                              context.OptimizerStates());
  WriteSnapshot(others, 30);
  const SnapshotFolder snapshots = Snapshots();
  ExpectError([&] { Find(&snapshots); },
              {"although the job is that of", "restore them", "without --resume"});
}

// It has warned of the run, and the job must go on.
TEST_F(BeginningTest, AStandbyTakesOverInTheFolderOfAnotherJob) {
  PutWeights(50);
  WriteOthersReceipt();
  RunSettings settings = manager_->context.settings;
  settings.standby = true;
  RunContext context(std::move(settings), ClientNamed("standby"), job_, BuildModel(job_), data_);
  Beginning beginning(context, manager_->leadership, {});
  beginning.Find(nullptr, {kEarlierRun}, {});
  EXPECT_TRUE(beginning.GoesOn());
}

}  // namespace
}  // namespace acan
