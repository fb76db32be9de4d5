#include "process_setup.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>

#include "acan/core/error.h"
#include "acan/core/text/system_error_text.h"
#include "fmt/format.h"
#include "tuplespace/descriptors.h"
#include "tuplespace/threads.h"

namespace acan::cli {
namespace {

// In addition to a job's own values: stacks and allocators' arenas of some twenty threads.
constexpr std::uint64_t kAddressSpaceBytes = 256ULL << 20;
constexpr std::uint64_t kKiB = 1024;
constexpr std::uint64_t kStackBytes = 256 * kKiB;  // measurements needed at most 192 KiB

std::uint64_t AddressSpaceInUse() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t pages = 0;
  file >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

// If ZeroMQ gets no thread, it ends the process by a signal. So this function tries to start some
// first. For threads that other processes will start, only the number counts here, not the stacks.
void RequireThreads(const std::string& who, std::size_t count) {
  const std::size_t own = std::min(count, kMinThreads);
  const tuplespace::ThreadTrial trial = tuplespace::TryThreads({{own}, {count - own, kStackBytes}});
  if (trial.error == 0) return;
  throw FailureError(fmt::format(
      "the system allows only {} more threads ({}); {} needs at least {}: raise the limit (ulimit "
      "-u, or pids.max of its control group, or ulimit -v for their stacks)",
      trial.started, SystemErrorText(trial.error), who, count));
}

void OpenStandardDescriptors() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // This is the lowest free number, so open returns it. A process that cannot open even this ends
    // soon.
    if (::open("/dev/null", O_RDWR) < 0) return;
  }
}

}  // namespace

void SetUpProcess() {
  OpenStandardDescriptors();
  for (const int signal : {SIGPIPE, SIGXFSZ}) ::signal(signal, SIG_IGN);
  // The program that started this one may ignore SIGCHLD, which hides how children end, or may
  // block signals.
  ::signal(SIGCHLD, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  // Children run /proc/self/exe, so ps and top would call them "exe".
  ::prctl(PR_SET_NAME, "acan");
}

void RequireLimits(const std::string& who, std::size_t descriptors, std::size_t threads) {
  tuplespace::RaiseDescriptorLimit();
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < descriptors) {
    throw FailureError(
        fmt::format("the limit on open files (ulimit -n) is {}; {} needs at least {}: raise "
                    "the limit",
                    limit.rlim_cur, who, descriptors));
  }
  const bool limited = ::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
  const std::uint64_t wanted = AddressSpaceInUse() + kAddressSpaceBytes;
  if (limited && limit.rlim_cur < wanted) {
    throw FailureError(
        fmt::format("the limit on address space (ulimit -v) is {} KiB; {} needs at least {} "
                    "KiB, plus the memory of the job's values: raise the limit",
                    limit.rlim_cur / kKiB, who, wanted / kKiB));
  }
  RequireThreads(who, threads);
}

void RequireStacks() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_STACK, &limit) != 0 || limit.rlim_cur >= kStackBytes) return;
  throw FailureError(fmt::format(
      "the limit on a thread's stack (ulimit -s) is {} KiB; acan needs at least {} KiB for each "
      "thread: raise the limit",
      limit.rlim_cur / kKiB, kStackBytes / kKiB));
}

}  // namespace acan::cli
