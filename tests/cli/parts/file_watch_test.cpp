// A changed file is read again until it can be used.
#include "file_watch.h"

#include <atomic>
#include <filesystem>

#include "gtest/gtest.h"
#include "program.h"

namespace acan::cli {
namespace {

// Half a list of keys may be a valid one, in which the other keys are revoked.
TEST(FileChanges, AFileIsNotReadWhileItIsWritten) {
  FileChanges changes("old");
  EXPECT_FALSE(changes.MayRead("old"));
  EXPECT_FALSE(changes.MayRead("half"));
  EXPECT_FALSE(changes.MayRead("more"));
  EXPECT_FALSE(changes.MayRead("all"));
  EXPECT_TRUE(changes.MayRead("all"));
  changes.WasRead(/*used=*/false);
  EXPECT_TRUE(changes.MayRead("all")) << "it could not be used";
  changes.WasRead(/*used=*/true);
  EXPECT_FALSE(changes.MayRead("all"));
  EXPECT_FALSE(changes.MayRead("new"));
  EXPECT_TRUE(changes.MayRead("new"));
}

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

// As on a file server that is away for a while.
TEST(FileWatch, AFileThatIsGoneIsReportedAndReadWhenItIsBack) {
  const acan::testing::TestFolder folder;
  const std::string path = folder.Write("list", "old");
  const std::string elsewhere = folder / "elsewhere";
  std::atomic<int> gone = 0;
  std::atomic<int> back = 0;
  const FileWatch watch(path, LookOf(path), [&] {
    const bool is_there = !LookOf(path).empty();
    std::atomic<int>& calls = is_there ? back : gone;
    ++calls;
    calls.notify_one();
    return is_there;
  });
  std::filesystem::rename(path, elsewhere);
  gone.wait(0);
  EXPECT_EQ(back, 0);
  std::filesystem::rename(elsewhere, path);
  back.wait(0);
}

}  // namespace
}  // namespace acan::cli
