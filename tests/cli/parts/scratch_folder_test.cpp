// The private folder of a run: who may own it, and whose folders it removes.
#include "scratch_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program.h"

namespace acan::cli {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;
using testing::TestFolder;
using ::testing::UnorderedElementsAre;
using ::testing::UnorderedElementsAreArray;

class ScratchFolderTest : public ::testing::Test {
 protected:
  ScratchFolderTest() {
    if (const char* before = ::getenv("TMPDIR")) before_ = before;
    ::setenv("TMPDIR", temporary_.path().c_str(), 1);
  }
  ~ScratchFolderTest() override {
    if (before_) {
      ::setenv("TMPDIR", before_->c_str(), 1);
    } else {
      ::unsetenv("TMPDIR");
    }
  }

  // What a killed process left: nobody has its lock.
  void Leave(const std::string& name) const {
    std::filesystem::create_directory(temporary_ / name);
    temporary_.Write(name + "/space", "");
  }
  bool IsLocal() const {
    const int folder = ::open(temporary_.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    const bool is_local = IsOnLocalFileSystem(folder);
    ::close(folder);
    return is_local;
  }

  const TestFolder temporary_;
  std::optional<std::string> before_;
  ScratchMaker maker_{"00aa00aa", "11bb11bb", ::geteuid()};
};

TEST_F(ScratchFolderTest, NamesTheMachineAndItsStart) {
  const ScratchMaker maker = ScratchMaker::ThisProcess();
  const ScratchFolder folder;
  const std::string name = std::filesystem::path(folder.path()).filename();
  std::string prefix = "acan-run-";
  if (!maker.machine.empty()) prefix += maker.machine + "-";
  EXPECT_THAT(name, StartsWith(prefix + maker.boot));
  EXPECT_THAT(temporary_.Names(), UnorderedElementsAre(name));
}

// As on a file server that maps users: the folder that a process has just made is not its own.
TEST_F(ScratchFolderTest, MayBelongToAnotherUserFromTheBeginning) {
  maker_.user = ::geteuid() + 1;
  {
    const ScratchFolder folder(maker_);
    EXPECT_THAT(temporary_.Names(), SizeIs(1)) << "one, and not one after the other";
  }
  EXPECT_THAT(temporary_.Names(), IsEmpty());
}

TEST_F(ScratchFolderTest, RemovesThoseOfTheDeadOfEarlierStartsOfThisMachine) {
  if (!IsLocal()) GTEST_SKIP() << "the folder for temporary files is not on a local file system";
  Leave("acan-run-00aa00aa-22cc22cc-ABCDEF");
  Leave("acan-run-00aa00aa-11bb11bb-ABCDEF");
  const ScratchFolder folder(maker_);
  EXPECT_THAT(temporary_.Names(),
              UnorderedElementsAre(std::filesystem::path(folder.path()).filename().string()));
}

// Their locks would be requests to the file server, one by one.
TEST_F(ScratchFolderTest, DoesNotTouchThoseOfEarlierStartsOnAFileServer) {
  static int questions = 0;
  questions = 0;
  maker_.is_local = [](int) {
    ++questions;
    return false;
  };
  Leave("acan-run-00aa00aa-22cc22cc-ABCDEF");
  Leave("acan-run-00aa00aa-33dd33dd-ABCDEF");
  Leave("acan-run-00aa00aa-11bb11bb-ABCDEF");
  const ScratchFolder folder(maker_);
  EXPECT_THAT(
      temporary_.Names(),
      UnorderedElementsAre("acan-run-00aa00aa-22cc22cc-ABCDEF", "acan-run-00aa00aa-33dd33dd-ABCDEF",
                           std::filesystem::path(folder.path()).filename().string()));
  EXPECT_EQ(questions, 1) << "about the folder of them all, and about none that it locked";
}

// The path of a socket in it must fit into an address.
TEST_F(ScratchFolderTest, LeavesTheMachineOutOfItsNameWhereThePathIsLong) {
  constexpr std::size_t kMostWithMachine = 56, kMost = 65;
  if (temporary_.path().size() + 1 >= kMostWithMachine) {
    GTEST_SKIP() << "the path of the folder for temporary files is long itself";
  }
  const auto made_in = [&](std::size_t size) {
    const std::string parent = temporary_ / std::string(size - temporary_.path().size() - 1, 'x');
    std::filesystem::create_directory(parent);
    ::setenv("TMPDIR", parent.c_str(), 1);
    const std::string path = ScratchFolder(maker_).path();
    return path.starts_with(parent + "/") ? path.substr(parent.size()) : path;
  };
  EXPECT_THAT(made_in(kMostWithMachine), StartsWith("/acan-run-00aa00aa-11bb11bb-"));
  EXPECT_THAT(made_in(kMostWithMachine + 1), StartsWith("/acan-run-11bb11bb-"));
  EXPECT_THAT(made_in(kMost), StartsWith("/acan-run-11bb11bb-"));
  EXPECT_THAT(made_in(kMost + 1), StartsWith("/tmp/acan-run-00aa00aa-11bb11bb-"));
}

TEST_F(ScratchFolderTest, LeavesThoseAloneWhoseMakersMayLive) {
  // Its process lives and has the lock: a container may say that it was started at another time.
  const ScratchFolder living({maker_.machine, "22cc22cc", maker_.user});
  // Of another machine, of an unknown one, and of nobody who can be told; and other names.
  std::vector<std::string> names = {"acan-run-33dd33dd-22cc22cc-ABCDEF", "acan-run-22cc22cc-ABCDEF",
                                    "acan-run-ABCDEF", "acan-run-00aa00aa-22cc22cc-ABCDEFG",
                                    "acan-run-00aa00aa122cc22cc-ABCDEF"};
  for (const std::string& name : names) Leave(name);
  names.push_back(std::filesystem::path(living.path()).filename());
  const ScratchFolder folder(maker_);
  names.push_back(std::filesystem::path(folder.path()).filename());
  EXPECT_THAT(temporary_.Names(), UnorderedElementsAreArray(names));
}

TEST_F(ScratchFolderTest, ThatDoesNotKnowItsMachineRemovesOnlyThoseSinceItsStart) {
  maker_.machine.clear();
  Leave("acan-run-00aa00aa-22cc22cc-ABCDEF");
  Leave("acan-run-00aa00aa-11bb11bb-ABCDEF");
  Leave("acan-run-11bb11bb-ABCDEF");
  const ScratchFolder folder(maker_);
  EXPECT_THAT(temporary_.Names(),
              UnorderedElementsAre("acan-run-00aa00aa-22cc22cc-ABCDEF",
                                   std::filesystem::path(folder.path()).filename().string()));
}

}  // namespace
}  // namespace acan::cli
