// FreeDescriptors: a process that may open only a few more files.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace acan::testing {

// The descriptor that the next file gets.
inline int NextDescriptor() {
  const int next = ::fcntl(0, F_DUPFD_CLOEXEC, 0);
  ::close(next);
  return next;
}

// Leaves only `count` descriptors free until the end of the scope.
class FreeDescriptors {
 public:
  explicit FreeDescriptors(rlim_t count) {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const rlimit few{static_cast<rlim_t>(NextDescriptor()) + count, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  ~FreeDescriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  FreeDescriptors(const FreeDescriptors&) = delete;
  FreeDescriptors& operator=(const FreeDescriptors&) = delete;

 private:
  rlimit before_{};
};

}  // namespace acan::testing
