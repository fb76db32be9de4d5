// RoomForThreads: while it exists, the system starts only a few more threads of this process, and
// refuses the next one.
#pragma once

#include <pthread.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <fstream>

namespace acan::test {

// The stacks of new threads become huge, and the limit of the address space has room for only
// `threads` of them. A limit of the number of threads would not bind root. REQUIRES: no other
// thread is started or changes these limits meanwhile; `threads` is small. Sanitizers take
// additional address space for each thread, so that fewer may start.
class RoomForThreads {
 public:
  explicit RoomForThreads(std::size_t threads) {
    ::pthread_getattr_default_np(&stack_before_);
    pthread_attr_t huge;
    ::pthread_attr_init(&huge);
    ::pthread_attr_setstacksize(&huge, kStackBytes);
    ::pthread_setattr_default_np(&huge);
    ::pthread_attr_destroy(&huge);
    ::getrlimit(RLIMIT_AS, &space_before_);
    rlimit space = space_before_;
    space.rlim_cur = BytesInUse() + threads * kStackBytes + kStackBytes / 2;
    ::setrlimit(RLIMIT_AS, &space);
  }
  ~RoomForThreads() {
    ::setrlimit(RLIMIT_AS, &space_before_);
    ::pthread_setattr_default_np(&stack_before_);
    ::pthread_attr_destroy(&stack_before_);
  }
  RoomForThreads(const RoomForThreads&) = delete;
  RoomForThreads& operator=(const RoomForThreads&) = delete;

 private:
  static constexpr std::size_t kStackBytes = 512 << 20;

  static std::size_t BytesInUse() {
    std::ifstream file("/proc/self/statm");
    std::size_t pages = 0;
    file >> pages;
    return pages * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  }

  pthread_attr_t stack_before_{};
  rlimit space_before_{};
};

}  // namespace acan::test
