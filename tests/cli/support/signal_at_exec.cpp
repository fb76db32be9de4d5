// Preloaded into a process: sends a signal to its child between fork and exec, at the call that
// SIGNAL_AT_CALL names: "setpgid", the child's first call, or "execv", its last. The signal is
// SIGSTOP if SIGNAL=STOP, otherwise SIGTERM. It first creates the file that SIGNAL_SENT names, if
// any, so that a test notices if the child no longer makes the call.
#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace {

const pid_t first_process = ::getpid();

void SignalAt(const char* call) {
  const char* wanted = std::getenv("SIGNAL_AT_CALL");
  if (wanted == nullptr || std::strcmp(wanted, call) != 0) return;
  if (::getpid() == first_process) return;
  if (const char* sent = std::getenv("SIGNAL_SENT")) {
    if (const int fd = ::open(sent, O_WRONLY | O_CREAT | O_CLOEXEC, 0600); fd >= 0) ::close(fd);
  }
  const char* signal = std::getenv("SIGNAL");
  const bool stop = signal != nullptr && std::strcmp(signal, "STOP") == 0;
  ::kill(::getpid(), stop ? SIGSTOP : SIGTERM);
}

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int setpgid(pid_t pid, pid_t group) noexcept {
  SignalAt("setpgid");
  return Next<decltype(::setpgid)>("setpgid")(pid, group);
}

int execv(const char* path, char* const words[]) noexcept {
  SignalAt("execv");
  return Next<decltype(::execv)>("execv")(path, words);
}

}  // extern "C"
