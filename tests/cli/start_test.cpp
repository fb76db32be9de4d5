// How the program starts its child processes.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "job_fixture.h"
#include "program.h"

namespace acan::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A SIGTERM that reaches a child before it runs the program was sent to all processes of the
// command. It must not end the child, and the child must not take it for a signal to its parent.
class SignalBeforeExec : public ::testing::TestWithParam<const char*> {};

TEST_P(SignalBeforeExec, EndsNeitherTheChildNorItsParent) {
  const TestFolder folder;
  const TestFolder temporary;
  const std::string job = folder.Write("job.toml", SmallJob());
  const Result result =
      RunAcan({"train", job, "--handlers", "cpu:1@16MiB", "--out", folder / "out"},
              {{"TMPDIR", temporary.path()},
               {"LD_PRELOAD", ACAN_SIGNAL_AT_EXEC},
               {"SIGNAL_AT_CALL", GetParam()},
               {"SIGNAL_SENT", folder / "signal_sent"}});
  EXPECT_THAT(folder.Names(), Contains("signal_sent"));
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.err, Not(HasSubstr("restarting it")));
  EXPECT_THAT(temporary.Names(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(At, SignalBeforeExec, ::testing::Values("setpgid", "execv"),
                         [](const auto& instance) { return std::string(instance.param); });

// A library can make the process flush denormal numbers to zero before main begins. Those do so
// that were linked with -ffast-math.
TEST(FlushToZero, IsSwitchedOff) {
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", R"([model]
kind = "bert"
task = "classification"
vocab_size = 11
hidden_size = 16
num_hidden_layers = 1
num_attention_heads = 2
intermediate_size = 24
max_position_embeddings = 8
layer_norm_eps = 1e-40
num_labels = 5
[data]
train_inputs = "x.npy"
train_labels = "y.npy"
)");
  const Result graph = RunAcan({"graph", job}, {{"LD_PRELOAD", ACAN_FLUSHING_MODULE}});
  EXPECT_EQ(graph.code, 0) << graph.err;
  EXPECT_THAT(graph.out, HasSubstr(R"("epsilon":1e-40)"));
}

TEST(AMachineWithoutProc, IsNamedAsSuch) {
  const auto in_namespace = [](const std::string& command) {
    return std::vector<std::string>{"--map-root-user", "--mount", "sh", "-c",
                                    "mount -t tmpfs none /proc && exec " + command};
  };
  const std::string unshare = "/usr/bin/unshare";
  if (Program(in_namespace("true"), {}, unshare).Wait() != 0) {
    GTEST_SKIP() << "no process may have mounts of its own here";
  }
  const TestFolder folder;
  const std::string job = folder.Write("job.toml", SmallJob());
  const std::string command = ACAN_PROGRAM " train " + job + " --out " + (folder / "out");
  Program train(in_namespace(command), {}, unshare);
  EXPECT_EQ(train.Wait(), 1);
  EXPECT_THAT(train.err(),
              AllOf(HasSubstr("/proc/self/exe: No such file"), HasSubstr("which must be mounted")));
}

}  // namespace
}  // namespace acan::testing
