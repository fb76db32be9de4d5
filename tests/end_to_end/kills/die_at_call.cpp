// Preloaded into a process: kills it just before its DIE_AT_CALL-th call with an outside effect: a
// send to a socket, or an fsync, a rename or a removal of a file. Each poll for messages counts,
// too, because by then the process may have written to shared memory. So counting reaches every
// state in which a process can leave the others.
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

namespace {

long DeathAt() {
  const char* text = std::getenv("DIE_AT_CALL");
  return text == nullptr ? 0 : std::strtol(text, nullptr, 10);
}

void Count() {
  static const long death_at = DeathAt();
  static std::atomic<long> calls{0};
  if (++calls == death_at) ::kill(::getpid(), SIGKILL);
}

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t send(int fd, const void* bytes, size_t size, int flags) {
  Count();
  static auto* const next = Next<decltype(::send)>("send");
  return next(fd, bytes, size, flags);
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  Count();
  static auto* const next = Next<decltype(::sendmsg)>("sendmsg");
  return next(fd, message, flags);
}

int ppoll(pollfd* items, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  Count();
  static auto* const next = Next<decltype(::ppoll)>("ppoll");
  return next(items, count, timeout, mask);
}

int fsync(int fd) {
  Count();
  static auto* const next = Next<decltype(::fsync)>("fsync");
  return next(fd);
}

int fdatasync(int fd) {
  Count();
  static auto* const next = Next<decltype(::fdatasync)>("fdatasync");
  return next(fd);
}

int rename(const char* from, const char* to) noexcept {
  Count();
  static auto* const next = Next<decltype(::rename)>("rename");
  return next(from, to);
}

int unlink(const char* path) noexcept {
  Count();
  static auto* const next = Next<decltype(::unlink)>("unlink");
  return next(path);
}

}  // extern "C"
