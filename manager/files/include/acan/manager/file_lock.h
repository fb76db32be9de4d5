// Locks of whole files and folders: flock(2). A lock belongs to an open descriptor and ends with
// it, so also with its process, however that ends. Whoever can read a file can lock it: a file that
// others may read must not be the lock of anything.
#pragma once

#include <cstdint>
#include <string>

namespace acan {

enum class LockKind : std::uint8_t { kExclusive, kShared };

enum class Locked : std::uint8_t {
  kYes,
  kNo,       // another descriptor holds it
  kNoLocks,  // the file system has no locks, or the system has no more
};

struct LockTry {
  Locked locked = Locked::kNo;
  int error = 0;  // the value of errno if it was not locked
};

// What it means that flock(2) failed with `error`, a value of errno other than EINTR.
Locked LockedAfter(int error);

// Does not wait.
LockTry TryLock(int descriptor, LockKind kind = LockKind::kExclusive);

// Whether `path` is still the file of the descriptor. The holder of a lock may remove or replace
// its file, so whoever has locked a file must ask this. Does not follow a link.
bool IsFileOf(const std::string& path, int descriptor);

}  // namespace acan
