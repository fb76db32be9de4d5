// Simulates a disk that does not keep what it has accepted. The system tells a file's user once.
#pragma once

#include <sys/syscall.h>

#include <cerrno>

#include "failing_call.h"

namespace acan {

// From now on, fdatasync fails with EIO in this thread, as by MakeCallFail.
inline bool MakeSyncFail() {
  return MakeCallFail(SYS_fdatasync, EIO);
}

}  // namespace acan
