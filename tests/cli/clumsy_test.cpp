// Whatever people do to the program, it ends with a sentence and an exit code.
#include "clumsy_user.h"
#include "gtest/gtest.h"

namespace acan::testing {
namespace {

TEST(ClumsyUser, IsToldWhatIsWrongWithFlagsAndValues) {
  RunClumsyCases(FlagCases());
}

TEST(ClumsyUser, IsToldWhatIsWrongWithFiles) {
  RunClumsyCases(FileCases());
}

TEST(ClumsyUser, IsToldWhatIsWrongWithJobs) {
  RunClumsyCases(JobCases());
}

TEST(ClumsyUser, IsToldWhichLimitOrSurroundingsAreWrong) {
  RunClumsyCases(LimitCases());
}

}  // namespace
}  // namespace acan::testing
