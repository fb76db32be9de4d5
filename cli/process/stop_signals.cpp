#include "stop_signals.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <initializer_list>
#include <mutex>
#include <thread>
#include <utility>

#include "acan/core/error.h"
#include "acan/core/text/system_error_text.h"
#include "child.h"

namespace acan::cli {
namespace {

using Clock = std::chrono::steady_clock;

// The pipe to which the handler writes the number of the signal. Signals are not blocked and read
// from a signalfd, because libraries may have started threads before main whose masks we do not
// set.
std::atomic<int> signal_pipe{-1};
static_assert(std::atomic<int>::is_always_lock_free);  // used in a signal handler

extern "C" void OnStopSignal(int signal) {
  const int saved = errno;
  const auto number = static_cast<unsigned char>(signal);
  [[maybe_unused]] const auto written = ::write(signal_pipe.load(), &number, 1);
  errno = saved;
}

void Handle(std::initializer_list<int> signals, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (const int signal : signals) ::sigaction(signal, &action, nullptr);
}

bool IsIgnored(int signal) {
  struct sigaction action {};
  return ::sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

struct StopSignals::Impl {
  explicit Impl(Mode which) : mode(which) {}

  const Mode mode;
  std::array<int, 2> pipe = {-1, -1};
  std::atomic<int> received{0};
  bool was_spared = false;        // a child ignored one SIGTERM; used by the thread only
  Clock::time_point received_at;  // when the first signal was received; used by the thread only
  std::mutex mutex;               // guards the functions and their calls
  Actions actions;
  std::thread thread;

  // Reads signals until it reads a 0, which is no signal.
  void Watch() {
    for (;;) {
      unsigned char number = 0;
      const ssize_t count = ::read(pipe[0], &number, 1);
      if (count == 1 && number == 0) return;
      if (count == 1) Came(number);
    }
  }

  void Came(int signal) {
    const bool of_child = mode == Mode::kOfChild;
    if (of_child && signal == SIGTERM && !std::exchange(was_spared, true)) return;
    int none = 0;
    const bool first = received.compare_exchange_strong(none, signal);
    // A child is told of its parent's death once for each of the parent's threads, because the
    // kernel hands it from one thread to the next while they end. Only the first notification
    // counts.
    if (!first && of_child) return;
    const Clock::time_point now = Clock::now();
    if (first) received_at = now;
    const bool repeats = !first && signal == SIGTERM && received.load() == SIGTERM;
    if (repeats && now < received_at + kRepeatedStop) return;
    const std::lock_guard lock(mutex);
    if (first && actions.stop) {
      actions.stop();
      return;
    }
    if (actions.kill) actions.kill();
    ::_exit(128 + signal);
  }
};

StopSignals::StopSignals(Mode mode) : impl_(std::make_unique<Impl>(mode)) {
  if (::pipe2(impl_->pipe.data(), O_CLOEXEC) != 0) {
    throw FailureError(std::string("cannot watch for signals: ") + SystemErrorText(errno));
  }
  signal_pipe = impl_->pipe[1];
  impl_->thread = std::thread([this] { impl_->Watch(); });
  Handle({SIGTERM}, OnStopSignal);
  Handle({SIGINT}, mode == Mode::kAll ? OnStopSignal : SIG_IGN);
  // nohup(1) ignores SIGHUP for its command.
  if (!IsIgnored(SIGHUP)) Handle({SIGHUP}, mode == Mode::kAll ? OnStopSignal : SIG_IGN);
  if (mode == Mode::kOfChild) Handle({EndChildSignal()}, OnStopSignal);
}

StopSignals::~StopSignals() {
  Handle({SIGINT, SIGTERM, EndChildSignal()}, SIG_DFL);
  if (!IsIgnored(SIGHUP)) Handle({SIGHUP}, SIG_DFL);
  const unsigned char end = 0;
  [[maybe_unused]] const auto written = ::write(impl_->pipe[1], &end, 1);
  impl_->thread.join();
  signal_pipe = -1;
  for (const int fd : impl_->pipe) ::close(fd);
}

StopSignals::Actions StopSignals::Guard(Actions actions) {
  const std::lock_guard lock(impl_->mutex);
  std::swap(impl_->actions, actions);
  if (impl_->received.load() != 0 && impl_->actions.stop) impl_->actions.stop();
  return actions;
}

int StopSignals::received() const {
  return impl_->received.load();
}

}  // namespace acan::cli
