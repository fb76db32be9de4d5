// The system temporarily lacks disk, threads or processes. The run loses no work, and the weights
// are those of the undisturbed run.
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>

#include "disturbed_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "program.h"

namespace acan::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kAllSteps = 1090;

class LimitsTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    const TestFolder folder;
    const Result result = RunAcan({"train", WriteDisturbedJob(folder, "job.toml", 0), "--handlers",
                                   "cpu:1", "--out", folder / "out", "--json"});
    undisturbed_ = nlohmann::json::parse(LastLine(result.out))["weights_sha256"];
  }
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "a sanitizer wants to be the first library of a process";
#endif
  }

  Environment Limited() const {
    return {{"LD_PRELOAD", ACAN_LIMITED_SYSTEM}, {"LIMITED_DISK", out_}};
  }
  // Limits the folder to its present size plus `more`. Renames the limit into place because the
  // process may read it at any time. With a name, only this file cannot grow.
  void LimitDisk(std::int64_t more, const std::string& name = "") const {
    std::int64_t bytes = more;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(out_)) {
      std::error_code gone;
      const auto size = entry.is_regular_file(gone) ? entry.file_size(gone) : 0;
      if (!gone) bytes += static_cast<std::int64_t>(size);
    }
    SetDisk(bytes, name);
  }
  void SetDisk(std::int64_t bytes, const std::string& name = "") const {
    folder_.Write("limit", std::to_string(bytes) + " " + name + "\n");
    std::filesystem::rename(folder_ / "limit", out_ + ".bytes");
  }
  void FreeDisk() const {
    std::filesystem::remove(out_ + ".bytes");
  }
  // Each process may have `most` threads.
  void LimitThreads(int most = 0) const {
    folder_.Write("out.threads", std::to_string(most));
  }
  void FreeThreads() const {
    std::filesystem::remove(out_ + ".threads");
  }
  void HoldDisk() const {
    folder_.Write("out.held", "");
  }
  void GoOnWithDisk() const {
    std::filesystem::remove(out_ + ".held");
  }
  void LimitProcesses() const {
    folder_.Write("out.processes", "");
  }
  void FreeProcesses() const {
    std::filesystem::remove(out_ + ".processes");
  }

  std::vector<std::string> ManagerWords(const std::string& out, const std::string& job,
                                        const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {"manager", "--connect", endpoint_, job,
                                      "--out",   out,         "--json"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::vector<std::string> HandlerWords() const {
    return {"handler", "--connect", endpoint_, "--device", "cpu:1", "--memory", "4MiB"};
  }
  std::vector<std::string> TrainWords(const std::string& job) const {
    return {"train", job, "--handlers", "cpu:1@4MiB", "--out", out_, "--json"};
  }

  std::vector<std::string> ResumeWords() const {
    return {"train", never_, "--resume", out_, "--handlers", "cpu:1@4MiB", "--json"};
  }
  void StopInTheMiddle();

  static nlohmann::json ReceiptOf(const Program& program) {
    return nlohmann::json::parse(LastLine(program.out()), nullptr, false);
  }
  // Checks a run that lost neither weights nor lines of metrics.
  static void ExpectWhole(const Program& program, const std::string& out) {
    const auto receipt = ReceiptOf(program);
    ASSERT_TRUE(receipt.is_object()) << program.err();
    EXPECT_EQ(receipt["weights_sha256"], undisturbed_) << program.err();
    EXPECT_TRUE(receipt["metrics_missing"].empty()) << program.err();
    EXPECT_EQ(StepsIn(out), kAllSteps);
  }
  static int StepsIn(const std::string& out) {
    int next = 0;
    std::ifstream lines(out + "/metrics.jsonl");
    for (std::string line; std::getline(lines, line);) {
      const auto json = nlohmann::json::parse(line, nullptr, false);
      EXPECT_TRUE(json.is_object()) << "torn: " << line;
      if (!json.is_object() || !json.contains("loss")) continue;
      EXPECT_EQ(json["step"], next++);
    }
    return next;
  }
  // The step after which a manager said that it continued with the weights in the space; -1: it did
  // not.
  static int BeganInSpaceAfter(const std::string& err) {
    const std::string text = "continuing from the weights in the space, after step ";
    const std::size_t at = err.find(text);
    return at == std::string::npos ? -1 : std::stoi(err.substr(at + text.size()));
  }

  static std::string undisturbed_;
  TestFolder folder_;
  std::string never_ = WriteDisturbedJob(folder_, "never.toml", 1'000'000);
  std::string often_ = WriteDisturbedJob(folder_, "often.toml", 50);
  std::string out_ = folder_ / "out";
  std::string endpoint_ = "ipc://" + (folder_ / "space");
};
std::string LimitsTest::undisturbed_;

// ---- the manager ends, and its weights stay in the space ----------------------------------------

TEST_F(LimitsTest, ADiskThatStaysFullLeavesTheWeightsInTheSpace) {
  Program broker({"broker", "--listen", endpoint_});
  Program handler(HandlerWords());
  Program first(ManagerWords(out_, never_), Limited());
  ASSERT_TRUE(first.WaitForErr("epoch 3/"));
  LimitDisk(50);
  EXPECT_EQ(first.Wait(), 1);
  EXPECT_THAT(first.err(), HasSubstr("No space left on device"));
  FreeDisk();
  Program second(ManagerWords(out_, never_, {"--resume"}));
  EXPECT_EQ(second.Wait(), 0) << second.err();
  EXPECT_EQ(BeganInSpaceAfter(second.err()), kAllSteps) << second.err();
  ExpectWhole(second, out_);
}

TEST_F(LimitsTest, AStandbyGoesOnWhereAManagerOfAFullDiskEnded) {
  Program broker({"broker", "--listen", endpoint_});
  Program handler(HandlerWords());
  Program first(ManagerWords(out_, never_), Limited());
  ASSERT_TRUE(first.WaitForErr("epoch 2/"));
  Program standby(ManagerWords(folder_ / "other", never_, {"--standby"}));
  ASSERT_TRUE(standby.WaitForErr("waiting to take over"));
  LimitDisk(50);
  EXPECT_EQ(first.Wait(), 1);
  EXPECT_EQ(standby.Wait(), 0) << standby.err();
  EXPECT_EQ(BeganInSpaceAfter(standby.err()), kAllSteps) << standby.err();
  ExpectWhole(standby, folder_ / "other");
}

TEST_F(LimitsTest, AStopThatCannotBeSavedLeavesTheWeightsInTheSpace) {
  Program broker({"broker", "--listen", endpoint_});
  Program handler(HandlerWords());
  Program first(ManagerWords(out_, never_), Limited());
  ASSERT_TRUE(first.WaitForErr("epoch 3/"));
  LimitDisk(50);
  ASSERT_TRUE(first.WaitForErr("its lines wait in memory"));
  first.Signal(SIGTERM);
  EXPECT_EQ(first.Wait(), 128 + SIGTERM) << first.err();
  EXPECT_THAT(first.err(), HasSubstr("was not written"));
  FreeDisk();
  Program second(ManagerWords(out_, never_, {"--resume"}));
  EXPECT_EQ(second.Wait(), 0) << second.err();
  EXPECT_GE(BeganInSpaceAfter(second.err()), 200) << second.err();
  ExpectWhole(second, out_);
}

TEST_F(LimitsTest, AFolderThatCannotBeMadeAgainLeavesTheWeightsInTheSpace) {
  Program broker({"broker", "--listen", endpoint_});
  Program handler(HandlerWords());
  Program first(ManagerWords(out_, often_));
  ASSERT_TRUE(first.WaitForErr("epoch 2/"));
  std::filesystem::rename(out_, folder_ / "moved");
  std::ofstream(out_).close();
  EXPECT_EQ(first.Wait(), 1);
  EXPECT_THAT(first.err(), HasSubstr("cannot make the output folder " + out_));
  Program second(ManagerWords(folder_ / "other", often_, {"--resume"}));
  EXPECT_EQ(second.Wait(), 0) << second.err();
  EXPECT_GE(BeganInSpaceAfter(second.err()), 100) << second.err();
  ExpectWhole(second, folder_ / "other");
}

// ---- the disk is temporarily full ---------------------------------------------------------------

TEST_F(LimitsTest, LinesWaitWhileTheDiskIsFull) {
  Program train(TrainWords(never_), Limited());
  ASSERT_TRUE(train.WaitForErr("epoch 2/"));
  LimitDisk(50);  // part of the next line
  ASSERT_TRUE(train.WaitForErr(out_ + "/metrics.jsonl cannot be written: No space left on device"));
  ASSERT_TRUE(train.WaitForErr("epoch 4/"));
  FreeDisk();
  EXPECT_EQ(train.Wait(), 0) << train.err();
  EXPECT_THAT(train.err(), HasSubstr(out_ + "/metrics.jsonl can be written again"));
  ExpectWhole(train, out_);
}

// ---- snapshots and the model -------------------------------------------------------------------

constexpr std::int64_t kSnapshotBytes = 275'000;

TEST_F(LimitsTest, TheOlderSnapshotGoesForTheNextOne) {
  std::filesystem::create_directory(out_);
  SetDisk(2 * kSnapshotBytes + 200'000);
  Program train(TrainWords(often_), Limited());
  EXPECT_EQ(train.Wait(), 0) << train.err();
  EXPECT_THAT(train.err(), HasSubstr("the disk has no room for three snapshots"));
  EXPECT_THAT(train.err(), Not(HasSubstr("was not written")));
  ExpectWhole(train, out_);
}

// Both snapshots of a stopped run are there, so the resumed run, which writes none, ends with both.
void LimitsTest::StopInTheMiddle() {
  std::filesystem::create_directory(out_);
  Program first(TrainWords(often_), Limited());
  ASSERT_TRUE(first.WaitForErr("epoch 5/"));
  first.Signal(SIGTERM);
  EXPECT_EQ(first.Wait(), 128 + SIGTERM) << first.err();
}

// The model has 130 kB. Before the older snapshot goes, there is room for less, and even less when
// the steps have added their lines. Afterwards there is room for the model and for these lines.
TEST_F(LimitsTest, TheOlderSnapshotGoesForTheModel) {
  ASSERT_NO_FATAL_FAILURE(StopInTheMiddle());
  LimitDisk(65'000, "model.safetensors");
  Program second(ResumeWords(), Limited());
  EXPECT_EQ(second.Wait(), 0) << second.err();
  EXPECT_THAT(second.err(), HasSubstr("continuing from snapshot"));
  EXPECT_THAT(second.err(), HasSubstr("the disk had no room for model.safetensors: older"));
  ExpectWhole(second, out_);
}

// The model fits beside both snapshots, and the last line does not.
TEST_F(LimitsTest, TheOlderSnapshotGoesForTheLastLines) {
  ASSERT_NO_FATAL_FAILURE(StopInTheMiddle());
  LimitDisk(65'000, "tuning.jsonl");
  Program second(ResumeWords(), Limited());
  EXPECT_EQ(second.Wait(), 0) << second.err();
  EXPECT_THAT(second.err(), HasSubstr("the disk had no room for the last lines of"));
  ExpectWhole(second, out_);
}

// A resumed run copies the lines of its metrics. Here it has no room for the copy.
TEST_F(LimitsTest, TheOlderSnapshotGoesForTheCopyOfTheMetrics) {
  ASSERT_NO_FATAL_FAILURE(StopInTheMiddle());
  LimitDisk(3'000, "metrics.jsonl");
  Program second(ResumeWords(), Limited());
  EXPECT_EQ(second.Wait(), 0) << second.err();
  EXPECT_THAT(second.err(), HasSubstr("the disk had no room for a copy of metrics.jsonl: older"));
  ExpectWhole(second, out_);
}

// The folder has no room for the lock's text, and so for nothing that a resumed run writes.
TEST_F(LimitsTest, TheOlderSnapshotGoesForTheLockOfTheFolder) {
  ASSERT_NO_FATAL_FAILURE(StopInTheMiddle());
  LimitDisk(0);
  Program second(ResumeWords(), Limited());
  ASSERT_TRUE(second.WaitForErr("continuing from snapshot")) << second.err();
  FreeDisk();
  EXPECT_EQ(second.Wait(), 0) << second.err();
  EXPECT_THAT(second.err(), HasSubstr("the disk had no room for manager.lock: older"));
  ExpectWhole(second, out_);
}

// Otherwise the whole evaluation, or the whole second training, would be in vain.
TEST_F(LimitsTest, CommandsThatWriteNothingNeedNoRoomForTheModel) {
  const Result train = RunAcan(TrainWords(never_));
  ASSERT_EQ(train.code, 0) << train.err;
  const std::string temporary = folder_ / "tmp";
  std::filesystem::create_directory(temporary);
  folder_.Write("tmp.bytes", "10000");
  const Environment limited = {
      {"LD_PRELOAD", ACAN_LIMITED_SYSTEM}, {"LIMITED_DISK", temporary}, {"TMPDIR", temporary}};
  const Result eval = RunAcan({"eval", out_, "--handlers", "cpu:1@4MiB"}, limited);
  EXPECT_EQ(eval.code, 0) << eval.err;
  const Result verify = RunAcan({"verify", out_, "--rerun"}, limited);
  EXPECT_EQ(verify.code, 0) << verify.out << verify.err;
}

// ---- a disk that does not respond ---------------------------------------------------------------

// The copy of the metrics takes longer than the broker waits for a manager, or than there is a
// broker. The manager notices the latter at once, and what it has copied by then is of no use.
TEST_F(LimitsTest, AManagerHearsTheBrokerWhileItCopiesItsMetrics) {
  auto broker =
      std::make_unique<Program>(std::vector<std::string>{"broker", "--listen", endpoint_});
  Program handler(HandlerWords());
  Program first(ManagerWords(out_, often_));
  ASSERT_TRUE(first.WaitForErr("epoch 4/"));
  first.Signal(SIGTERM);
  EXPECT_EQ(first.Wait(), 128 + SIGTERM) << first.err();
  const std::string before = ReadFile(out_ + "/metrics.jsonl");
  HoldDisk();
  Program second(ManagerWords(out_, often_, {"--resume"}), Limited());
  ASSERT_TRUE(second.WaitForErr("the disk does not respond"));
  broker->Signal(SIGKILL);
  broker->Wait();
  ASSERT_TRUE(second.WaitForErr("lost the broker at"));
  EXPECT_EQ(ReadFile(out_ + "/metrics.jsonl"), before);
  broker = std::make_unique<Program>(std::vector<std::string>{"broker", "--listen", endpoint_});
  GoOnWithDisk();
  EXPECT_EQ(second.Wait(), 0) << second.err();
  EXPECT_THAT(second.err(), HasSubstr("the lead was lost with the broker or the connection"));
  ExpectWhole(second, out_);
  for (const auto& entry : std::filesystem::directory_iterator(out_)) {
    EXPECT_NE(entry.path().extension(), ".tmp");
  }
}

// ---- lines and records that the system accepts and does not keep --------------------------------

// The system says it only once.
TEST_F(LimitsTest, LinesThatDidNotReachTheDiskAreWrittenAgain) {
  Program train(TrainWords(often_), Limited());
  ASSERT_TRUE(train.WaitForErr("epoch 2/"));
  folder_.Write("out.unsynced", "");
  ASSERT_TRUE(train.WaitForErr(out_ + "/metrics.jsonl: cannot sync, so lines may be lost: Input"));
  std::filesystem::remove(out_ + ".unsynced");
  EXPECT_EQ(train.Wait(), 0) << train.err();
  EXPECT_THAT(train.err(), HasSubstr("; the run writes the file again: resuming"));
  ExpectWhole(train, out_);
}

// With audits, each life begins at the last snapshot, and none can follow it.
TEST_F(LimitsTest, ADiskThatKeepsNoLinesEndsTheRunAndItsSnapshotsStay) {
  const std::vector<std::string> words = {"train",      often_,         "--set", "tasks.audit=0.1",
                                          "--handlers", "2xcpu:1@4MiB", "--json"};
  const auto with = [&](const std::string& flag) {
    std::vector<std::string> all = words;
    all.insert(all.end(), {flag, out_});
    return all;
  };
  Program first(with("--out"), Limited());
  ASSERT_TRUE(first.WaitForErr("epoch 2/"));
  folder_.Write("out.unsynced", "");
  EXPECT_EQ(first.Wait(), 1) << first.err();
  EXPECT_THAT(first.err(), HasSubstr("lives of the run ended with this and did no new step"));
  std::filesystem::remove(out_ + ".unsynced");
  Program second(with("--resume"), Limited());
  EXPECT_EQ(second.Wait(), 0) << second.err();
  EXPECT_THAT(second.err(), HasSubstr("continuing from snapshot"));
  ExpectWhole(second, out_);
}

// The records that are lost cannot be written again.
TEST_F(LimitsTest, RecordsThatDidNotReachTheDiskEndTheRun) {
  const std::string log = folder_ / "audit.jsonl";
  std::vector<std::string> words = TrainWords(often_);
  words.insert(words.end(), {"--audit-log", log});
  Program first(words, Limited());
  ASSERT_TRUE(first.WaitForErr("epoch 2/"));
  folder_.Write("out.unlogged", "");
  EXPECT_EQ(first.Wait(), 1) << first.err();
  EXPECT_THAT(first.err(), HasSubstr(log + ": cannot sync, so records may be lost: Input"));
  words = ResumeWords();
  words.insert(words.end(), {"--audit-log", folder_ / "other.jsonl"});
  Program second(words);
  EXPECT_EQ(second.Wait(), 0) << second.err();
  ExpectWhole(second, out_);
}

// Otherwise a successor on another host would append its records at the same place.
TEST_F(LimitsTest, RecordsReachAFileServerBeforeOthersMayWrite) {
  const std::string log = folder_ / "audit.jsonl";
  folder_.Write("out.server", "");
  std::vector<std::string> words = TrainWords(never_);
  words.insert(words.end(), {"--audit-log", log});
  const Result train = RunAcan(words, Limited());
  EXPECT_EQ(train.code, 0) << train.err;
  EXPECT_THAT(train.err, HasSubstr(log + " is synced while it is locked"));
}

// ---- threads -----------------------------------------------------------------------------------

TEST_F(LimitsTest, WithoutThreadsSnapshotsFailAndTheRunGoesOn) {
  Program train(TrainWords(often_), Limited());
  ASSERT_TRUE(train.WaitForErr("epoch 2/"));
  LimitThreads();
  ASSERT_TRUE(train.WaitForErr("was not written: the system cannot start a thread for it"));
  EXPECT_EQ(train.Wait(), 0) << train.err();
  ExpectWhole(train, out_);
}

TEST_F(LimitsTest, ACommandThatGetsNoThreadsSaysSo) {
  LimitThreads();
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"broker", "--listen", endpoint_}, HandlerWords(),
        ManagerWords(out_, never_), TrainWords(never_)}) {
    const Result result = RunAcan(words, Limited());
    EXPECT_EQ(result.code, 1) << words[0];
    EXPECT_THAT(result.err, HasSubstr("pids.max")) << words[0];
  }
}

// One thread watches the key file. Without keys, three besides the main thread are enough.
TEST_F(LimitsTest, ABrokerWithKeysThatGetsNoThreadToWatchThemSaysSoAtItsStart) {
  ASSERT_EQ(RunAcan({"keygen", "--out", folder_ / "keys"}).code, 0);
  LimitThreads(4);
  const Result result =
      RunAcan({"broker", "--listen", endpoint_, "--keys", folder_ / "keys/broker.key"}, Limited());
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("acan broker needs at least 4"));
  EXPECT_EQ(result.out, "") << "it does not listen";
}

// There are threads for the handler itself, but only for some of its device.
TEST_F(LimitsTest, AHandlerThatGetsTooFewThreadsForItsDeviceSaysSo) {
  LimitThreads(20);
  const Result result = RunAcan(
      {"handler", "--connect", endpoint_, "--device", "cpu:64", "--memory", "64MiB"}, Limited());
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, HasSubstr("the system cannot start another thread of this process"));
}

TEST_F(LimitsTest, SnapshotsAreWrittenAgainWhenThereAreThreads) {
  Program train(TrainWords(often_), Limited());
  ASSERT_TRUE(train.WaitForErr("epoch 2/"));
  LimitThreads();
  ASSERT_TRUE(train.WaitForErr("was not written: the system cannot start a thread for it"));
  FreeThreads();
  ASSERT_TRUE(train.WaitForErr("epoch 6/"));
  train.Signal(SIGTERM);
  EXPECT_EQ(train.Wait(), 128 + SIGTERM) << train.err();
  EXPECT_THAT(train.err(), HasSubstr("no work is lost"));
}

// ---- processes ---------------------------------------------------------------------------------

TEST_F(LimitsTest, WithoutProcessesARestartIsTriedUntilThereAreSome) {
  Program train(TrainWords(often_), Limited());
  ASSERT_TRUE(train.WaitForErr("epoch 2/"));
  LimitProcesses();
  for (const pid_t pid : train.Descendants()) SignalProcess(pid, SIGKILL);
  ASSERT_TRUE(
      train.WaitForErr("the broker cannot be restarted: cannot start a child process: Resource"));
  ASSERT_TRUE(train.WaitForErr("handler cpu:1 cannot be restarted: cannot start a child process"));
  FreeProcesses();
  EXPECT_EQ(train.Wait(), 0) << train.err();
  ExpectWhole(train, out_);
}

}  // namespace
}  // namespace acan::testing
