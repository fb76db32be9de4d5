// Nothing remains, whichever process stops or dies.
#include <signal.h>

#include <chrono>
#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "job_fixture.h"
#include "program.h"

namespace acan::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

TEST(FullSpace, IsNamedWithItsLimit) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", EndlessJob());
  Program train({"train", job, "--handlers", "cpu:1@16MiB"}, {{"ACAN_PAYLOADS", "8KiB"}});
  EXPECT_TRUE(train.WaitForErr("limits.payload_bytes")) << train.err();
  train.Signal(SIGINT);
  EXPECT_EQ(train.Wait(), 130) << train.err();
}

TEST(FullSpace, ThatCanNeverHoldAResultIsNamedWithWhatIsEnough) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", SmallJob());
  const Result result = RunAcan({"train", job, "--handlers", "cpu:1@16MiB", "--out", folder / "out",
                                 "--set", "model.layers=[16,512,4]"},
                                {{"ACAN_PAYLOADS", "24KiB"}});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("the broker refused its results: limits.payload_bytes"),
                                HasSubstr("MiB is enough (acan broker --payloads ")));
}

TEST(FullSpace, ThatCanNeverHoldAStepIsNamedWithWhatIsEnough) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", SmallJob());
  const std::vector<std::string> words = {
      "train",        job,     "--handlers",        "cpu:1@16MiB", "--out",
      folder / "out", "--set", "data.samples=8192", "--set",       "train.batch=8192"};
  const Result small = RunAcan(words, {{"ACAN_PAYLOADS", "64KiB"}});
  EXPECT_EQ(small.code, 1);
  EXPECT_THAT(small.err, AllOf(HasSubstr("limits.payload_bytes"), HasSubstr("--payloads ")));
  constexpr std::string_view kVariable = "ACAN_PAYLOADS=";
  const std::size_t at = small.err.rfind(kVariable);
  ASSERT_NE(at, std::string::npos) << small.err;
  const std::size_t begin = at + kVariable.size();
  const std::string enough = small.err.substr(begin, small.err.find(' ', begin) - begin);
  const Result large = RunAcan(words, {{"ACAN_PAYLOADS", enough}});
  EXPECT_EQ(large.code, 0) << enough << large.err;
  EXPECT_THAT(large.err, ::testing::Not(HasSubstr("limits.payload_bytes")));
}

// `acan train` on an endless job with two handlers. Its temporary files are in a folder of the
// test.
class Training : public ::testing::Test {
 protected:
  Training()
      : job_(folder_.Write("job.toml", EndlessJob())),
        shared_memory_(SharedMemoryNames()),
        train_({"train", job_, "--handlers", "2xcpu:1@16MiB", "--out", folder_ / "out"},
               {{"TMPDIR", temporary_.path()}}) {}

  // Waits for the first steps; then all processes are running.
  void WaitUntilItTrains() {
    ASSERT_TRUE(train_.WaitForErr("epoch 1/"));
    children_ = train_.Descendants();
    ASSERT_EQ(children_.size(), 3u) << train_.err();
    EXPECT_EQ(temporary_.Names().size(), 1u);
  }

  void KillChildThatRuns(const std::string& role) {
    for (const pid_t pid : train_.Descendants()) {
      if (CommandLine(pid).find(role) == std::string::npos) continue;
      SignalProcess(pid, SIGKILL);
      return;
    }
    FAIL() << "no child runs " << role;
  }

  void ExpectNothingLeft() {
    EXPECT_TRUE(AllGone(children_));
    EXPECT_THAT(temporary_.Names(), IsEmpty());
    EXPECT_THAT(SharedMemoryNames(), ::testing::IsSubsetOf(shared_memory_));
  }

  TestFolder folder_;
  TestFolder temporary_;
  std::string job_;
  std::set<std::string> shared_memory_;
  Program train_;
  std::set<pid_t> children_;
};

TEST_F(Training, StopsCleanlyBySigint) {
  ASSERT_NO_FATAL_FAILURE(WaitUntilItTrains());
  train_.Signal(SIGINT);
  EXPECT_EQ(train_.Wait(), 128 + SIGINT) << train_.err();
  ExpectNothingLeft();
}

TEST_F(Training, StopsCleanlyBySighup) {
  ASSERT_NO_FATAL_FAILURE(WaitUntilItTrains());
  train_.Signal(SIGHUP);
  EXPECT_EQ(train_.Wait(), 128 + SIGHUP) << train_.err();
  ExpectNothingLeft();
}

TEST_F(Training, StopsCleanlyBySigterm) {
  ASSERT_NO_FATAL_FAILURE(WaitUntilItTrains());
  train_.Signal(SIGTERM);
  EXPECT_EQ(train_.Wait(), 128 + SIGTERM) << train_.err();
  ExpectNothingLeft();
}

// Like systemd with a unit, or a shutdown or pkill. The children get the signal first.
TEST_F(Training, ASignalToAllOfItsProcessesLosesNothing) {
  ASSERT_NO_FATAL_FAILURE(WaitUntilItTrains());
  for (const pid_t pid : children_) SignalProcess(pid, SIGTERM);
  train_.Signal(SIGTERM);
  EXPECT_EQ(train_.Wait(), 128 + SIGTERM) << train_.err();
  EXPECT_THAT(train_.err(),
              AllOf(HasSubstr("no work is lost"), ::testing::Not(HasSubstr("restarting it"))));
  ExpectNothingLeft();
}

TEST_F(Training, AnotherSigtermEndsAChild) {
  ASSERT_NO_FATAL_FAILURE(WaitUntilItTrains());
  const pid_t child = *children_.begin();
  // The kernel merges a second signal with a first one that is still pending.
  while (SignalProcess(child, SIGTERM)) train_.Runs();
  ASSERT_TRUE(train_.WaitForErr("restarting it"));
  train_.Signal(SIGTERM);
  EXPECT_EQ(train_.Wait(), 128 + SIGTERM) << train_.err();
  ExpectNothingLeft();
}

TEST_F(Training, SaysWhatItWritesAndHowToStopAtOnce) {
  ASSERT_NO_FATAL_FAILURE(WaitUntilItTrains());
  train_.Signal(SIGINT);
  EXPECT_EQ(train_.Wait(), 128 + SIGINT) << train_.err();
  EXPECT_THAT(train_.err(), AllOf(HasSubstr("stopping: "), HasSubstr("snapshot of step"),
                                  HasSubstr("no work is lost"),
                                  HasSubstr("acan train --resume " + (folder_ / "out"))));
}

// The broker does not answer, so the state cannot be saved in the given time. The run must end
// without that.
TEST_F(Training, AStopTakesNoLongerThanItMay) {
  Program train({"train", job_, "--handlers", "cpu:1@16MiB", "--out", folder_ / "other",
                 "--stop-within", "0.5"});
  ASSERT_TRUE(train.WaitForErr("epoch 1/"));
  const std::set<pid_t> children = train.Descendants();
  for (const pid_t pid : children) SignalProcess(pid, SIGSTOP);
  train.Signal(SIGTERM);
  EXPECT_TRUE(train.WaitForErr("without a snapshot of it: it was not written within the time"));
  for (const pid_t pid : children) SignalProcess(pid, SIGCONT);
  EXPECT_EQ(train.Wait(), 128 + SIGTERM) << train.err();
  EXPECT_TRUE(AllGone(children));
  train_.Signal(SIGTERM);
  train_.Wait();
}

TEST(StopWithin, IsANumberOfSeconds) {
  for (const char* wrong : {"-1", "soon", "1e9"}) {
    const Result result = RunAcan({"train", "job.toml", "--stop-within", wrong});
    EXPECT_EQ(result.code, 2) << wrong;
    EXPECT_THAT(result.err, HasSubstr("--stop-within")) << wrong;
  }
}

TEST_F(Training, ASignalBeforeTheFirstStepStopsToo) {
  ASSERT_TRUE(train_.WaitForErr("the job, with all defaults"));
  train_.Signal(SIGTERM);
  EXPECT_EQ(train_.Wait(), 128 + SIGTERM) << train_.err();
  ExpectNothingLeft();
}

TEST_F(Training, ASecondSignalEndsItAtOnce) {
  ASSERT_NO_FATAL_FAILURE(WaitUntilItTrains());
  for (const pid_t pid : children_)
    SignalProcess(pid, SIGSTOP);  // so that it cannot obey the first signal
  train_.Signal(SIGINT);
  train_.Signal(SIGTERM);
  const int code = train_.Wait();
  EXPECT_TRUE(code == 128 + SIGINT || code == 128 + SIGTERM) << code;
  ExpectNothingLeft();
}

TEST_F(Training, LeavesNoChildWhenItIsKilled) {
  ASSERT_NO_FATAL_FAILURE(WaitUntilItTrains());
  train_.Signal(SIGKILL);
  EXPECT_EQ(train_.Wait(), -SIGKILL);
  ExpectNothingLeft();
}

// The broker could not find a folder of its parent by an endpoint of tcp.
TEST(TrainingOverTcp, LeavesNoFolderWhenItIsKilled) {
  const TestFolder folder;
  const TestFolder temporary;
  Program train({"train", folder.Write("job.toml", EndlessJob()), "--handlers", "cpu:1@16MiB",
                 "--transport", "tcp", "--out", folder / "out"},
                {{"TMPDIR", temporary.path()}});
  ASSERT_TRUE(train.WaitForErr("epoch 1/"));
  const std::set<pid_t> children = train.Descendants();
  train.Signal(SIGKILL);
  EXPECT_EQ(train.Wait(), -SIGKILL);
  EXPECT_TRUE(AllGone(children));
  EXPECT_THAT(temporary.Names(), IsEmpty());
}

// If all processes of a run are killed, it cannot clean up. The next run does, and leaves folders
// with an owner alone, and those of other hosts, whose locks it does not see where hosts share the
// folder.
TEST_F(Training, TheNextOneRemovesWhatAKilledOneLeft) {
  ASSERT_NO_FATAL_FAILURE(WaitUntilItTrains());
  const std::vector<std::string> of_first = temporary_.Names();
  const std::string small = folder_.Write("small.toml", SmallJob());
  const std::vector<std::string> words = {"train",       small,   "--handlers",
                                          "cpu:1@16MiB", "--out", folder_ / "small"};
  const Environment environment = {{"TMPDIR", temporary_.path()}};
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  ASSERT_GE(boot.size(), 8u);
  const std::string other = boot.starts_with("01234567") ? "76543210" : "01234567";
  // Nobody locks them. Only the first one is known to be dead.
  std::filesystem::create_directory(temporary_ / ("acan-run-" + boot.substr(0, 8) + "-ABCDEF"));
  const std::vector<std::string> living = {"acan-run-" + other + "-ABCDEF", "acan-run-ABCDEF",
                                           "acan-ABCDEF"};
  for (const std::string& name : living) std::filesystem::create_directory(temporary_ / name);
  Result next = RunAcan(words, environment);
  EXPECT_EQ(next.code, 0) << next.err;
  EXPECT_THAT(temporary_.Names(),
              UnorderedElementsAre(of_first.front(), living[0], living[1], living[2]));
  for (const std::string& name : living) std::filesystem::remove(temporary_ / name);

  for (const pid_t pid : children_) SignalProcess(pid, SIGSTOP);
  train_.Signal(SIGSTOP);
  for (const pid_t pid : children_) SignalProcess(pid, SIGKILL);
  train_.Signal(SIGKILL);
  EXPECT_EQ(train_.Wait(), -SIGKILL);
  EXPECT_TRUE(AllGone(children_));
  EXPECT_EQ(temporary_.Names(), of_first);
  next = RunAcan(words, environment);
  EXPECT_EQ(next.code, 0) << next.err;
  EXPECT_THAT(temporary_.Names(), IsEmpty());
}

TEST_F(Training, StartsAHandlerThatDiedAgain) {
  ASSERT_NO_FATAL_FAILURE(WaitUntilItTrains());
  ASSERT_NO_FATAL_FAILURE(KillChildThatRuns(" handler "));
  ASSERT_TRUE(train_.WaitForErr("restarting it"));
  ASSERT_TRUE(train_.WaitForErr("restart 1"));
  train_.Signal(SIGTERM);
  EXPECT_EQ(train_.Wait(), 128 + SIGTERM) << train_.err();
  ExpectNothingLeft();
}

// As the kernel does where memory is short.
TEST_F(Training, NamesALikelyCauseIfHandlersAreKilledSoonAfterTheirStart) {
  ASSERT_NO_FATAL_FAILURE(WaitUntilItTrains());
  const auto is_said = [this] {
    return train_.err().find("3 handlers in a row were killed within 5 s") != std::string::npos;
  };
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (train_.Runs() && !is_said() && std::chrono::steady_clock::now() < deadline) {
    for (const pid_t pid : train_.Descendants()) {
      if (CommandLine(pid).find(" handler ") != std::string::npos) SignalProcess(pid, SIGKILL);
    }
    WaitForAny({&train_}, std::chrono::steady_clock::now() + std::chrono::milliseconds(20));
  }
  EXPECT_TRUE(is_said()) << train_.err();
  train_.Signal(SIGTERM);
  EXPECT_EQ(train_.Wait(), 128 + SIGTERM) << train_.err();
  ExpectNothingLeft();
}

TEST_F(Training, StartsABrokerThatDiedAgain) {
  ASSERT_NO_FATAL_FAILURE(WaitUntilItTrains());
  ASSERT_NO_FATAL_FAILURE(KillChildThatRuns(" broker "));
  ASSERT_TRUE(train_.WaitForErr("was killed by signal 9 (Killed); restarting it"));
  ASSERT_TRUE(train_.WaitForErr("the lead was lost with the broker or the connection: resuming"));
  train_.Signal(SIGTERM);
  EXPECT_EQ(train_.Wait(), 128 + SIGTERM) << train_.err();
  ExpectNothingLeft();
}

// The leader waits for handlers, of which there are none; the standby waits for the lead.
TEST(AManagerWithoutABroker, StopsCleanlyBySigterm) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", EndlessJob());
  const std::string endpoint = "ipc://" + (folder / "space");
  const auto words = [&](const char* flag) {
    return std::vector<std::string>{"manager", "--connect",    endpoint, job,
                                    "--out",   folder / "out", flag};
  };
  Program broker({"broker", "--listen", endpoint});
  Program leader(words("--resume"));
  ASSERT_TRUE(leader.WaitForErr("starting over"));
  Program standby(words("--standby"));
  ASSERT_TRUE(standby.WaitForErr("waiting to take over"));
  broker.Signal(SIGKILL);
  EXPECT_EQ(broker.Wait(), -SIGKILL);
  for (Program* manager : {&leader, &standby}) {
    ASSERT_TRUE(manager->WaitForErr("lost the broker"));
    manager->Signal(SIGTERM);
    EXPECT_EQ(manager->Wait(), 128 + SIGTERM) << manager->err();
  }
}

TEST(AManagerWithoutTimeToSave, SaysWhereItsStepsAreAndTheNextOneContinues) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", EndlessJob());
  const std::string endpoint = "ipc://" + (folder / "space");
  const auto words = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"manager", "--connect", endpoint, job, "--out", folder / "out"};
    all.insert(all.end(), {"--set", "snapshots.every_steps=1000000"});
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  Program broker({"broker", "--listen", endpoint});
  Program handler({"handler", "--connect", endpoint, "--device", "cpu:1", "--memory", "16MiB"});
  Program first(words({"--stop-within", "0"}));
  ASSERT_TRUE(first.WaitForErr("epoch 1/"));
  first.Signal(SIGTERM);
  EXPECT_EQ(first.Wait(), 128 + SIGTERM) << first.err();
  EXPECT_THAT(first.err(),
              AllOf(HasSubstr("without a snapshot of it: it was not written within the time"),
                    HasSubstr("stopped; the space has the last steps as long as the broker runs")));
  Program second(words({"--resume"}));
  EXPECT_TRUE(second.WaitForErr("continuing from the weights in the space, after step"));
  second.Signal(SIGTERM);
  EXPECT_EQ(second.Wait(), 128 + SIGTERM) << second.err();
}

// Its broker ends with it.
TEST(ATrainingWithoutSnapshots, SaysThatItWouldBeginAnew) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", EndlessJob());
  Program train({"train", job, "--handlers", "cpu:1@16MiB", "--out", folder / "out", "--set",
                 "snapshots.every_steps=0"});
  ASSERT_TRUE(train.WaitForErr("epoch 1/"));
  train.Signal(SIGTERM);
  EXPECT_EQ(train.Wait(), 128 + SIGTERM) << train.err();
  EXPECT_THAT(train.err(),
              AllOf(HasSubstr("snapshots.every_steps = 0 turns snapshots off"),
                    HasSubstr("there is no snapshot, so this begins anew: acan train --resume ")));
}

// ---- separate roles that get their signals at the same time, as from a batch system

class SeparateRoles : public ::testing::Test {
 protected:
  SeparateRoles()
      : endpoint_("ipc://" + (folder_ / "space")),
        broker_({"broker", "--listen", endpoint_}),
        handler_({"handler", "--connect", endpoint_, "--device", "cpu:1", "--memory", "16MiB"}),
        manager_({"manager", "--connect", endpoint_, folder_.Write("job.toml", EndlessJob()),
                  "--out", folder_ / "out"}) {}

  const TestFolder folder_;
  const std::string endpoint_;
  Program broker_;
  Program handler_;
  Program manager_;
};

TEST_F(SeparateRoles, LoseNothingThoughTheBrokerAndTheHandlerAreStoppedFirst) {
  ASSERT_TRUE(manager_.WaitForErr("epoch 2/"));
  broker_.Signal(SIGTERM);
  ASSERT_TRUE(broker_.WaitForErr("leads a job"));
  handler_.Signal(SIGTERM);
  EXPECT_EQ(handler_.Wait(), 128 + SIGTERM) << handler_.err();
  manager_.Signal(SIGTERM);
  EXPECT_EQ(manager_.Wait(), 128 + SIGTERM) << manager_.err();
  EXPECT_THAT(manager_.err(), HasSubstr("no work is lost"));
  EXPECT_EQ(broker_.Wait(), 128 + SIGTERM) << broker_.err();
  EXPECT_THAT(broker_.err(), ::testing::Not(HasSubstr("stopping after")));
}

TEST_F(SeparateRoles, OfThemABrokerEndsAtOnceByASecondSignal) {
  ASSERT_TRUE(manager_.WaitForErr("epoch 2/"));
  broker_.Signal(SIGTERM);
  ASSERT_TRUE(broker_.WaitForErr("leads a job"));
  broker_.Signal(SIGINT);
  EXPECT_EQ(broker_.Wait(), 128 + SIGINT) << broker_.err();
}

// A batch system's signal to all processes, and then that of its script.
TEST_F(SeparateRoles, TakeASecondSigtermSoonAfterTheFirstForTheFirst) {
  ASSERT_TRUE(manager_.WaitForErr("epoch 2/"));
  manager_.Signal(SIGTERM);
  ASSERT_TRUE(manager_.WaitForErr("stopping: "));
  manager_.Signal(SIGTERM);
  EXPECT_EQ(manager_.Wait(), 128 + SIGTERM) << manager_.err();
  EXPECT_THAT(manager_.err(), HasSubstr("no work is lost"));
}

TEST(TrainingThatCannotStart, GivesUpAndSaysWhy) {
  const TestFolder folder;
  const TestFolder temporary;
  const std::string job = folder.Write("job.toml", SmallJob());
  const Result result = RunAcan({"train", job, "--handlers", "2xcpu:1", "--out", folder / "out"},
                                {{"TMPDIR", temporary.path()}, {"ACAN_THROTTLE", "much"}});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("ACAN_THROTTLE"), HasSubstr("no handler can start")));
  EXPECT_THAT(temporary.Names(), IsEmpty());
}

TEST(TrainingThatCannotStart, NamesAVariableThatItsChildrenWouldRefuse) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", SmallJob());
  for (const auto& [name, value] :
       Environment{{"ACAN_CPU_ISA", "mmx"}, {"ACAN_SHARED_MEMORY", "no"}, {"ACAN_PAYLOADS", "x"}}) {
    const Result result =
        RunAcan({"train", job, "--handlers", "cpu:1", "--out", folder / "out"}, {{name, value}});
    EXPECT_EQ(result.code, 2) << name;
    EXPECT_THAT(result.err, AllOf(HasSubstr("acan: " + name + ": "),
                                  ::testing::Not(HasSubstr("restarting it"))));
  }
}

// ---- what the program that starts it has set

TEST(InheritedSignals, NohupKeepsATrainingFromAHangUp) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", EndlessJob());
  Program train({ACAN_PROGRAM, "train", job, "--handlers", "cpu:1@16MiB", "--out", folder / "out"},
                {}, "/usr/bin/nohup");
  ASSERT_TRUE(train.WaitForErr("epoch 1/"));
  train.Signal(SIGHUP);
  train.Signal(SIGINT);
  EXPECT_EQ(train.Wait(), 128 + SIGINT) << train.err();
}

TEST(InheritedSignals, ABlockedOneStillStopsIt) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", EndlessJob());
  Program train({"--block-signal=TERM", ACAN_PROGRAM, "train", job, "--handlers", "cpu:1@16MiB",
                 "--out", folder / "out"},
                {}, "/usr/bin/env");
  ASSERT_TRUE(train.WaitForErr("epoch 1/"));
  train.Signal(SIGTERM);
  EXPECT_EQ(train.Wait(), 128 + SIGTERM) << train.err();
}

TEST(InheritedSignals, ChildrenThatCannotStartAreSeen) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", SmallJob());
  Program train({"--ignore-signal=CHLD", ACAN_PROGRAM, "train", job, "--handlers", "2xcpu:1",
                 "--out", folder / "out"},
                {{"ACAN_THROTTLE", "much"}}, "/usr/bin/env");
  EXPECT_EQ(train.Wait(), 1);
  EXPECT_THAT(train.err(), HasSubstr("no handler can start"));
}

TEST(InheritedVariables, ForHandlersOfOtherBrokersDoNotConcernChildren) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", SmallJob());
  const Result result = RunAcan({"train", job, "--handlers", "cpu:1", "--out", folder / "out"},
                                {{"ACAN_DIRECT", "tcp://10.0.0.7:5600"}});
  EXPECT_EQ(result.code, 0) << result.err;
}

}  // namespace
}  // namespace acan::testing
