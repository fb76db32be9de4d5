// Texts in files that users name.
#include "acan/manager/text_file.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <cerrno>
#include <string>
#include <thread>

#include "acan/manager/unreadable.h"
#include "failing_call.h"
#include "test_files.h"

namespace acan {
namespace {

// A service that ends with a wrong usage is not started again, but the server may answer later.
TEST(TextFileTest, OfAFileServerThatDoesNotAnswerIsNoPipeWithoutAWriter) {
  const TestFolder folder;
  const std::string path = folder.Write("job.toml", "[model]");
  const auto read = [&path] { return ReadTextFile(path, 100, "a job file"); };
  EXPECT_EQ(read(), "[model]");
  bool fails = false;
  std::thread([&] {
    fails = MakeCallFail(SYS_read, ETIMEDOUT);
    if (!fails) return;
    EXPECT_THROW(read(), Unreadable);
    ExpectError(read, {path + ": cannot read: Connection timed out"}, Error::Kind::kFailure);
  }).join();
  if (!fails) GTEST_SKIP() << "the system has no filters of system calls (seccomp)";
}

}  // namespace
}  // namespace acan
