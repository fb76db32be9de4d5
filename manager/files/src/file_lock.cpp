#include "acan/manager/file_lock.h"

#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>

namespace acan {

// Linux's SMB client answers EACCES if another client holds the lock, as POSIX allows for fcntl(2).
Locked LockedAfter(int error) {
  return error == EWOULDBLOCK || error == EACCES ? Locked::kNo : Locked::kNoLocks;
}

LockTry TryLock(int descriptor, LockKind kind) {
  const int how = kind == LockKind::kShared ? LOCK_SH : LOCK_EX;
  for (;;) {
    if (::flock(descriptor, how | LOCK_NB) == 0) return {Locked::kYes, 0};
    const int error = errno;
    if (error == EINTR) continue;
    return {LockedAfter(error), error};
  }
}

bool IsFileOf(const std::string& path, int descriptor) {
  struct stat own = {};
  struct stat there = {};
  return ::fstat(descriptor, &own) == 0 && ::lstat(path.c_str(), &there) == 0 &&
         own.st_ino == there.st_ino && own.st_dev == there.st_dev;
}

}  // namespace acan
