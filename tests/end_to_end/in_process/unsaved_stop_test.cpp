// What a manager leaves in the space when it is stopped: the last steps if no snapshot has them,
// otherwise nothing.
#include <gmock/gmock.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "acan/core/names.h"
#include "acan/manager/load_data.h"
#include "acan/manager/run_state.h"
#include "acan/manager/safetensors_file.h"
#include "acan/manager/training_id.h"
#include "cluster_fixture.h"
#include "tuplespace/client.h"

namespace acan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::int64_t kLastStep = 33;  // of SmallJob
constexpr const char* kSeldom = "[snapshots]\nevery_steps = 1000000\n";
constexpr const char* kNever = "[snapshots]\nevery_steps = 0\n";

class UnsavedStopTest : public ClusterTest {
 protected:
  UnsavedStopTest() { AddHandler(1 << 20); }
  ManagerOptions Options(bool resume) {
    ManagerOptions options;
    options.endpoint = endpoint_;
    options.out_dir = out_dir_;
    options.source = "test";
    options.expected_handlers = 1;
    options.resume = resume;
    options.log = [this](const std::string& line) { log_ += line + "\n"; };
    return options;
  }
  // Stops the run after step `at`, and then has `within` to save it.
  void StopAt(std::int64_t at, const Job& job, std::chrono::microseconds within) {
    Manager* running = nullptr;
    ManagerOptions options = Options(/*resume=*/false);
    options.progress = [&](const Progress& progress) {
      done_ = progress.step;
      if (progress.step == at) running->Stop(within);
    };
    Manager manager(std::move(options), job, LoadData(job));
    running = &manager;
    EXPECT_FALSE(manager.Run().has_value()) << log_;
    left_ = manager.LeftStepsInSpace();
  }
  static std::string IdOf(const Job& job) {
    const Data data = LoadData(job);
    return TrainingId(job, data.train_sha256(), data.test_sha256());
  }
  // The tuples of the steps of all runs of the job.
  std::uint64_t TuplesOf(const Job& job) const {
    using tuplespace::FieldPattern;
    const std::string id = IdOf(job);
    tuplespace::Client client({.endpoint = endpoint_, .name = "test", .id = {}});
    return client.CountOf({{FieldPattern::Prefix(id + "-"), FieldPattern::AtMost(INT64_MAX)}, true})
        .value();
  }
  void ExpectThatTheNextManagerContinues(const Job& job) {
    EXPECT_TRUE(left_) << log_;
    EXPECT_GT(TuplesOf(job), 0u);
    log_.clear();
    const std::optional<Receipt> receipt =
        Manager(Options(/*resume=*/true), job, LoadData(job)).Run();
    ASSERT_TRUE(receipt.has_value()) << log_;
    EXPECT_THAT(log_, HasSubstr("continuing from the weights in the space, after step "));
    EXPECT_EQ(receipt->weights_sha256, PlainHash(job));
    EXPECT_EQ(TuplesOf(job), 0u) << "what was left has an end";
  }

  std::string out_dir_ = folder_ + "/out";  // of the managers
  std::int64_t done_ = 0;                   // steps of the stopped run
  bool left_ = false;                       // as Manager::LeftStepsInSpace of it
};

TEST_F(UnsavedStopTest, WithoutTimeTheStepsStayInTheSpace) {
  const Job job = SmallJob(kSeldom);
  StopAt(20, job, std::chrono::seconds(0));
  EXPECT_THAT(log_, HasSubstr("stopped after step " + std::to_string(done_) +
                              " without a snapshot of it: it was not written within the time"));
  ExpectThatTheNextManagerContinues(job);
}

// Then it is writing its outputs.
TEST_F(UnsavedStopTest, AfterTheLastStepTheyStayToo) {
  const Job job = SmallJob(kSeldom);
  StopAt(kLastStep, job, std::chrono::seconds(0));
  EXPECT_EQ(done_, kLastStep);
  EXPECT_THAT(log_, HasSubstr("stopped after step 33 without a snapshot of it: "));
  ExpectThatTheNextManagerContinues(job);
}

TEST_F(UnsavedStopTest, WithoutSnapshotsTheyStayHoweverLongItMayTake) {
  const Job job = SmallJob(kNever);
  StopAt(20, job, std::chrono::hours(1));
  EXPECT_THAT(log_, HasSubstr("snapshots.every_steps = 0 turns snapshots off"));
  ExpectThatTheNextManagerContinues(job);
}

TEST_F(UnsavedStopTest, WithoutAFolderTheyStayToo) {
  out_dir_.clear();
  const Job job = SmallJob();
  StopAt(20, job, std::chrono::hours(1));
  ExpectThatTheNextManagerContinues(job);
}

// Only snapshots say whose results are in the weights, so no manager would continue from them.
TEST_F(UnsavedStopTest, OfAnAuditedRunNobodyIsToldOfThem) {
  AddHandler(1 << 20);
  StopAt(20, SmallJob("[tasks]\naudit = 0.5\n" + std::string(kNever)), std::chrono::seconds(0));
  EXPECT_FALSE(left_);
}

TEST_F(UnsavedStopTest, WithASnapshotNothingStays) {
  const Job job = SmallJob(kSeldom);
  StopAt(20, job, std::chrono::hours(1));
  EXPECT_THAT(log_, HasSubstr("stopped after step " + std::to_string(done_) + ": no work is lost"));
  EXPECT_FALSE(left_);
  EXPECT_EQ(TuplesOf(job), 0u);
}

// Otherwise the next life would take its snapshots for those of the run that left the doubts.
TEST_F(UnsavedStopTest, SnapshotsOfANewRunAreLaterThanDoubtsInTheSpace) {
  const Job job = SmallJob(kSeldom);
  tuplespace::Tuple doubt;
  doubt.key = QuarantineKey(IdOf(job), "evil/\t3");
  doubt.payload = tuplespace::Payload::Copy("a wrong result");
  tuplespace::Client client({.endpoint = endpoint_, .name = "test", .id = {}});
  client.Put({std::move(doubt)});
  StopAt(20, job, std::chrono::hours(1));
  std::vector<std::int64_t> failures;
  for (const auto& entry : std::filesystem::directory_iterator(out_dir_ + "/snapshots")) {
    const SafetensorsFile file(entry.path().string());
    const std::optional<RunState> state = ParseRunState(file.metadata().at("run_state"));
    failures.push_back(state ? state->failures : -1);
  }
  EXPECT_THAT(failures, ElementsAre(4)) << log_;
}

}  // namespace
}  // namespace acan
