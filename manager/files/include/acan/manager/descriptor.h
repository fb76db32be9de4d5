// Descriptor: a file descriptor that its owner closes.
#pragma once

#include <unistd.h>

namespace acan {

// Owns `fd`, which may be negative if an open failed.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

}  // namespace acan
