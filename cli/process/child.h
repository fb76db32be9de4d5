// Child: this program again, as another process that does not outlive this one.
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
  int signal = 0;            // that killed it
  std::string Text() const;  // "exited with code 1", "was killed by signal 9 (Killed)"
};

// A running child. Its stdout and stderr are pipes to us. Not thread safe; the thread that starts
// it must live as long as the child (the kernel ties the child's life to that thread).
class Child {
 public:
  // Starts /proc/self/exe with `arguments`, to which it adds the hidden flag that ties its life to
  // ours (see AdoptParent). Throws Error (failure).
  explicit Child(const std::vector<std::string>& arguments);
  ~Child();  // kills it if it still runs
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;

  pid_t pid() const { return pid_; }
  int out_fd() const {
    return out_.fd;
  }  // -1 when the child has closed it: it has ended, or is about to
  int err_fd() const { return err_.fd; }

  // Whole lines that came by now on stdout or stderr; closes our end at the end of the stream.
  std::vector<std::string> ReadOut() { return ReadLines(out_); }
  std::vector<std::string> ReadErr() { return ReadLines(err_); }

  void Signal(int signal);
  Exit Wait();  // until it has ended
  bool ended() const { return exit_.has_value(); }

 private:
  struct Stream {
    int fd = -1;
    std::string partial;  // a line that is not complete yet
  };
  static std::vector<std::string> ReadLines(Stream& stream);

  pid_t pid_ = -1;
  Stream out_, err_;
  std::optional<Exit> exit_;
};

inline constexpr const char* kChildFlag = "--child-of";
// Asks a child to end. Not SIGTERM, which whoever stops a whole group of processes sends to each of
// them: the parent still needs its children then. Not SIGUSR1 or SIGUSR2: drivers of OpenCL compile
// kernels with LLVM, which puts its own handlers in the place of ours.
inline int EndChildSignal() {
  return SIGRTMIN + 1;
}

// In the child: from now on the kernel sends EndChildSignal() when the thread that started us ends.
// False if `parent` is gone already.
bool AdoptParent(pid_t parent);
// Whether that parent has died.
bool ParentDied(pid_t parent);

}  // namespace acan::cli
