// PollLimit: makes calls of poll fail in all threads of this process, as if the system had no
// memory for them.
#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>

namespace tuplespace {

// Until the end of the scope, the kernel refuses to poll more than `descriptors` at once, because a
// process with this limit cannot have so many. Nothing can be opened meanwhile; what is open stays.
class PollLimit {
 public:
  explicit PollLimit(rlim_t descriptors) {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit few{descriptors, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~PollLimit() { setrlimit(RLIMIT_NOFILE, &before_); }
  PollLimit(const PollLimit&) = delete;
  PollLimit& operator=(const PollLimit&) = delete;

 private:
  rlimit before_{};
};

}  // namespace tuplespace
