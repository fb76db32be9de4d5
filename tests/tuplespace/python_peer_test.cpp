// The protocol document is enough to take part: a handler in Python does (python_peer.py). Skipped
// where Python, pyzmq or flatbuffers is missing. ACAN_PYTHON names another interpreter.
#include <sys/wait.h>

#include <cstdlib>

#include "broker_fixture.h"

namespace tuplespace {
namespace {

TEST(PythonPeer, TakesAndCompletesTasks) {
  TemporaryFolder folder;
  BrokerThread broker(folder.Ipc());
  Client client(ClientAt(folder.Ipc()));
  const std::vector<std::int64_t> numbers = {-7, 0, 12, 101};
  std::vector<Tuple> tasks;
  std::vector<Pattern> results;
  for (const std::int64_t n : numbers) {
    tasks.push_back(TaskTuple({"square", n}, std::to_string(n)));
    tasks.back().task->results = {Key{"squared", n}};
    results.push_back(Pattern::Of(Key{"squared", n}));
  }
  ASSERT_TRUE(client.Put(tasks));

  const char* python = std::getenv("ACAN_PYTHON");
  const std::string command = std::string(python != nullptr ? python : "python3") + " " +
                              PYTHON_PEER + " " + folder.Ipc() + " " + PYTHON_WIRE + " " +
                              std::to_string(numbers.size());
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77 || WEXITSTATUS(status) == 127) {
    GTEST_SKIP() << "python3 with pyzmq and flatbuffers is not there";
  }
  ASSERT_EQ(WEXITSTATUS(status), 0);
  const std::vector<FoundTuple> found = client.ReadAll(results, std::chrono::seconds(0));
  ASSERT_EQ(found.size(), numbers.size());
  EXPECT_EQ(found[0].payload.text(), "49");
  EXPECT_EQ(found[1].payload.text(), "0");
  EXPECT_EQ(found[2].payload.text(), "144");
  EXPECT_EQ(found[3].payload.text(), "10201" + std::string(10201, 'x'));
  EXPECT_EQ(client.GetStatistics()->counters.completed, numbers.size());
}

}  // namespace
}  // namespace tuplespace
