// The protocol document suffices to write a peer: here a handler in Python (python_peer.py). It
// needs pyzmq and flatbuffers (Debian: python3-zmq and python3-flatbuffers); without an interpreter
// that has both, the test is skipped. ACAN_PYTHON names the interpreter to use.
#include <sys/wait.h>

#include <cstdlib>

#include "broker_fixture.h"

namespace tuplespace {
namespace {

// The interpreters to try in turn. The first one in PATH may not be the system's interpreter, and
// the system's packages belong to the latter only.
std::vector<std::string> Interpreters() {
  const char* given = std::getenv("ACAN_PYTHON");
  if (given != nullptr) return {given};
  return {"python3", "/usr/bin/python3"};
}

// Returns the exit code of the peer (77: a module is missing), or of a shell that cannot run it
// (127).
int RunPeer(const std::string& interpreter, const std::string& arguments) {
  const int status = std::system((interpreter + " " PYTHON_PEER " " + arguments).c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

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

  const std::string arguments =
      folder.Ipc() + " " + PYTHON_WIRE + " " + std::to_string(numbers.size());
  int code = 0;
  for (const std::string& interpreter : Interpreters()) {
    code = RunPeer(interpreter, arguments);
    if (code != 77 && code != 127) break;
  }
  if (code == 77 || code == 127) GTEST_SKIP() << "no python3 has pyzmq and flatbuffers";
  ASSERT_EQ(code, 0);
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
