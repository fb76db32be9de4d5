#include "child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "acan/core/error.h"
#include "acan/core/text/system_error_text.h"
#include "fmt/format.h"

namespace acan::cli {
namespace {

constexpr const char* kOwnProgram = "/proc/self/exe";
constexpr std::size_t kMaxLine = 1 << 16;  // longer lines are cut

// A pipe from a child. The end for reading does not block. Closes the ends that were not taken.
class Pipe {
 public:
  Pipe() {
    if (::pipe2(ends_.data(), O_CLOEXEC) != 0) {
      throw FailureError("cannot make a pipe to a child process: " + SystemErrorText(errno));
    }
    ::fcntl(ends_[0], F_SETFL, O_NONBLOCK);
  }
  ~Pipe() {
    for (const int end : ends_) {
      if (end >= 0) ::close(end);
    }
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  int write_end() const { return ends_[1]; }
  int TakeReadEnd() { return std::exchange(ends_[0], -1); }

 private:
  std::array<int, 2> ends_{-1, -1};
};

}  // namespace

std::string Exit::Text() const {
  if (signal == 0) return fmt::format("exited with code {}", code);
  return fmt::format("was killed by signal {} ({})", signal, ::strsignal(signal));
}

Child::Child(const std::vector<std::string>& arguments) {
  if (::access(kOwnProgram, X_OK) != 0) {
    throw FailureError(fmt::format(
        "cannot start a child process: {}: {}; acan starts its own program again through /proc, "
        "which must be mounted",
        kOwnProgram, SystemErrorText(errno)));
  }
  // All memory is allocated before fork, because other threads may hold the allocator's locks
  // during it.
  std::vector<std::string> words = {"acan"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  words.emplace_back(kChildFlag);
  words.push_back(std::to_string(::getpid()));
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  Pipe out, err;
  // If a signal reached the child before exec, our handler would run there and write into the pipe
  // that both processes share: this process would stop, and the child would not.
  sigset_t all, before;
  sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  pid_ = ::fork();
  if (pid_ == 0) {
    for (const int signal : {SIGINT, SIGHUP, EndChildSignal()}) ::signal(signal, SIG_DFL);
    ::signal(SIGTERM, SIG_IGN);  // until the child watches for it
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // until the child has set its own signal
    // A terminal or timeout(1) signals a whole group; only this process must act on such signals.
    ::setpgid(0, 0);
    ::dup2(out.write_end(), STDOUT_FILENO);
    ::dup2(err.write_end(), STDERR_FILENO);
    ::execv(kOwnProgram, argv.data());
    ::_exit(127);
  }
  const int error = errno;
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (pid_ < 0) throw FailureError("cannot start a child process: " + SystemErrorText(error));
  out_.fd = out.TakeReadEnd();
  err_.fd = err.TakeReadEnd();
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      out_(std::exchange(other.out_, Stream())),
      err_(std::exchange(other.err_, Stream())),
      exit_(std::exchange(other.exit_, Exit())) {}

Child::~Child() {
  if (pid_ > 0 && !exit_) {
    Signal(SIGKILL);
    Wait();
  }
  for (const Stream* stream : {&out_, &err_}) {
    if (stream->fd >= 0) ::close(stream->fd);
  }
}

std::vector<std::string> Child::ReadLines(Stream& stream) {
  std::vector<std::string> lines;
  std::array<char, 4096> buffer{};
  while (stream.fd >= 0) {
    const ssize_t count = ::read(stream.fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    if (count == 0) {
      ::close(std::exchange(stream.fd, -1));
      if (!stream.partial.empty()) lines.push_back(std::exchange(stream.partial, ""));
      break;
    }
    stream.partial.append(buffer.data(), static_cast<std::size_t>(count));
    for (std::size_t end; (end = stream.partial.find('\n')) != std::string::npos;) {
      lines.push_back(stream.partial.substr(0, end));
      stream.partial.erase(0, end + 1);
    }
    if (stream.partial.size() > kMaxLine) lines.push_back(std::exchange(stream.partial, ""));
  }
  return lines;
}

void Child::Signal(int signal) {
  if (pid_ > 0 && !exit_) ::kill(pid_, signal);
}

Exit Child::Wait() {
  if (exit_) return *exit_;
  constexpr int kUnknown = 255 << 8;  // as if it had ended with exit code 255
  int status = kUnknown;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  exit_ = WIFSIGNALED(status) ? Exit{0, WTERMSIG(status)} : Exit{WEXITSTATUS(status), 0};
  return *exit_;
}

bool AdoptParent(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, EndChildSignal());
  return !ParentDied(parent);
}

bool ParentDied(pid_t parent) {
  return ::getppid() != parent;
}

}  // namespace acan::cli
