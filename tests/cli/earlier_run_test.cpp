// What becomes of an earlier run in the output folder, and what is said of it.
#include <signal.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "job_fixture.h"
#include "program.h"

namespace acan::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

// Its largest task needs more than the 64KiB that a handler must have at least.
constexpr const char* kLargeTasks = R"(
[model]
layers = [300, 300, 2]
loss = "mse"
[data]
generated = "regression"
samples = 32
[train]
block = 256
epochs = 1
)";

class EarlierRun : public ::testing::Test {
 protected:
  std::vector<std::string> Train(const std::string& job, const std::string& handlers) const {
    return {"train", job, "--handlers", handlers, "--out", out_};
  }
  std::string InOut(const std::string& name) const { return ReadFile(out_ + "/" + name); }
  // The text of each file in the output folder, by name.
  std::map<std::string, std::string> FilesInOut() const {
    std::map<std::string, std::string> files;
    for (const auto& entry : std::filesystem::directory_iterator(out_)) {
      const std::string name = entry.path().filename().string();
      files[name] = entry.is_directory() ? "a folder" : InOut(name);
    }
    return files;
  }

  const TestFolder folder_;
  const std::string out_ = folder_ / "out/run";
};

TEST_F(EarlierRun, StaysIfTheNewOneHasNoHandlerWithEnoughMemory) {
  const std::string job = folder_.Write("job.toml", kLargeTasks);
  ASSERT_EQ(RunAcan(Train(job, "cpu:1@16MiB")).code, 0);
  const std::string model = InOut("model.safetensors");
  const std::string receipt = InOut("receipt.json");
  ASSERT_NE(model, "");
  Result again = RunAcan(Train(job, "cpu:1@64KiB"));
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.err, HasSubstr("the largest task needs"));
  EXPECT_EQ(InOut("model.safetensors"), model);
  EXPECT_EQ(InOut("receipt.json"), receipt);
  // One with enough replaces it, without a warning, because it is the same job.
  again = RunAcan(Train(job, "cpu:1@16MiB"));
  EXPECT_EQ(again.code, 0);
  EXPECT_THAT(again.err, Not(HasSubstr("finished run")));
  EXPECT_EQ(InOut("model.safetensors"), model);
  EXPECT_NE(InOut("receipt.json"), receipt);
}

TEST_F(EarlierRun, StaysWhileAManagerWaitsForHandlers) {
  const std::string job = folder_.Write("job.toml", SmallJob());
  ASSERT_EQ(RunAcan(Train(job, "cpu:1@16MiB")).code, 0);
  const std::map<std::string, std::string> files = FilesInOut();
  ASSERT_TRUE(files.contains("receipt.json"));
  Program broker({"broker", "--listen", "ipc://" + (folder_ / "space")});
  ASSERT_NE(EndpointOf(broker), "");
  Program manager({"manager", "--connect", "ipc://" + (folder_ / "space"), job, "--out", out_});
  ASSERT_TRUE(manager.WaitForErr("no handler has joined yet"));
  manager.Signal(SIGTERM);
  EXPECT_EQ(manager.Wait(), 128 + SIGTERM);
  EXPECT_THAT(manager.err(),
              AllOf(HasSubstr("stopped before the first step"), Not(HasSubstr("to continue"))));
  EXPECT_EQ(FilesInOut(), files);
}

// The new run has not begun when its broker is lost, so it does not take the earlier one for its
// own.
TEST_F(EarlierRun, IsNotResumedByANewRunThatLosesItsBroker) {
  const std::string job = folder_.Write("job.toml", SmallJob());
  ASSERT_EQ(RunAcan(Train(job, "cpu:1@16MiB")).code, 0);
  const std::string model = InOut("model.safetensors");
  const std::string receipt = InOut("receipt.json");
  const std::string endpoint = "ipc://" + (folder_ / "space");
  std::optional<Program> broker;
  broker.emplace(std::vector<std::string>{"broker", "--listen", endpoint});
  ASSERT_NE(EndpointOf(*broker), "");
  Program manager({"manager", "--connect", endpoint, job, "--out", out_});
  ASSERT_TRUE(manager.WaitForErr("no handler has joined yet"));
  broker->Signal(SIGKILL);
  EXPECT_EQ(broker->Wait(), -SIGKILL);
  ASSERT_TRUE(manager.WaitForErr("lost the broker"));
  broker.emplace(std::vector<std::string>{"broker", "--listen", endpoint});
  ASSERT_TRUE(manager.WaitForErr("resuming"));
  EXPECT_EQ(InOut("receipt.json"), receipt);
  Program handler({"handler", "--connect", endpoint, "--device", "cpu:1", "--memory", "16MiB"});
  EXPECT_EQ(manager.Wait(), 0) << manager.err();
  EXPECT_THAT(manager.err(), Not(HasSubstr("done already")));
  EXPECT_EQ(InOut("model.safetensors"), model);
  EXPECT_NE(InOut("receipt.json"), receipt);
}

// A new run that has not begun is stopped for so long that another manager finishes its job.
TEST_F(EarlierRun, OfAManagerThatStoodByIsReported) {
  const std::string job = folder_.Write("job.toml", SmallJob());
  const std::string endpoint = "ipc://" + (folder_ / "space");
  Program broker({"broker", "--listen", endpoint});
  ASSERT_NE(EndpointOf(broker), "");
  Program first({"manager", "--connect", endpoint, job, "--out", out_});
  ASSERT_TRUE(first.WaitForErr("no handler has joined yet"));
  Program standby({"manager", "--connect", endpoint, job, "--out", folder_ / "other", "--standby"});
  ASSERT_TRUE(standby.WaitForErr("waiting to take over"));
  first.Signal(SIGSTOP);
  ASSERT_TRUE(standby.WaitForErr("no handler has joined yet"));
  Program handler({"handler", "--connect", endpoint, "--device", "cpu:1", "--memory", "16MiB"});
  EXPECT_EQ(standby.Wait(), 0) << standby.err();
  first.Signal(SIGCONT);
  EXPECT_EQ(first.Wait(), 0) << first.err();
  EXPECT_THAT(first.err(), HasSubstr("the job is done already"));
}

// The same, but the other manager is killed in the middle of the job.
TEST_F(EarlierRun, OfAManagerThatStoodByIsContinued) {
  const std::string job = folder_.Write("job.toml", EndlessJob());
  const std::string endpoint = "ipc://" + (folder_ / "space");
  Program broker({"broker", "--listen", endpoint});
  ASSERT_NE(EndpointOf(broker), "");
  Program first({"manager", "--connect", endpoint, job, "--out", out_});
  ASSERT_TRUE(first.WaitForErr("no handler has joined yet"));
  Program standby({"manager", "--connect", endpoint, job, "--out", folder_ / "other", "--standby"});
  ASSERT_TRUE(standby.WaitForErr("waiting to take over"));
  first.Signal(SIGSTOP);
  ASSERT_TRUE(standby.WaitForErr("beginning it"));
  Program handler({"handler", "--connect", endpoint, "--device", "cpu:1", "--memory", "16MiB"});
  ASSERT_TRUE(standby.WaitForErr("epoch 2/"));
  first.Signal(SIGCONT);
  ASSERT_TRUE(first.WaitForErr("waiting to take over"));
  standby.Signal(SIGKILL);
  EXPECT_EQ(standby.Wait(), -SIGKILL);
  EXPECT_TRUE(first.WaitForErr("another manager has begun the run meanwhile: resuming it"));
  EXPECT_TRUE(first.WaitForErr("continuing from the weights in the space"));
}

// A standby manager begins what the one before it could not.
TEST_F(EarlierRun, IsNotWhatAStandbyTakesForTheNewOne) {
  const std::string job = folder_.Write("job.toml", SmallJob());
  ASSERT_EQ(RunAcan(Train(job, "cpu:1@16MiB")).code, 0);
  const std::string model = InOut("model.safetensors");
  const std::string receipt = InOut("receipt.json");
  const std::string endpoint = "ipc://" + (folder_ / "space");
  Program broker({"broker", "--listen", endpoint});
  ASSERT_NE(EndpointOf(broker), "");
  Program first({"manager", "--connect", endpoint, job, "--out", out_});
  ASSERT_TRUE(first.WaitForErr("no handler has joined yet"));
  Program standby({"manager", "--connect", endpoint, job, "--out", out_, "--standby"});
  ASSERT_TRUE(standby.WaitForErr("waiting to take over"));
  first.Signal(SIGKILL);
  EXPECT_EQ(first.Wait(), -SIGKILL);
  ASSERT_TRUE(standby.WaitForErr("no handler has joined yet"));
  EXPECT_EQ(InOut("receipt.json"), receipt);
  Program handler({"handler", "--connect", endpoint, "--device", "cpu:1", "--memory", "16MiB"});
  EXPECT_EQ(standby.Wait(), 0) << standby.err();
  EXPECT_THAT(standby.err(), Not(HasSubstr("done already")));
  EXPECT_EQ(InOut("model.safetensors"), model);
  EXPECT_NE(InOut("receipt.json"), receipt);
}

TEST_F(EarlierRun, ThatIsUnfinishedIsNamedBeforeItIsReplaced) {
  const std::string job = folder_.Write("job.toml", EndlessJob());
  {
    Program train(Train(job, "cpu:1@16MiB"));
    ASSERT_TRUE(train.WaitForErr("epoch 1/"));
    train.Signal(SIGINT);
    ASSERT_EQ(train.Wait(), 128 + SIGINT) << train.err();
    EXPECT_THAT(train.err(), Not(HasSubstr("unfinished")));
  }
  Program again(Train(job, "cpu:1@16MiB"));
  ASSERT_TRUE(
      again.WaitForErr("warning: " + out_ + " has snapshots of an unfinished run up to step"));
  ASSERT_TRUE(again.WaitForErr("(to continue it: acan train --resume " + out_ + ")"));
  ASSERT_TRUE(again.WaitForErr("epoch 1/"));
  again.Signal(SIGINT);
  ASSERT_EQ(again.Wait(), 128 + SIGINT) << again.err();
  Program chaos({"chaos", job, "--handlers", "cpu:1@16MiB", "--out", out_});
  ASSERT_TRUE(
      chaos.WaitForErr("warning: " + out_ + " has snapshots of an unfinished run up to step"));
  ASSERT_TRUE(chaos.WaitForErr("epoch 1/"));
  chaos.Signal(SIGINT);
  ASSERT_EQ(chaos.Wait(), 128 + SIGINT) << chaos.err();
  Program resumed({"train", "--resume", out_, "--handlers", "cpu:1@16MiB"});
  ASSERT_TRUE(resumed.WaitForErr("continuing from snapshot"));
  resumed.Signal(SIGINT);
  EXPECT_EQ(resumed.Wait(), 128 + SIGINT);
  EXPECT_THAT(resumed.err(), Not(HasSubstr("unfinished")));
}

TEST_F(EarlierRun, OfAnotherJobIsNamedBeforeItIsReplaced) {
  const std::string job = folder_.Write("job.toml", SmallJob());
  ASSERT_EQ(RunAcan(Train(job, "cpu:1@16MiB")).code, 0);
  std::vector<std::string> words = Train(job, "cpu:1@16MiB");
  words.insert(words.end(), {"--set", "train.seed=7"});
  const Result other = RunAcan(words);
  EXPECT_EQ(other.code, 0);
  EXPECT_THAT(other.err, HasSubstr("warning: " + out_ +
                                   " has a finished run of another job, which this run replaces"));
}

// There is nothing that it could go on from, so nothing is left and no such advice is given.
TEST_F(EarlierRun, IsNoneIfASignalCameBeforeTheFirstStep) {
  const std::string job = folder_.Write("job.toml", EndlessJob());
  const TestFolder space;
  const std::string endpoint = "ipc://" + (space / "space");
  Program broker({"broker", "--listen", endpoint});
  ASSERT_NE(EndpointOf(broker), "");
  // Without a handler, it cannot be too fast for the signal.
  Program manager({"manager", "--connect", endpoint, job, "--out", folder_ / "waiting"});
  Program train(Train(job, "cpu:1@16MiB"));
  ASSERT_TRUE(train.WaitForErr("the job, with all defaults"));
  train.Signal(SIGINT);
  EXPECT_EQ(train.Wait(), 128 + SIGINT) << train.err();
  ASSERT_TRUE(manager.WaitForErr("no handler has joined yet"));
  manager.Signal(SIGINT);
  EXPECT_EQ(manager.Wait(), 128 + SIGINT) << manager.err();
  EXPECT_THAT(manager.err(),
              AllOf(HasSubstr("stopped before the first step"), Not(HasSubstr("--resume"))));
  EXPECT_FALSE(std::filesystem::exists(folder_ / "waiting"));
  if (train.err().find("stopped; ") != std::string::npos) {
    GTEST_SKIP() << "train was too fast for the signal";
  }
  // A signal that comes before the command has started processes ends it without a word.
  EXPECT_THAT(train.err(), Not(HasSubstr("--resume")));
  EXPECT_THAT(folder_.Names(), ::testing::ElementsAre("job.toml"));
}

}  // namespace
}  // namespace acan::testing
