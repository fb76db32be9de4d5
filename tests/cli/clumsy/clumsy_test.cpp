// Whatever users do to the program, it ends with a message and an exit code.
#include <unistd.h>

#include "clumsy_user.h"
#include "gtest/gtest.h"
#include "program.h"

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

TEST(ClumsyUser, IsToldWhatIsWrongWithModels) {
  RunClumsyCases(ModelCases());
}

TEST(ClumsyUser, IsToldWhichLimitOrSurroundingsAreWrong) {
  RunClumsyCases(LimitCases());
}

TEST(ClumsyUser, IsToldWhatThePermissionsForbid) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become somebody who may read nothing";
  Program nobody({"--reuid=65534", "--regid=65534", "--clear-groups", ACAN_PROGRAM, "version"}, {},
                 "/usr/bin/setpriv");
  if (nobody.Wait() != 0) GTEST_SKIP() << "nobody may not run " << ACAN_PROGRAM;
  RunClumsyCases(PermissionCases());
}

}  // namespace
}  // namespace acan::testing
