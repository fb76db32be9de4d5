// Preloaded into a process: simulates a disk that does not answer. A sync of a file whose path
// contains the text in BLOCK_AT_SYNC_OF never returns, as if a disk or a file server was gone. Nor
// does an fstat, which follows when a file was opened, with the text in BLOCK_AT_STAT_OF. A sync of
// a file or folder whose path ends with the text in TERM_AT_SYNC_OF or KILL_AT_SYNC_OF first sends
// the process that signal, SIGTERM twice: timeout(1) signals its child and then its group.
#include <dlfcn.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>

namespace {

// Empty if the system does not say it.
std::string PathOf(int fd) {
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t size = ::readlink(link.c_str(), path.data(), path.size());
  return size <= 0 ? "" : std::string(path.data(), static_cast<std::size_t>(size));
}

void BlockIfWanted(int fd, const char* variable) {
  const char* wanted = std::getenv(variable);
  if (wanted == nullptr) return;
  const std::string path = PathOf(fd);
  while (path.find(wanted) != std::string::npos) ::pause();
}

void SignalIfWanted(int fd, const char* variable, int signal) {
  const char* wanted = std::getenv(variable);
  if (wanted != nullptr && PathOf(fd).ends_with(wanted)) ::kill(::getpid(), signal);
}

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int fsync(int fd) {
  BlockIfWanted(fd, "BLOCK_AT_SYNC_OF");
  for (int i = 0; i < 2; ++i) SignalIfWanted(fd, "TERM_AT_SYNC_OF", SIGTERM);
  SignalIfWanted(fd, "KILL_AT_SYNC_OF", SIGKILL);
  return Next<decltype(::fsync)>("fsync")(fd);
}

int fdatasync(int fd) {
  BlockIfWanted(fd, "BLOCK_AT_SYNC_OF");
  return Next<decltype(::fdatasync)>("fdatasync")(fd);
}

int fstat(int fd, struct stat* status) noexcept {
  BlockIfWanted(fd, "BLOCK_AT_STAT_OF");
  return Next<int(int, struct stat*)>("fstat")(fd, status);
}

}  // extern "C"
