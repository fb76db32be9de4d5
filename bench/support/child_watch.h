// A benchmark waits for its child processes without limit. If one dies, it would wait forever, so
// this process reports it and ends.
#pragma once

#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstring>

namespace acan::bench {

class ChildWatch {
 public:
  // From now on, for the whole process: a child that is killed, or ends with an exit code other
  // than 0, ends this process with exit code 1; a child that is stopped is reported. A child that
  // forks calls Forget.
  static void Begin() {
    struct sigaction action {};
    action.sa_sigaction = OnChild;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigemptyset(&action.sa_mask);
    ::sigaction(SIGCHLD, &action, nullptr);
  }
  static void Forget() { ::signal(SIGCHLD, SIG_DFL); }

  // While an object exists, children may end, because this process ends them.
  class MayEnd {
   public:
    MayEnd() { ++may_end; }
    ~MayEnd() { --may_end; }
    MayEnd(const MayEnd&) = delete;
    MayEnd& operator=(const MayEnd&) = delete;
  };

 private:
  static inline std::atomic<int> may_end{0};
  static_assert(std::atomic<int>::is_always_lock_free);  // used in a signal handler

  static void Say(const char* text) {
    [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text, std::strlen(text));
  }
  static void OnChild(int, siginfo_t* info, void*) {
    if (info->si_code == CLD_STOPPED) {
      Say("bench: a process of the benchmark was stopped; waiting until it goes on\n");
    }
    const bool died = info->si_code == CLD_KILLED || info->si_code == CLD_DUMPED ||
                      (info->si_code == CLD_EXITED && info->si_status != 0);
    if (!died || may_end > 0) return;
    Say("bench: a process of the benchmark has died, so that it cannot go on\n");
    ::_exit(1);
  }
};

}  // namespace acan::bench
