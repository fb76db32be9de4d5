// Simulates a process that has no more descriptors.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <vector>

namespace acan {

// While one exists, this process can open `spare` more files.
class DescriptorLimit {
 public:
  explicit DescriptorLimit(int spare = 0) {
    std::vector<int> next;  // the descriptors that would be opened next
    for (int i = 0; i <= spare; ++i) next.push_back(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    ::getrlimit(RLIMIT_NOFILE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = static_cast<rlim_t>(next.back());
    ::setrlimit(RLIMIT_NOFILE, &limit);
    for (const int descriptor : next) ::close(descriptor);
  }
  ~DescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }
  DescriptorLimit(const DescriptorLimit&) = delete;
  DescriptorLimit& operator=(const DescriptorLimit&) = delete;

 private:
  rlimit before_{};
};

}  // namespace acan
