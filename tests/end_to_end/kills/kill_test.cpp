// Whatever is killed during a training, the weights are those of the undisturbed run.
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kill_fixture.h"
#include "nlohmann/json.hpp"
#include "program.h"

namespace acan::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string CommandLine(pid_t pid) {
  std::string words = ReadFile("/proc/" + std::to_string(pid) + "/cmdline");
  for (char& c : words) {
    if (c == '\0') c = ' ';
  }
  return words;
}

std::vector<std::string> NamesIn(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    names.push_back(entry.path().filename().string());
  }
  return names;
}

TEST_F(KillTest, AllAtOnceAndResumedByOtherHandlers) {
  {
    // No process survives to remove its temporary files, so they go to the test's folder.
    Program train(TrainWords(), {{"TMPDIR", folder_.path()}});
    ASSERT_TRUE(train.WaitForErr("epoch 3/"));
    const std::set<pid_t> children = train.Descendants();
    for (const pid_t pid : children) SignalProcess(pid, SIGKILL);
    train.Signal(SIGKILL);
    EXPECT_EQ(train.Wait(), -SIGKILL);
    EXPECT_TRUE(AllGone(children));
  }
  Program resumed({"train", "--resume", out_, "--handlers", "3xcpu:1@300KiB", "--json"});
  EXPECT_EQ(resumed.Wait(), 0) << resumed.err();
  EXPECT_THAT(resumed.err(), HasSubstr("continuing from snapshot"));
  EXPECT_EQ(HashOf(resumed), undisturbed_);
  ExpectWholeMetrics();
  EXPECT_THAT(NamesIn(out_), Not(::testing::Contains("snapshots")));

  const Result again = RunAcan({"train", "--resume", out_, "--json"});
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.err, HasSubstr("is done already"));
  EXPECT_EQ(nlohmann::json::parse(LastLine(again.out))["weights_sha256"], undisturbed_);
}

TEST_F(KillTest, TheBroker) {
  Program train(TrainWords());
  for (const char* epoch : {"epoch 2/", "epoch 5/"}) {
    ASSERT_TRUE(train.WaitForErr(epoch));
    for (const pid_t pid : train.Descendants()) {
      if (CommandLine(pid).find(" broker ") != std::string::npos) SignalProcess(pid, SIGKILL);
    }
  }
  EXPECT_EQ(train.Wait(), 0) << train.err();
  EXPECT_THAT(train.err(),
              HasSubstr("the lead was lost with the broker or the connection: resuming"));
  EXPECT_EQ(HashOf(train), undisturbed_);
  ExpectWholeMetrics();
}

// While it does not run, no other handler can hold the largest task.
TEST_F(KillTest, TheOnlyLargeHandlerWhichStopsForAWhile) {
  Program train({"train", job_, "--set", "train.block=256", "--handlers", "cpu:1@4MiB,cpu:1@64KiB",
                 "--out", out_, "--json"});
  ASSERT_TRUE(train.WaitForErr("epoch 2/"));
  const std::set<pid_t> children = train.Descendants();
  const auto large = std::find_if(children.begin(), children.end(), [](pid_t pid) {
    return CommandLine(pid).find(" --memory 4194304 ") != std::string::npos;
  });
  ASSERT_NE(large, children.end());
  ASSERT_TRUE(SignalProcess(*large, SIGSTOP));
  EXPECT_TRUE(train.WaitForErr("waiting for cpu:1 with 4MiB"));
  SignalProcess(*large, SIGCONT);
  EXPECT_EQ(train.Wait(), 0) << train.err();
  ExpectWholeMetrics();
}

// As if a supervisor on another host restarted it.
TEST_F(KillTest, TheBrokerWhichIsStartedAgainElsewhere) {
  const std::string elsewhere = "ipc://" + (folder_ / "elsewhere");
  auto broker =
      std::make_unique<Program>(std::vector<std::string>{"broker", "--listen", endpoint_});
  const std::string first = endpoint_;
  endpoint_ += "," + elsewhere;
  Program handler(HandlerWords());
  Program manager(ManagerWords());
  ASSERT_TRUE(manager.WaitForErr("epoch 2/"));
  broker->Signal(SIGKILL);
  broker->Wait();
  broker = std::make_unique<Program>(std::vector<std::string>{"broker", "--listen", elsewhere});
  EXPECT_EQ(manager.Wait(), 0) << manager.err();
  EXPECT_THAT(manager.err(), HasSubstr("lost the broker at " + first + ":"));
  EXPECT_GE(BeganAfter(manager.err(), "snapshot"), 100) << manager.err();
  EXPECT_EQ(HashOf(manager), undisturbed_);
  ExpectWholeMetrics();
  handler.Signal(SIGTERM);
  handler.Wait();
  EXPECT_THAT(handler.err(), HasSubstr("joined " + elsewhere));
}

TEST_F(KillTest, TheManagerWhichGoesOnFromTheSpace) {
  Program broker({"broker", "--listen", endpoint_});
  Program handler(HandlerWords());
  Program first(ManagerWords());
  ASSERT_TRUE(first.WaitForErr("epoch 3/"));
  first.Signal(SIGKILL);
  first.Wait();
  Program second(ManagerWords({"--resume"}));
  EXPECT_EQ(second.Wait(), 0) << second.err();
  EXPECT_THAT(second.err(), HasSubstr("continuing from the weights in the space"));
  EXPECT_EQ(HashOf(second), undisturbed_);
  ExpectWholeMetrics();
}

TEST_F(KillTest, AManagerThatIsStoppedLosesNoStep) {
  Program broker({"broker", "--listen", endpoint_});
  Program handler(HandlerWords());
  const std::vector<std::string> seldom = {"--set", "snapshots.every_steps=1000000"};
  Program first(ManagerWords(seldom));
  ASSERT_TRUE(first.WaitForErr("epoch 3/"));
  first.Signal(SIGTERM);
  EXPECT_EQ(first.Wait(), 128 + SIGTERM) << first.err();
  EXPECT_THAT(first.err(), HasSubstr("stopping: writing a snapshot of step"));
  const int done = StepsIn(out_);
  EXPECT_GT(done, 200);
  std::vector<std::string> words = ManagerWords(seldom);
  words.emplace_back("--resume");
  Program second(words);
  EXPECT_EQ(second.Wait(), 0) << second.err();
  EXPECT_EQ(BeganAfter(second.err(), "snapshot"), done) << second.err();
  EXPECT_EQ(HashOf(second), undisturbed_);
  ExpectWholeMetrics();
}

TEST_F(KillTest, ATrainingThatIsStoppedAgainAndAgainLosesNoStep) {
  int done = 0;
  for (const char* epoch : {"epoch 2/", "epoch 4/", "epoch 6/"}) {
    std::vector<std::string> words = {"train", "--resume", out_, "--handlers", "2xcpu:1@4MiB"};
    if (done == 0) words = TrainWords();
    if (done == 0) words.insert(words.end(), {"--set", "snapshots.every_steps=1000000"});
    Program train(words);
    ASSERT_TRUE(train.WaitForErr(epoch));
    train.Signal(SIGINT);
    EXPECT_EQ(train.Wait(), 128 + SIGINT) << train.err();
    EXPECT_TRUE(done == 0 || BeganAfter(train.err(), "snapshot") == done) << train.err();
    EXPECT_GT(StepsIn(out_), done);
    done = StepsIn(out_);
  }
  Program last({"train", "--resume", out_, "--handlers", "cpu:1@4MiB", "--json"});
  EXPECT_EQ(last.Wait(), 0) << last.err();
  EXPECT_EQ(BeganAfter(last.err(), "snapshot"), done) << last.err();
  EXPECT_EQ(HashOf(last), undisturbed_);
  ExpectWholeMetrics();
}

TEST_F(KillTest, ARunWhoseMetricsAreRemovedWritesThemAgain) {
  Program train(TrainWords());
  ASSERT_TRUE(train.WaitForErr("epoch 2/"));
  std::filesystem::remove(out_ + "/metrics.jsonl");
  EXPECT_EQ(train.Wait(), 0) << train.err();
  EXPECT_THAT(train.err(), HasSubstr(out_ + "/metrics.jsonl was removed; the run makes it again"));
  EXPECT_EQ(HashOf(train), undisturbed_);
  ExpectWholeMetrics();
}

TEST_F(KillTest, ARunWhoseMetricsAreRenamedInItsFolderWritesThemAgain) {
  Program train(TrainWords());
  ASSERT_TRUE(train.WaitForErr("epoch 2/"));
  std::filesystem::rename(out_ + "/metrics.jsonl", out_ + "/old.jsonl");
  EXPECT_EQ(train.Wait(), 0) << train.err();
  EXPECT_THAT(train.err(), HasSubstr(out_ + "/metrics.jsonl was moved to "));
  EXPECT_THAT(train.err(), HasSubstr("/old.jsonl; the run makes it again"));
  EXPECT_EQ(HashOf(train), undisturbed_);
  ExpectWholeMetrics();
}

// As if a manager that this one cannot hear of had taken over. Writing the model would fail,
// because a folder has its name.
TEST_F(KillTest, AManagerWhoseMetricsWereReplacedWritesNoModel) {
  std::vector<std::string> words = TrainWords();
  words.insert(words.end(), {"--set", "snapshots.every_steps=0"});
  Program train(words);
  ASSERT_TRUE(train.WaitForErr("epoch 2/"));
  std::filesystem::create_directory(out_ + "/model.safetensors");
  folder_.Write("metrics", "");
  std::filesystem::rename(folder_ / "metrics", out_ + "/metrics.jsonl");
  EXPECT_TRUE(train.WaitForErr("another manager has taken over: resuming")) << train.err();
  train.Wait();
}

// Without snapshots, only the space has the weights.
TEST_F(KillTest, ARunWhoseFolderIsMovedMakesItAgain) {
  std::vector<std::string> words = TrainWords();
  words.insert(words.end(), {"--set", "snapshots.every_steps=0"});
  Program train(words);
  ASSERT_TRUE(train.WaitForErr("epoch 2/"));
  std::filesystem::rename(out_, out_ + "-moved");
  EXPECT_EQ(train.Wait(), 0) << train.err();
  EXPECT_THAT(train.err(), HasSubstr("the output folder " + out_ + " was moved to "));
  EXPECT_THAT(train.err(), HasSubstr("/out-moved; the run makes it again: resuming"));
  EXPECT_GT(BeganAfter(train.err(), "the weights in the space"), 0) << train.err();
  EXPECT_EQ(HashOf(train), undisturbed_);
  ExpectWholeMetrics();
  EXPECT_TRUE(std::filesystem::exists(out_ + "/model.safetensors"));
}

// Only snapshots say whose results are in the weights.
TEST_F(KillTest, ARunWithAuditsEndsIfItsSnapshotsAreMoved) {
  std::vector<std::string> words = TrainWords();
  words.insert(words.end(), {"--set", "tasks.audit=1", "--set", "snapshots.every_steps=0"});
  Program train(words);
  ASSERT_TRUE(train.WaitForErr("epoch 2/"));
  std::filesystem::rename(out_, out_ + "-moved");
  EXPECT_EQ(train.Wait(), 1) << train.err();
  EXPECT_THAT(train.err(), HasSubstr("a run with audits cannot continue: continue with --resume"));
}

TEST_F(KillTest, MetricsThatAreCutDuringTheRunAreMissingInTheReceipt) {
  Program train(TrainWords());
  ASSERT_TRUE(train.WaitForErr("epoch 2/"));
  std::filesystem::resize_file(out_ + "/metrics.jsonl", 0);
  EXPECT_EQ(train.Wait(), 0) << train.err();
  EXPECT_EQ(HashOf(train), undisturbed_);
  EXPECT_THAT(train.err(), HasSubstr(out_ + "/metrics.jsonl was truncated by another process"));
  const auto receipt = nlohmann::json::parse(LastLine(train.out()));
  ASSERT_EQ(receipt["metrics_missing"].size(), 1u);
  EXPECT_EQ(receipt["metrics_missing"][0]["first"], 0);
  const int first_kept = receipt["metrics_missing"][0]["last"].get<int>() + 1;
  EXPECT_EQ(StepsIn(out_, first_kept), kSteps);
}

// systemd-logind removes /run/user/UID, and cleaners of /tmp remove old files there.
TEST_F(KillTest, ASocketThatIsRemovedStopsNoSnapshots) {
  const std::string space = folder_ / "runtime/space";
  std::filesystem::create_directory(folder_ / "runtime");
  Program broker({"broker", "--listen", "ipc://" + space});
  Program handler({"handler", "--connect", "ipc://" + space, "--device", "cpu:1"});
  Program manager({"manager", "--connect", "ipc://" + space, job_, "--out", out_, "--json"});
  ASSERT_TRUE(manager.WaitForErr("epoch 2/"));
  std::filesystem::remove_all(folder_ / "runtime");
  EXPECT_EQ(manager.Wait(), 0) << manager.err();
  EXPECT_EQ(HashOf(manager), undisturbed_);
  EXPECT_TRUE(broker.WaitForErr("was removed: listening there again"));
  for (Program* program : {&handler, &broker}) {
    program->Signal(SIGTERM);
    EXPECT_EQ(program->Wait(), 128 + SIGTERM) << program->err();
  }
}

TEST_F(KillTest, ASnapshotThatWasDamagedMeanwhile) {
  {
    Program train(TrainWords());
    ASSERT_TRUE(train.WaitForErr("epoch 3/"));
    train.Signal(SIGKILL);
    train.Wait();
  }
  std::vector<std::string> names = NamesIn(out_ + "/snapshots");
  std::erase_if(names, [](const std::string& name) { return !name.ends_with(".safetensors"); });
  ASSERT_GE(names.size(), 2u);  // 3 if it was killed just before it removed the oldest
  ASSERT_LE(names.size(), 3u);
  const Result other =
      RunAcan({"train", job_, "--set", "train.seed=2", "--resume", out_, "--handlers", "cpu:1"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("of another training"));
  EXPECT_THAT(other.err, HasSubstr("none of the snapshots"));
  EXPECT_THAT(other.err, HasSubstr("train.seed is 2, must be 1 as in " + out_ + "/job.json"));
  const std::string newest = *std::max_element(names.begin(), names.end());
  std::string bytes = ReadFile(out_ + "/snapshots/" + newest);
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  folder_.Write("out/snapshots/" + newest, bytes);
  Program resumed({"train", "--resume", out_, "--handlers", "cpu:1", "--json"});
  EXPECT_EQ(resumed.Wait(), 0) << resumed.err();
  EXPECT_THAT(resumed.err(), HasSubstr(newest + " is damaged"));
  EXPECT_EQ(HashOf(resumed), undisturbed_);
}

// The metrics of steps that are not repeated are lost; the log and the receipt name these steps.
TEST_F(KillTest, MetricsThatWereLostOrDamagedAreNamed) {
  const auto resume_with = [this](const std::function<std::string(const std::string&)>& damage) {
    SCOPED_TRACE(::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(out_);
    {
      Program train(TrainWords());
      ASSERT_TRUE(train.WaitForErr("epoch 3/"));
      train.Signal(SIGKILL);
      train.Wait();
    }
    const std::string metrics = ReadFile(out_ + "/metrics.jsonl");
    folder_.Write("out/metrics.jsonl", damage(metrics));
    Program resumed({"train", "--resume", out_, "--handlers", "cpu:1", "--json"});
    EXPECT_EQ(resumed.Wait(), 0) << resumed.err();
    EXPECT_EQ(HashOf(resumed), undisturbed_);
    const auto receipt = nlohmann::json::parse(ReadFile(out_ + "/receipt.json"));
    std::set<int> steps;
    for (const nlohmann::json& line : MetricsIn(out_)) {
      if (line.contains("loss")) steps.insert(line.at("step").get<int>());
    }
    ASSERT_FALSE(receipt["metrics_missing"].empty()) << resumed.err();
    std::size_t missing = 0;
    for (const auto& range : receipt["metrics_missing"]) {
      for (int step = range["first"]; step <= range["last"].get<int>(); ++step, ++missing) {
        EXPECT_EQ(steps.count(step), 0u) << step;
      }
    }
    EXPECT_EQ(steps.size() + missing, static_cast<std::size_t>(kSteps));
    const auto first = receipt["metrics_missing"][0]["first"].get<int>();
    EXPECT_THAT(resumed.err(),
                HasSubstr("/metrics.jsonl has no line for step " + std::to_string(first)));
  };
  resume_with([](const std::string&) { return ""; });
  resume_with([](const std::string& bytes) { return bytes.substr(0, bytes.size() / 10); });
  resume_with([](std::string bytes) {
    bytes[bytes.size() / 10] = '\xff';
    return bytes;
  });
}

TEST_F(KillTest, ResumingWhatNeverBeganSaysSo) {
  const Result result = RunAcan({"train", "--resume", folder_ / "nowhere"});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("nowhere/job.json"));
}

class ChaosTest : public KillTest {
 protected:
  // Trains the job with these faults, and expects the weights of the undisturbed run.
  void Disturb(const std::vector<std::string>& faults) {
    std::vector<std::string> words = {"chaos", job_, "--handlers", "2xcpu:1@4MiB",
                                      "--out", out_, "--json"};
    words.insert(words.end(), faults.begin(), faults.end());
    result_ = RunAcan(words);
    ASSERT_EQ(result_.code, 0) << result_.err;
    report_ = nlohmann::json::parse(LastLine(result_.out));
    EXPECT_TRUE(report_["same_weights"].get<bool>());
    EXPECT_EQ(report_["weights_sha256"], undisturbed_);
    for (const auto& [fault, times] : report_["faults"].items()) happened_.insert(fault);
  }
  // Trains with these faults once for each seed, until each of `kinds` has happened. A run is sure
  // of its first fault only, so the first fault of the seeds must be of one kind after the other.
  // On most machines the run of the first seed has all kinds.
  void DisturbUntil(const std::set<std::string>& kinds, const std::vector<std::string>& faults,
                    const std::vector<std::string>& seeds) {
    for (const std::string& seed : seeds) {
      std::vector<std::string> seeded = faults;
      seeded.insert(seeded.end(), {"--seed", seed});
      ASSERT_NO_FATAL_FAILURE(Disturb(seeded)) << "seed " << seed;
      if (std::includes(happened_.begin(), happened_.end(), kinds.begin(), kinds.end())) return;
    }
    ADD_FAILURE() << "only these happened: " << ::testing::PrintToString(happened_);
  }
  // So that it does not train without faults first.
  std::string Undisturbed() const {
    return folder_.Write("undisturbed.json", undisturbed_receipt_);
  }
  // Whether this kind of fault happened, such as "kill broker".
  bool Happened(const std::string& fault) const { return report_["faults"].value(fault, 0) > 0; }

  Result result_;
  nlohmann::json report_;
  std::set<std::string> happened_;  // the kinds of faults in all runs
};

TEST_F(ChaosTest, KillsAllOfThem) {
  // The first faults: the broker, a handler, the manager (in less than a second); a handler; the
  // manager.
  DisturbUntil({"kill broker", "kill handlers", "kill manager"},
               {"--kill", "handlers,manager,broker", "--every", "600ms"}, {"6011", "43", "110"});
  EXPECT_THAT(result_.err, HasSubstr("restarting it"));
  EXPECT_GE(report_["steps_done"], report_["steps"]);
  EXPECT_THAT(result_.out, HasSubstr("the same weights as the undisturbed run"));
}

TEST_F(ChaosTest, StopsAndSlowsDownWithoutAKill) {
  Disturb({"--undisturbed", Undisturbed(), "--stop", "handlers", "--throttle", "broker", "--every",
           "150ms", "--pause", "100ms", "--seed", "7"});
  EXPECT_TRUE(Happened("stop handlers")) << report_["faults"];
  EXPECT_TRUE(Happened("throttle broker")) << report_["faults"];
  EXPECT_THAT(result_.err, Not(HasSubstr("restarting it")));
}

// The first cut of this seed ends the connections.
TEST_F(ChaosTest, CutsLinksOfProcessesThatLiveOn) {
  Disturb({"--undisturbed", Undisturbed(), "--cut", "broker", "--every", "500ms", "--pause",
           "100ms", "--seed", "3"});
  EXPECT_TRUE(Happened("cut broker"));
  EXPECT_THAT(result_.err, HasSubstr(": the connection ended; waiting for it"));
  EXPECT_THAT(result_.err, Not(HasSubstr("restarting it")));
}

TEST_F(ChaosTest, KillsAllAtOnceAndCutsLinksWhileAManagerStandsBy) {
  // The first faults: a cut, and everything is killed (in about a second); everything is killed.
  DisturbUntil({"cut broker", "kill everything"},
               {"--undisturbed", Undisturbed(), "--kill", "everything", "--cut",
                "handlers,manager,broker", "--standby", "--every", "700ms", "--pause", "300ms"},
               {"18634", "1"});
  EXPECT_THAT(result_.err, HasSubstr("waiting to take over"));
}

TEST_F(KillTest, ChaosComparesWithAReceiptOfTheSameTrainingOnly) {
  ASSERT_EQ(RunAcan({"train", job_, "--handlers", "cpu:1", "--set", "train.epochs=1", "--out",
                     folder_ / "one"})
                .code,
            0);
  const Result result =
      RunAcan({"chaos", job_, "--undisturbed", folder_ / "one/receipt.json", "--out", out_});
  EXPECT_EQ(result.code, 2);
  EXPECT_THAT(result.err, HasSubstr("a different training"));
}

TEST_F(KillTest, ChaosExplainsWhatItTakes) {
  const Result victim = RunAcan({"chaos", job_, "--kill", "handler"});
  EXPECT_EQ(victim.code, 2);
  EXPECT_THAT(victim.err, HasSubstr("did you mean 'handlers'"));
  const Result time = RunAcan({"chaos", job_, "--every", "soon"});
  EXPECT_EQ(time.code, 2);
  EXPECT_THAT(time.err, HasSubstr("like 2s or 500ms"));
}

}  // namespace
}  // namespace acan::testing
