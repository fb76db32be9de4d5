// Simulates a file server that does not answer: the system has the contents of files in its cache,
// and must ask the server for their attributes.
#pragma once

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstddef>
#include <iterator>

namespace acan {

// From now on, fstat fails with ETIMEDOUT in this thread; other calls do not. False: the system has
// no filters of system calls. Cannot be undone, so this needs a thread of its own.
inline bool MakeStatusFail() {
  constexpr unsigned kNumber = offsetof(seccomp_data, nr);
  constexpr unsigned kFlags = offsetof(seccomp_data, args) + 3 * sizeof(seccomp_data::args[0]);
  // The C library calls either fstat or newfstatat with an empty path. The jumps are relative.
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kNumber),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fstat, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_newfstatat, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, kFlags),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, AT_EMPTY_PATH, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ETIMEDOUT),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program = {static_cast<unsigned short>(std::size(code)), code};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

}  // namespace acan
