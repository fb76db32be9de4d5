// Locks of files, and what the system's errors say about them.
#include "acan/manager/file_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "acan/manager/descriptor.h"
#include "test_files.h"

namespace acan {
namespace {

TEST(FileLockTest, AnotherDescriptorOfTheFileHoldsIt) {
  const TestFolder folder;
  const std::string path = folder.Write("file", "");
  const Descriptor first(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  const Descriptor second(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_EQ(TryLock(first.get()).locked, Locked::kYes);
  EXPECT_EQ(TryLock(second.get()).locked, Locked::kNo);
}

// Linux's SMB client gives EACCES to everybody but the holder. Whoever took that for a file system
// without locks would write to a folder that another manager has.
TEST(FileLockTest, OnlyErrorsOfTheFileSystemSayThatThereAreNoLocks) {
  EXPECT_EQ(LockedAfter(EWOULDBLOCK), Locked::kNo);
  EXPECT_EQ(LockedAfter(EACCES), Locked::kNo);
  EXPECT_EQ(LockedAfter(ENOLCK), Locked::kNoLocks);
  EXPECT_EQ(LockedAfter(EOPNOTSUPP), Locked::kNoLocks);
}

}  // namespace
}  // namespace acan
