// A changed file is read again until it can be used.
#include "file_watch.h"

#include <atomic>

#include "gtest/gtest.h"
#include "program.h"

namespace acan::cli {
namespace {

TEST(FileWatch, AFileThatCouldNotBeUsedIsReadAgain) {
  const acan::testing::TestFolder folder;
  const std::string path = folder.Write("list", "old");
  const std::string known = LookOf(path);
  std::atomic<int> calls = 0;
  const FileWatch watch(path, known, [&calls] {
    ++calls;
    calls.notify_one();
    return calls == 3;
  });
  folder.Write("list", "changed");
  for (int seen = 0; seen < 3; seen = calls) calls.wait(seen);
  EXPECT_EQ(calls, 3);
}

}  // namespace
}  // namespace acan::cli
