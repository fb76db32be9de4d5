// Preloaded into a process: kills it just before its DIE_AT_CALL-th call with an outside effect: a
// send to a socket, or an fsync, a rename, a truncation or a removal of a file. Each poll for
// messages counts, too, because by then the process may have written to shared memory. So counting
// reaches every state in which a process can leave the others.
//
// With DIE_AT_FUNCTION=NAME, only calls of this function count.
//
// The first call of each function adds a line with its name to the file COUNTED_CALLS, so that a
// test notices a function that the process no longer calls by this name.
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

long DeathAt() {
  const char* text = std::getenv("DIE_AT_CALL");
  return text == nullptr ? 0 : std::strtol(text, nullptr, 10);
}

// Adds `function` to the file of counted calls. `noted` belongs to the function.
void NoteOnce(const char* function, std::atomic_flag& noted) {
  if (noted.test_and_set()) return;
  const char* path = std::getenv("COUNTED_CALLS");
  if (path == nullptr) return;
  const int fd = ::open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  const std::string line = std::string(function) + "\n";
  [[maybe_unused]] const ssize_t written = ::write(fd, line.data(), line.size());
  ::close(fd);
}

void Count(const char* function, std::atomic_flag& noted) {
  static const long death_at = DeathAt();
  static std::atomic<long> calls{0};
  static const char* const only = std::getenv("DIE_AT_FUNCTION");
  NoteOnce(function, noted);
  if (only != nullptr && std::strcmp(only, function) != 0) return;
  if (++calls == death_at) ::kill(::getpid(), SIGKILL);
}

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

ssize_t send(int fd, const void* bytes, size_t size, int flags) {
  static std::atomic_flag noted;
  Count("send", noted);
  static auto* const next = Next<decltype(::send)>("send");
  return next(fd, bytes, size, flags);
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  static std::atomic_flag noted;
  Count("sendmsg", noted);
  static auto* const next = Next<decltype(::sendmsg)>("sendmsg");
  return next(fd, message, flags);
}

int ppoll(pollfd* items, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  static std::atomic_flag noted;
  Count("ppoll", noted);
  static auto* const next = Next<decltype(::ppoll)>("ppoll");
  return next(items, count, timeout, mask);
}

int fsync(int fd) {
  static std::atomic_flag noted;
  Count("fsync", noted);
  static auto* const next = Next<decltype(::fsync)>("fsync");
  return next(fd);
}

int fdatasync(int fd) {
  static std::atomic_flag noted;
  Count("fdatasync", noted);
  static auto* const next = Next<decltype(::fdatasync)>("fdatasync");
  return next(fd);
}

int rename(const char* from, const char* to) noexcept {
  static std::atomic_flag noted;
  Count("rename", noted);
  static auto* const next = Next<decltype(::rename)>("rename");
  return next(from, to);
}

int ftruncate(int fd, off_t bytes) noexcept {
  static std::atomic_flag noted;
  Count("ftruncate", noted);
  static auto* const next = Next<decltype(::ftruncate)>("ftruncate");
  return next(fd, bytes);
}

// std::filesystem::remove calls this, and the C library's own call of unlink cannot be replaced.
int remove(const char* path) noexcept {
  static std::atomic_flag noted;
  Count("remove", noted);
  static auto* const next = Next<decltype(::remove)>("remove");
  return next(path);
}

int unlink(const char* path) noexcept {
  static std::atomic_flag noted;
  Count("unlink", noted);
  static auto* const next = Next<decltype(::unlink)>("unlink");
  return next(path);
}

}  // extern "C"
