// Child processes of a benchmark: parts of acan that must not share its address space.
#pragma once

#include <sys/prctl.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <exception>
#include <functional>
#include <stdexcept>
#include <vector>

#include "child_watch.h"
#include "fmt/format.h"

namespace acan::bench {

// Child processes that end with this object, or with this process. If one dies earlier, this
// process ends (ChildWatch).
class Children {
 public:
  Children() { ChildWatch::Begin(); }
  Children(const Children&) = delete;
  Children& operator=(const Children&) = delete;
  ~Children() {
    const ChildWatch::MayEnd may_end;
    for (const pid_t pid : pids_) ::kill(pid, SIGKILL);
    for (const pid_t pid : pids_) ::waitpid(pid, nullptr, 0);
  }
  pid_t Start(const std::function<void()>& body, int exit_code = 1) {
    const pid_t parent = ::getpid();
    const pid_t pid = ::fork();
    if (pid < 0) throw std::runtime_error("cannot fork");
    if (pid == 0) {
      ChildWatch::Forget();
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      if (::getppid() != parent) ::_exit(1);
      try {
        body();
        ::_exit(exit_code);
      } catch (const std::exception& error) {
        fmt::print(stderr, "bench: {}\n", error.what());
      }
      ::_exit(1);
    }
    pids_.push_back(pid);
    return pid;
  }

 private:
  std::vector<pid_t> pids_;
};

}  // namespace acan::bench
