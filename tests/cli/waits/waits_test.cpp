// Every wait of the program that docs/reliability.md lists ("What waits"), without its peer: the
// wait must end, or the program must report what it waits for. The table names the test that covers
// each row; this file has the cases that no other test has.
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <list>
#include <sstream>
#include <stdexcept>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "job_fixture.h"
#include "program.h"
#include "unannounced.h"
#include "waits_table.h"

namespace acan::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

// The children of `program` with this role.
std::set<pid_t> ChildrenThatRun(const Program& program, const std::string& role) {
  std::set<pid_t> found;
  for (const pid_t pid : program.Descendants()) {
    if (CommandLine(pid).find(" " + role + " ") != std::string::npos) found.insert(pid);
  }
  return found;
}

// ---- the table ---------------------------------------------------------------------------------

// The first columns of the tables in that section.
std::set<std::string> RowsOfTheDocument() {
  const std::string text = ReadFile(std::string(ACAN_SOURCE_DIR) + "/docs/reliability.md");
  const std::size_t begin = text.find("\n## What waits");
  const std::string chapter = text.substr(begin, text.find("\n## ", begin + 1) - begin);
  std::set<std::string> rows;
  std::istringstream lines(chapter);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("| ") || line.starts_with("| ---")) continue;
    const std::string first = line.substr(2, line.find(" |", 2) - 2);
    if (first != "wait") rows.insert(first);
  }
  return rows;
}

TEST(Waits, EachRowOfTheDocumentIsHeldByATest) {
  const std::set<std::string> rows = RowsOfTheDocument();
  EXPECT_GT(rows.size(), 40u);
  std::set<std::string> held;
  for (const Wait& wait : kWaits) {
    EXPECT_TRUE(rows.contains(wait.row)) << wait.row << ": the document has no such row";
    held.insert(wait.row);
    if (wait.file == nullptr) continue;  // `test` says why there is none
    const std::string source = ReadFile(std::string(ACAN_SOURCE_DIR) + "/tests/" + wait.file);
    EXPECT_THAT(source, HasSubstr(wait.test)) << wait.row << ": " << wait.file;
  }
  for (const std::string& row : rows) EXPECT_TRUE(held.contains(row)) << row << ": no test named";
}

// ---- a broker whose client is stopped -----------------------------------------------------------

TEST(Waits, OfABrokerForAStoppedClientEndWithItsName) {
  const TestFolder folder;
  const std::string endpoint = "ipc://" + (folder / "space");
  Program broker({"broker", "--listen", endpoint});
  Program handler({"handler", "--connect", endpoint, "--device", "cpu:1", "--memory", "4MiB"});
  ASSERT_TRUE(handler.WaitForErr("joined"));
  handler.Signal(SIGSTOP);
  EXPECT_TRUE(broker.WaitForErr("silent for"));
  broker.Signal(SIGTERM);
  EXPECT_EQ(broker.Wait(), 128 + SIGTERM) << broker.err();
}

// ---- a standby whose leader is stopped or killed ------------------------------------------------

class Leader : public ::testing::TestWithParam<int> {};

TEST_P(Leader, ThatIsGoneIsReplacedByWhoStandsBy) {
  const TestFolder folder;
  const std::string endpoint = "ipc://" + (folder / "space");
  const std::string job = folder.Write("job.toml", EndlessJob());
  Program broker({"broker", "--listen", endpoint});
  Program handler({"handler", "--connect", endpoint, "--device", "cpu:1", "--memory", "4MiB"});
  Program leader({"manager", "--connect", endpoint, job, "--out", folder / "one"});
  ASSERT_TRUE(leader.WaitForErr("epoch 1/"));
  Program standby({"manager", "--connect", endpoint, job, "--out", folder / "two", "--standby"});
  ASSERT_TRUE(standby.WaitForErr("has a manager: waiting to take over"));
  leader.Signal(GetParam());
  EXPECT_TRUE(standby.WaitForErr("epoch "));
  standby.Signal(SIGTERM);
  EXPECT_EQ(standby.Wait(), 128 + SIGTERM) << standby.err();
}

INSTANTIATE_TEST_SUITE_P(Gone, Leader, ::testing::Values(SIGSTOP, SIGKILL), [](const auto& signal) {
  return signal.param == SIGSTOP ? "Stopped" : "Killed";
});

// ---- a train whose children are stopped ---------------------------------------------------------

TEST(Waits, OfATrainForAStoppedChildEndWithSigkill) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", EndlessJob());
  Program train({"train", job, "--handlers", "cpu:1@16MiB", "--out", folder / "out"});
  ASSERT_TRUE(train.WaitForErr("epoch 1/"));
  const std::set<pid_t> children = train.Descendants();
  const std::set<pid_t> handlers = ChildrenThatRun(train, "handler");
  ASSERT_EQ(handlers.size(), 1u);
  SignalProcess(*handlers.begin(), SIGSTOP);
  train.Signal(SIGTERM);
  EXPECT_EQ(train.Wait(), 128 + SIGTERM) << train.err();
  EXPECT_THAT(train.err(), HasSubstr("did not end within 8 s; killing it"));
  EXPECT_TRUE(AllGone(children));
}

// Nobody is left to kill a handler that waits for a broker that does not answer.
TEST(Waits, OfAHandlerWhoseTrainWasKilledAndWhoseBrokerIsStoppedEnd) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", EndlessJob());
  Program train({"train", job, "--handlers", "2xcpu:1@16MiB", "--out", folder / "out"});
  ASSERT_TRUE(train.WaitForErr("epoch 1/"));
  const std::set<pid_t> handlers = ChildrenThatRun(train, "handler");
  const std::set<pid_t> brokers = ChildrenThatRun(train, "broker");
  ASSERT_EQ(handlers.size(), 2u);
  ASSERT_EQ(brokers.size(), 1u);
  SignalProcess(*brokers.begin(), SIGSTOP);
  train.Signal(SIGKILL);
  EXPECT_TRUE(AllGone(handlers));
  SignalProcess(*brokers.begin(), SIGKILL);
  EXPECT_TRUE(AllGone(brokers));
}

// ---- chaos with all handlers stopped ------------------------------------------------------------

TEST(Waits, OfAChaosForTheNextStepAreSpokenOf) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", SmallJob());
  Program chaos({"chaos", job, "--set", "train.epochs=400", "--handlers", "2xcpu:1@16MiB", "--out",
                 folder / "out", "--every", "3600s"});
  // The first, undisturbed run writes to another folder.
  const auto writes_metrics = [&] { return std::filesystem::exists(folder / "out/metrics.jsonl"); };
  ASSERT_TRUE(chaos.WaitForFiles({folder.path(), folder / "out"}, writes_metrics));
  for (const pid_t pid : ChildrenThatRun(chaos, "handler")) SignalProcess(pid, SIGSTOP);
  EXPECT_TRUE(chaos.WaitForErr("no new line in "));
  chaos.Signal(SIGTERM);
  EXPECT_EQ(chaos.Wait(), 128 + SIGTERM) << chaos.err();
}

// ---- a disk that does not answer ---------------------------------------------------------------

struct Disk {
  const char* file;  // its sync does not end
  std::string job;
  const char* says;
  bool resumes = false;
};

// All at the same time, since each takes several seconds. A first signal may wait for the disk, a
// second one does not.
TEST(Waits, ForADiskAreSpokenOfAndASecondSignalEndsThem) {
  const TestFolder folder;
  const std::vector<Disk> disks = {
      {"/snapshots/", EndlessJob(), "a snapshot is still being written after"},
      {"model.safetensors", SmallJob(), "the model file has not reached the disk after"},
      {"receipt.json", SmallJob(), "the manager has made no progress"},
      {"metrics.jsonl.", EndlessJob(), "metrics.jsonl is still being copied after", true},
  };
  std::list<Program> programs;
  for (const Disk& disk : disks) {
    const std::string name = std::to_string(programs.size());
    const auto words = [&](const char* out) {
      return Words{"train",      folder.Write(name + ".toml", disk.job),
                   "--handlers", "cpu:1@16MiB",
                   out,          folder / name,
                   "--set",      "snapshots.every_steps=5"};
    };
    if (disk.resumes) {
      Program before(words("--out"));
      EXPECT_TRUE(before.WaitForErr("epoch 2/"));
      before.Signal(SIGTERM);
      EXPECT_EQ(before.Wait(), 128 + SIGTERM) << before.err();
    }
    programs.emplace_back(
        words(disk.resumes ? "--resume" : "--out"),
        Environment{{"LD_PRELOAD", ACAN_BLOCK_AT_SYNC}, {"BLOCK_AT_SYNC_OF", disk.file}});
  }
  auto disk = disks.begin();
  for (Program& program : programs) EXPECT_TRUE(program.WaitForErr((disk++)->says));
  for (Program& program : programs) {
    const std::set<pid_t> children = program.Descendants();
    program.Signal(SIGTERM);
    program.Signal(SIGINT);
    EXPECT_THAT(program.Wait(), AnyOf(128 + SIGTERM, 128 + SIGINT)) << program.err();
    EXPECT_TRUE(AllGone(children));
  }
}

// The run has ended without its last snapshot, whose thread is still at the disk.
TEST(Waits, ForADiskAfterAStopAreSpokenOfAndASecondSignalEndsThem) {
  const TestFolder folder;
  Program train(
      {"train", folder.Write("job.toml", EndlessJob()), "--handlers", "cpu:1@16MiB", "--out",
       folder / "out", "--set", "snapshots.every_steps=5", "--stop-within", "0.5"},
      {{"LD_PRELOAD", ACAN_BLOCK_AT_SYNC}, {"BLOCK_AT_SYNC_OF", "/snapshots/"}});
  ASSERT_TRUE(train.WaitForErr("epoch 1/"));
  const std::set<pid_t> children = train.Descendants();
  train.Signal(SIGTERM);
  ASSERT_TRUE(train.WaitForErr("without a snapshot of it: it was not written within the time"));
  const std::size_t stopped = train.err().find("without a snapshot of it");
  EXPECT_TRUE(train.WaitForErr("a snapshot is still being written after", stopped));
  train.Signal(SIGINT);
  EXPECT_THAT(train.Wait(), AnyOf(128 + SIGTERM, 128 + SIGINT)) << train.err();
  EXPECT_TRUE(AllGone(children));
}

TEST(Waits, ForAFileOfAJobAreSpokenOfAndASignalEndsThem) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", EndlessJob());
  const std::string weights = folder.Write("weights.safetensors", "of a file server");
  const auto words = [&](const Words& command) {
    Words all = command;
    all.insert(all.end(), {job, "--set", "model.initial_weights=" + weights});
    return all;
  };
  std::list<Program> programs;
  for (const Words& command :
       {Words{"train", "--handlers", "cpu:1"}, Words{"chaos", "--handlers", "cpu:1"},
        Words{"manager", "--connect", "ipc://" + (folder / "space")}}) {
    programs.emplace_back(words(command), Environment{{"LD_PRELOAD", ACAN_BLOCK_AT_SYNC},
                                                      {"BLOCK_AT_STAT_OF", "/weights."}});
  }
  for (Program& program : programs) {
    EXPECT_TRUE(program.WaitForErr("the command has made no progress for"));
    program.Signal(SIGTERM);
    EXPECT_EQ(program.Wait(), 128 + SIGTERM) << program.err();
  }
}

// ---- nobody reads the output --------------------------------------------------------------------

// The program with a full pipe as its stdout and stderr.
class Unread {
 public:
  explicit Unread(const Words& words) {
    std::array<int, 2> pipe{};
    if (::pipe(pipe.data()) != 0) throw std::runtime_error("pipe");
    reader_ = pipe[0];
    ::fcntl(pipe[1], F_SETFL, O_NONBLOCK);
    const std::array<char, 4096> some{};
    while (::write(pipe[1], some.data(), some.size()) > 0) {
    }
    ::fcntl(pipe[1], F_SETFL, 0);
    std::vector<char*> arguments = {const_cast<char*>(ACAN_PROGRAM)};
    for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
    arguments.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(pipe[1], STDOUT_FILENO);
      ::dup2(pipe[1], STDERR_FILENO);
      ::execv(ACAN_PROGRAM, arguments.data());
      ::_exit(127);
    }
    ::close(pipe[1]);
  }
  ~Unread() {
    if (pid_ > 0) ::kill(pid_, SIGKILL);
    if (pid_ > 0) ::waitpid(pid_, nullptr, 0);
    ::close(reader_);
  }
  Unread(const Unread&) = delete;
  Unread& operator=(const Unread&) = delete;

  // Waits until the process blocks in write(); returns false after a long time.
  bool AwaitTheWait() const {
    const std::string file = "/proc/" + std::to_string(pid_) + "/syscall";
    return tuplespace::AwaitUnannounced([&] { return ReadFile(file).starts_with("1 "); });
  }
  bool has_signal_pending() const {
    const std::string status = ReadFile("/proc/" + std::to_string(pid_) + "/status");
    const std::size_t at = status.find("ShdPnd:");
    if (at == std::string::npos) return false;  // it has ended
    const std::size_t digits = status.find(':', at) + 1;
    const std::string mask = status.substr(digits, status.find('\n', digits) - digits);
    return mask.find_first_of("123456789abcdef") != std::string::npos;
  }
  void Signal(int signal) const { ::kill(pid_, signal); }
  // Returns the exit code, or minus the signal.
  int Wait() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  int reader_ = -1;
  pid_t pid_ = -1;
};

TEST(Waits, ForAReaderOfTheOutputEndWithASecondSignal) {
  const TestFolder folder;
  Unread broker({"broker", "--listen", "ipc://" + (folder / "space")});
  ASSERT_TRUE(broker.AwaitTheWait());
  broker.Signal(SIGTERM);
  ASSERT_TRUE(tuplespace::AwaitUnannounced([&] { return !broker.has_signal_pending(); }));
  broker.Signal(SIGTERM);
  EXPECT_THAT(broker.Wait(), AnyOf(128 + SIGTERM, -SIGTERM));
}

}  // namespace
}  // namespace acan::testing
