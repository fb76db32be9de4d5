// The folder in which the processes of a user find each other.
#include "meeting_point.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "acan/core/error.h"
#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "program.h"

namespace acan::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TestFolder;

class MeetingPoint : public ::testing::Test {
 protected:
  MeetingPoint() {
    std::filesystem::create_directories(folder_ / "run/user");
    std::filesystem::create_directories(folder_ / "tmp");
    ::chmod((folder_ / "tmp").c_str(), 01777);
  }
  std::string Folder(const std::string& runtime) const {
    return MeetingFolder(runtime, folder_.path(), "--connect");
  }
  std::string Refusal(const std::string& runtime) const {
    try {
      return "no refusal, but " + Folder(runtime);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 1);
      EXPECT_THAT(error.what(), AllOf(HasSubstr("XDG_RUNTIME_DIR"), HasSubstr("--connect")));
      return error.what();
    }
  }
  static mode_t ModeOf(const std::string& path) {
    struct stat info {};
    EXPECT_EQ(::lstat(path.c_str(), &info), 0) << path;
    return info.st_mode & 07777;
  }
  std::string OfTemporary() const { return folder_ / fmt::format("tmp/acan-{}", ::geteuid()); }

  const TestFolder folder_;
};

TEST_F(MeetingPoint, IsAPrivateFolderInTheRuntimeFolder) {
  const mode_t before = ::umask(0);
  EXPECT_EQ(Folder(folder_.path()), folder_ / "acan");
  ::umask(before);
  EXPECT_EQ(ModeOf(folder_ / "acan"), 0700u);
  EXPECT_EQ(Folder(folder_.path()), folder_ / "acan") << "and stays";
}

TEST_F(MeetingPoint, WithoutTheVariableIsWhereItUsuallyPoints) {
  const std::string usual = folder_ / fmt::format("run/user/{}", ::geteuid());
  EXPECT_EQ(Folder(""), OfTemporary());
  EXPECT_EQ(ModeOf(OfTemporary()), 0700u);
  ASSERT_EQ(::mkdir(usual.c_str(), 0700), 0);
  EXPECT_EQ(Folder(""), usual + "/acan");
  ASSERT_EQ(::chmod(usual.c_str(), 0755), 0);
  EXPECT_EQ(Folder(""), OfTemporary());
}

TEST_F(MeetingPoint, ThatOthersCanReachIsRefused) {
  ASSERT_EQ(::mkdir(OfTemporary().c_str(), 0700), 0);
  for (const mode_t mode : {0755, 0710, 0701, 0770}) {
    ASSERT_EQ(::chmod(OfTemporary().c_str(), mode), 0);
    EXPECT_THAT(Refusal(""), AllOf(HasSubstr(OfTemporary()), HasSubstr("chmod 700")));
  }
  // Somebody else has created something with this name first.
  ASSERT_EQ(::rmdir(OfTemporary().c_str()), 0);
  ASSERT_EQ(::mkdir((folder_ / "mine").c_str(), 0700), 0);
  ASSERT_EQ(::symlink((folder_ / "mine").c_str(), OfTemporary().c_str()), 0);
  EXPECT_THAT(Refusal(""), HasSubstr("is not a folder"));
  ASSERT_EQ(::unlink(OfTemporary().c_str()), 0);
  folder_.Write(fmt::format("tmp/acan-{}", ::geteuid()), "");
  EXPECT_THAT(Refusal(""), HasSubstr("is not a folder"));
}

TEST_F(MeetingPoint, OfAnotherUserIsRefused) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  ASSERT_EQ(::mkdir(OfTemporary().c_str(), 0700), 0);
  ASSERT_EQ(::chown(OfTemporary().c_str(), 12345, 12345), 0);
  EXPECT_THAT(Refusal(""), HasSubstr("belongs to user 12345"));
  ASSERT_EQ(::mkdir((folder_ / "theirs").c_str(), 0700), 0);
  ASSERT_EQ(::chown((folder_ / "theirs").c_str(), 12345, 12345), 0);
  EXPECT_THAT(Refusal(folder_ / "theirs"), HasSubstr("belongs to user 12345"));
}

TEST_F(MeetingPoint, NeedsARuntimeFolderThatIsOne) {
  EXPECT_THAT(Refusal("run/user"), HasSubstr("not an absolute path"));
  EXPECT_THAT(Refusal(folder_ / "none"), HasSubstr("No such file"));
  EXPECT_THAT(Refusal(folder_.Write("file", "")), HasSubstr("not a folder"));
  ASSERT_EQ(::chmod((folder_ / "run").c_str(), 0777), 0);
  EXPECT_THAT(Refusal(folder_ / "run"), HasSubstr("other users can replace"));
  ASSERT_EQ(::chmod((folder_ / "run").c_str(), 01777), 0);
  EXPECT_EQ(Folder(folder_ / "run"), folder_ / "run/acan");
}

}  // namespace
}  // namespace acan::cli
