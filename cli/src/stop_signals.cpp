#include "stop_signals.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <mutex>
#include <thread>
#include <utility>

#include "acan/core/error.h"

namespace acan::cli {
namespace {

sigset_t SetOf(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

}  // namespace

struct StopSignals::Impl {
  int signal_fd = -1;
  int end_fd = -1;
  std::atomic<int> received{0};
  std::mutex mutex;  // guards the functions and their calls
  std::function<void()> stop;
  std::function<void()> kill;
  std::thread thread;

  void Watch() {
    std::array<pollfd, 2> fds = {{{signal_fd, POLLIN, 0}, {end_fd, POLLIN, 0}}};
    for (;;) {
      if (::poll(fds.data(), fds.size(), -1) < 0) continue;
      if (fds[1].revents != 0) return;
      signalfd_siginfo info{};
      if (::read(signal_fd, &info, sizeof(info)) == sizeof(info)) {
        Came(static_cast<int>(info.ssi_signo));
      }
    }
  }

  void Came(int signal) {
    int none = 0;
    const bool first = received.compare_exchange_strong(none, signal);
    const std::lock_guard lock(mutex);
    if (first && stop) {
      stop();
      return;
    }
    if (kill) kill();
    ::_exit(128 + signal);
  }
};

StopSignals::StopSignals(Mode mode) : impl_(std::make_unique<Impl>()) {
  const sigset_t all = SetOf({SIGINT, SIGTERM, SIGHUP});
  const sigset_t watched = mode == Mode::kAll ? all : SetOf({SIGTERM});
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  impl_->signal_fd = ::signalfd(-1, &watched, SFD_CLOEXEC);
  impl_->end_fd = ::eventfd(0, EFD_CLOEXEC);
  if (impl_->signal_fd < 0 || impl_->end_fd < 0) {
    throw FailureError(std::string("cannot watch for signals: ") + std::strerror(errno));
  }
  impl_->thread = std::thread([this] { impl_->Watch(); });
}

StopSignals::~StopSignals() {
  const std::uint64_t one = 1;
  // An eventfd's counter far from its maximum takes every write.
  [[maybe_unused]] const auto written = ::write(impl_->end_fd, &one, sizeof(one));
  impl_->thread.join();
  ::close(impl_->signal_fd);
  ::close(impl_->end_fd);
}

void StopSignals::Guard(std::function<void()> stop, std::function<void()> kill) {
  const std::lock_guard lock(impl_->mutex);
  impl_->stop = std::move(stop);
  impl_->kill = std::move(kill);
  // A signal that came between two guards must not be lost.
  if (impl_->received.load() != 0 && impl_->stop) impl_->stop();
}

void StopSignals::Release() {
  Guard(nullptr, nullptr);
}

int StopSignals::received() const {
  return impl_->received.load();
}

}  // namespace acan::cli
