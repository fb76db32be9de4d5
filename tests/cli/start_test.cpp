// How the program starts its own processes.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "job_fixture.h"
#include "program.h"

namespace acan::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// A signal that reaches a child before it runs the program is the child's end, and nothing else:
// not that of the process which started it, and the child does not go on as if there were none.
class SignalBeforeExec : public ::testing::TestWithParam<const char*> {};

TEST_P(SignalBeforeExec, EndsTheChildAndNotItsParent) {
  const TestFolder folder;
  const TestFolder temporary;
  const std::string job = folder.Write("job.toml", EndlessJob());
  const Result result =
      RunAcan({"train", job, "--handlers", "cpu:1@16MiB", "--out", folder / "out"},
              {{"TMPDIR", temporary.path()},
               {"LD_PRELOAD", ACAN_SIGNAL_AT_EXEC},
               {"SIGNAL_AT_CALL", GetParam()}});
  EXPECT_EQ(result.code, 1);
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("the broker on ipc://"),
                    HasSubstr("was killed by signal 15 (Terminated) before it listened"),
                    Not(HasSubstr("to go on: acan train --resume"))));
  EXPECT_THAT(temporary.Names(), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(At, SignalBeforeExec, ::testing::Values("setpgid", "execv"),
                         [](const auto& instance) { return std::string(instance.param); });

}  // namespace
}  // namespace acan::testing
