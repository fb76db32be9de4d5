// Every command that connects to a peer, or starts its peer, while that peer is missing, silent,
// killed or stopped. The command must report that, and a signal must end it.
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <iterator>
#include <list>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "job_fixture.h"
#include "program.h"

namespace acan::testing {
namespace {

using ::testing::IsEmpty;
using Words = std::vector<std::string>;

// Accepts connections and never reads from them.
class MutePeer {
 public:
  explicit MutePeer(const std::string& path) : fd_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    EXPECT_EQ(::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    EXPECT_EQ(::listen(fd_, 64), 0);
  }
  ~MutePeer() { ::close(fd_); }
  MutePeer(const MutePeer&) = delete;
  MutePeer& operator=(const MutePeer&) = delete;

 private:
  int fd_;
};

using Programs = std::list<Program>;

void ExpectEachEndsBySigterm(Programs& programs) {
  for (Program& program : programs) program.Signal(SIGTERM);
  for (Program& program : programs) EXPECT_EQ(program.Wait(), 128 + SIGTERM) << program.err();
}

// ---- commands that connect

// A handler, a manager and a standby, each with its own job, for one endpoint.
class CommandsThatConnect : public ::testing::Test {
 protected:
  void Start() {
    const Words to = {"--connect", endpoint_};
    const auto add = [&](Words words) {
      words.insert(words.end(), to.begin(), to.end());
      programs_.emplace_back(words);
    };
    add({"handler", "--device", "cpu:1", "--memory", "64KiB"});
    add({"manager", job_, "--out", folder_ / "out", "--stop-within", "1"});
    add({"manager", job_, "--out", folder_ / "standby", "--stop-within", "1", "--standby", "--set",
         "train.seed=2"});
  }
  void ExpectEachSays(const std::string& text) {
    for (Program& program : programs_) EXPECT_TRUE(program.WaitForErr(text));
  }
  void AwaitAllAt(Program& broker) {
    ASSERT_TRUE(broker.WaitForOut(endpoint_));
    Start();
    ASSERT_TRUE(programs_.front().WaitForErr("joined " + endpoint_));
    for (auto manager = std::next(programs_.begin()); manager != programs_.end(); ++manager) {
      ASSERT_TRUE(manager->WaitForErr("epoch 1/"));
    }
  }

  TestFolder folder_;
  std::string endpoint_ = "ipc://" + (folder_ / "space");
  std::string job_ = folder_.Write("job.toml", EndlessJob());
  Programs programs_;
};

TEST_F(CommandsThatConnect, WithNobodyThere) {
  Start();
  ExpectEachSays("no broker answers at " + endpoint_);
  ExpectEachEndsBySigterm(programs_);
}

TEST_F(CommandsThatConnect, WithAMutePeer) {
  const MutePeer mute(folder_ / "space");
  Start();
  ExpectEachSays("no broker answers at " + endpoint_);
  ExpectEachEndsBySigterm(programs_);
}

TEST_F(CommandsThatConnect, WithAKilledBroker) {
  Program broker({"broker", "--listen", endpoint_});
  ASSERT_NO_FATAL_FAILURE(AwaitAllAt(broker));
  broker.Signal(SIGKILL);
  ExpectEachSays("waiting for it");
  ExpectEachEndsBySigterm(programs_);
}

TEST_F(CommandsThatConnect, WithAStoppedBroker) {
  Program broker({"broker", "--listen", endpoint_});
  ASSERT_NO_FATAL_FAILURE(AwaitAllAt(broker));
  broker.Signal(SIGSTOP);
  ExpectEachSays("nothing was heard from it for");
  ExpectEachEndsBySigterm(programs_);
}

// ---- commands that start their own broker -------------------------------------------------------

// The broker is stopped before it runs the program, so it never listens.
TEST(CommandsThatStartABroker, SayThatItDoesNotListenAndEndByASignal) {
  const TestFolder folder;
  const TestFolder temporary;
  const std::string job = folder.Write("job.toml", SmallJob());
  const std::string done = folder / "done";
  const Result trained = RunAcan({"train", job, "--handlers", "cpu:1@16MiB", "--out", done});
  ASSERT_EQ(trained.code, 0) << trained.err;
  const Environment environment = {{"TMPDIR", temporary.path()},
                                   {"ACAN_HANDLERS", "cpu:1@16MiB"},
                                   {"LD_PRELOAD", ACAN_SIGNAL_AT_EXEC},
                                   {"SIGNAL_AT_CALL", "execv"},
                                   {"SIGNAL", "STOP"}};
  Programs programs;
  for (const Words& words :
       {Words{"train", job, "--out", folder / "out"},
        Words{"eval", job, "--model", done + "/model.safetensors"},
        Words{"verify", done, "--rerun"}, Words{"chaos", job, "--out", folder / "chaos"}}) {
    programs.emplace_back(words, environment);
  }
  std::set<pid_t> children;
  for (Program& program : programs) {
    EXPECT_TRUE(program.WaitForErr("does not listen on ipc://"));
    children.merge(program.Descendants());
  }
  EXPECT_EQ(children.size(), programs.size());
  ExpectEachEndsBySigterm(programs);
  EXPECT_TRUE(AllGone(children));
  EXPECT_THAT(temporary.Names(), IsEmpty());
}

// ---- a broker whose peers are the other roles ---------------------------------------------------

TEST(ABroker, EndsWhateverItsClientsDo) {
  const TestFolder folder;
  const std::string endpoint = "ipc://" + (folder / "space");
  Program broker({"broker", "--listen", endpoint});
  ASSERT_TRUE(broker.WaitForOut(endpoint));
  Program handler({"handler", "--connect", endpoint, "--device", "cpu:1", "--memory", "4MiB"});
  ASSERT_TRUE(handler.WaitForErr("joined"));
  handler.Signal(SIGSTOP);
  const int mute = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = folder / "space";
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  ASSERT_EQ(::connect(mute, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  broker.Signal(SIGTERM);
  EXPECT_EQ(broker.Wait(), 128 + SIGTERM) << broker.err();
  ::close(mute);
}

// ---- a manager whose handler is connected but does nothing --------------------------------------

TEST(AManager, SaysWhatItWaitsForIfItsHandlerIsStopped) {
  const TestFolder folder;
  const std::string endpoint = "ipc://" + (folder / "space");
  const std::string job = folder.Write("job.toml", EndlessJob());
  Program broker({"broker", "--listen", endpoint});
  Program handler({"handler", "--connect", endpoint, "--device", "cpu:1", "--memory", "4MiB"});
  Program manager({"manager", "--connect", endpoint, job, "--out", folder / "out"});
  ASSERT_TRUE(manager.WaitForErr("epoch 1/"));
  handler.Signal(SIGSTOP);
  // At the latest when the broker loses the handler, which takes 10 s.
  EXPECT_TRUE(manager.WaitForErr("all handlers are gone")) << manager.err();
  manager.Signal(SIGTERM);
  EXPECT_EQ(manager.Wait(), 128 + SIGTERM) << manager.err();
}

}  // namespace
}  // namespace acan::testing
