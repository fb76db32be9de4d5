// Child: another process of this program, which does not outlive this one.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace acan::cli {

// How a process ended.
struct Exit {
  int code = 0;              // of exit(), if signal is 0
  int signal = 0;            // the signal that killed it
  std::string Text() const;  // "exited with code 1", "was killed by signal 9 (Killed)"
};

// A running child. Its stdout and stderr are pipes to this process. Not thread safe. The thread
// that starts the child must live as long as the child, because the kernel ties the child's life to
// that thread.
class Child {
 public:
  // Starts /proc/self/exe with `arguments`, and adds the hidden flag that ties its life to this
  // process (see AdoptParent). Throws Error (failure).
  explicit Child(const std::vector<std::string>& arguments);
  ~Child();  // kills the child if it still runs
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;

  pid_t pid() const { return pid_; }
  int out_fd() const {
    return out_.fd;
  }  // -1 when the child has closed it: it has ended, or is about to
  int err_fd() const { return err_.fd; }

  // The complete lines that have arrived on stdout or stderr. At the end of a stream, its pipe is
  // closed.
  std::vector<std::string> ReadOut() { return ReadLines(out_); }
  std::vector<std::string> ReadErr() { return ReadLines(err_); }

  void Signal(int signal);
  Exit Wait();  // blocks until it has ended
  bool ended() const { return exit_.has_value(); }

 private:
  struct Stream {
    int fd = -1;
    std::string partial;  // an incomplete line
  };
  static std::vector<std::string> ReadLines(Stream& stream);

  pid_t pid_ = -1;
  Stream out_, err_;
  std::optional<Exit> exit_;
};

inline constexpr const char* kChildFlag = "--child-of";
// The signal that asks a child to end. Not SIGTERM, which tools that stop a whole process group
// send to every process: then the parent still needs its children. Not SIGUSR1 or SIGUSR2: OpenCL
// drivers compile kernels with LLVM, which replaces our handlers of these signals.
inline int EndChildSignal() {
  return SIGRTMIN + 1;
}

// In the child: from now on the kernel sends EndChildSignal() when the thread that started the
// child ends. False if `parent` is gone already.
bool AdoptParent(pid_t parent);
// Whether that parent has died.
bool ParentDied(pid_t parent);

}  // namespace acan::cli
