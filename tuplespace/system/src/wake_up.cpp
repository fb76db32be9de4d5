#include "wake_up.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace tuplespace {

static_assert(std::atomic<bool>::is_always_lock_free);

WakeUp::WakeUp() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
    throw std::system_error(errno, std::generic_category(), "pipe2");
  }
  read_fd_ = ends[0];
  write_fd_ = ends[1];
}

WakeUp::~WakeUp() {
  close(read_fd_);
  close(write_fd_);
}

void WakeUp::Notify() {
  notified_.store(true);
  // Either Notify sees the sleeper, or the sleeper sees `notified_` before it sleeps.
  if (!asleep_.load()) return;
  const int saved = errno;
  // This fails only if the pipe is full, and then it is readable anyway.
  [[maybe_unused]] const auto written = write(write_fd_, "", 1);
  errno = saved;
}

bool WakeUp::BeginSleep() {
  asleep_.store(true);
  return !notified_.load();
}

bool WakeUp::EndSleep(bool readable) {
  asleep_.store(false);
  if (readable) {
    std::array<char, 256> rings{};
    while (read(read_fd_, rings.data(), rings.size()) == static_cast<ssize_t>(rings.size())) {
    }
  }
  return notified_.exchange(false);
}

}  // namespace tuplespace
