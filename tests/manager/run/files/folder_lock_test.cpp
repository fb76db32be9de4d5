// An output folder has one owner. The kernel knows it; there is no lock file that a killed process
// could leave.
#include "acan/manager/folder_lock.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "acan/core/error.h"
#include "acan/manager/host_name.h"
#include "test_files.h"

namespace acan {
namespace {

std::unique_ptr<FolderLock> Take(const TestFolder& folder, const std::string& run,
                                 FolderOwner* owner, std::string* said = nullptr) {
  std::string ignored;
  return FolderLock::Take(folder.path(), run, owner, said == nullptr ? &ignored : said);
}

TEST(FolderLockTest, NamesItsOwnerToOthers) {
  const TestFolder folder;
  FolderOwner owner;
  auto first = Take(folder, "one", &owner);
  ASSERT_NE(first, nullptr);
  EXPECT_TRUE(first->IsOwn());
  EXPECT_EQ(Take(folder, "two", &owner), nullptr);
  EXPECT_EQ(owner.pid, ::getpid());
  EXPECT_EQ(owner.run, "one");
  first->SetRun("one again");
  EXPECT_EQ(Take(folder, "two", &owner), nullptr);
  EXPECT_EQ(owner.run, "one again");
  ExpectError([&] { FolderLock::CheckFree(folder.path()); },
              {folder.path() + " is in use by pid " + std::to_string(::getpid()), "on host",
               "since 2", "--out"},
              Error::Kind::kFailure);
  first.reset();
  FolderLock::CheckFree(folder.path());
  EXPECT_EQ(folder.FileCount(), 0u);
  EXPECT_NE(Take(folder, "two", &owner), nullptr);
}

// Others who may read the file could lock it.
TEST(FolderLockTest, IsOnlyForItsUser) {
  const TestFolder folder;
  const std::string path = folder.Write("manager.lock", "");
  std::filesystem::permissions(path, std::filesystem::perms(0644));
  FolderOwner owner;
  const auto lock = Take(folder, "one", &owner);
  ASSERT_NE(lock, nullptr);
  EXPECT_EQ(std::filesystem::status(path).permissions(), std::filesystem::perms(0600));
}

TEST(FolderLockTest, IsForTheGroupOfItsFolder) {
  const TestFolder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms(0770));
  FolderOwner owner;
  const auto lock = Take(folder, "one", &owner);
  ASSERT_NE(lock, nullptr);
  EXPECT_EQ(std::filesystem::status(folder.Path("manager.lock")).permissions(),
            std::filesystem::perms(0660));
}

TEST(FolderLockTest, SaysThatAnotherProcessThanTheOwnerHoldsIt) {
  FolderOwner owner;
  owner.pid = ::fork();
  if (owner.pid == 0) ::_exit(0);
  ::waitpid(owner.pid, nullptr, 0);
  owner.host = HostName();
  owner.since = "yesterday";
  const std::string said = FolderLock::InUse("out", owner);
  EXPECT_NE(said.find("is not there any more, but another process holds a lock on "
                      "out/manager.lock"),
            std::string::npos)
      << said;
}

TEST(FolderLockTest, EndsWithAKilledProcess) {
  const TestFolder folder;
  int ready[2];
  ASSERT_EQ(::pipe(ready), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    FolderOwner owner;
    const auto lock = Take(folder, "child", &owner);
    [[maybe_unused]] const auto wrote = ::write(ready[1], lock ? "y" : "n", 1);
    for (;;) ::pause();
  }
  char answer = 0;
  ASSERT_EQ(::read(ready[0], &answer, 1), 1);
  ASSERT_EQ(answer, 'y');
  FolderOwner owner;
  EXPECT_EQ(Take(folder, "parent", &owner), nullptr);
  EXPECT_EQ(owner.pid, child);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(folder.FileCount(), 1u) << "the file is left";
  std::string said;
  EXPECT_NE(Take(folder, "parent", &owner, &said), nullptr);
  EXPECT_EQ(said, "");
  for (const int end : ready) ::close(end);
}

TEST(FolderLockTest, SaysThatAnotherHostLeftIt) {
  const TestFolder folder;
  folder.Write("manager.lock",
               R"({"pid": 17, "host": "elsewhere", "since": "yesterday", "run": "x"})");
  FolderOwner owner;
  std::string said;
  EXPECT_NE(Take(folder, "here", &owner, &said), nullptr);
  for (const char* part : {"pid 17", "host elsewhere", "since yesterday"}) {
    EXPECT_NE(said.find(part), std::string::npos) << said;
  }
}

TEST(FolderLockTest, WhoLeadsTakesItOver) {
  const TestFolder folder;
  FolderOwner owner;
  auto first = Take(folder, "one", &owner);
  auto second = FolderLock::TakeOver(folder.path(), "two");
  EXPECT_FALSE(first->IsOwn());
  EXPECT_TRUE(second->IsOwn());
  first.reset();
  EXPECT_TRUE(second->IsOwn()) << "the first leaves it alone";
  EXPECT_EQ(Take(folder, "three", &owner), nullptr);
  EXPECT_EQ(owner.run, "two");
  second.reset();
  EXPECT_EQ(folder.FileCount(), 0u);
}

// A limit on the size of files stands for a full disk.
TEST(FolderLockTest, ATakeoverThatFailsLeavesNothing) {
  const TestFolder folder;
  FolderOwner owner;
  const auto first = Take(folder, "one", &owner);
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = ::signal(SIGXFSZ, SIG_IGN);
  for (const rlim_t room : {0, 10}) {  // a short write has no error of its own
    rlimit full = before;
    full.rlim_cur = room;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &full), 0);
    EXPECT_THROW(FolderLock::TakeOver(folder.path(), "two"), Error);
  }
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, handler);
  EXPECT_TRUE(first->IsOwn());
  EXPECT_EQ(folder.FileCount(), 1u);
}

TEST(FolderLockTest, AFileThatSaysNothingIsNoOwner) {
  const TestFolder folder;
  FolderOwner owner;
  for (const char* text : {"", "{", "[]", "{\"pid\": \"x\"}"}) {
    folder.Write("manager.lock", text);
    std::string said;
    EXPECT_NE(Take(folder, "here", &owner, &said), nullptr) << text;
    EXPECT_EQ(said, "");
  }
  ExpectError(
      [&] {
        FolderOwner none;
        std::string said;
        FolderLock::Take(folder.Path("nowhere"), "x", &none, &said);
      },
      {"nowhere/manager.lock", "No such file"}, Error::Kind::kFailure);
}

// As with a full disk, the file can be opened, but not written.
TEST(FolderLockTest, AFileThatCannotBeWrittenIsLeftAsItWas) {
  const TestFolder folder;
  FolderOwner owner;
  const auto fails = [&] {
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const rlimit none{0, before.rlim_max};
    const auto handler = ::signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &none), 0);
    bool failed = false;
    try {
      Take(folder, "one", &owner);
    } catch (const Error&) {
      failed = true;
    }
    ::setrlimit(RLIMIT_FSIZE, &before);
    ::signal(SIGXFSZ, handler);
    EXPECT_TRUE(failed);
  };
  fails();
  EXPECT_EQ(folder.FileCount(), 0u) << "it would name nobody";
  folder.Write("manager.lock", "{");
  fails();
  EXPECT_EQ(folder.FileCount(), 1u) << "it may be another manager's";
  const std::string text = R"({"host": "away", "pid": 17, "run": "other", "since": "2026-01-01"})";
  folder.Write("manager.lock", text);
  fails();
  const auto left = FolderLock::OwnerOf(folder.path());
  ASSERT_TRUE(left);
  EXPECT_EQ(left->run, "other");
  EXPECT_NE(Take(folder, "one", &owner), nullptr);
}

}  // namespace
}  // namespace acan
