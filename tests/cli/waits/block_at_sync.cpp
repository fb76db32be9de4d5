// Preloaded into a process: simulates a disk that does not answer. A sync of a file whose path
// contains the text in BLOCK_AT_SYNC_OF never returns, as if a disk or a file server was gone. Nor
// does an fstat, which follows when a file was opened, with the text in BLOCK_AT_STAT_OF.
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

void BlockIfWanted(int fd, const char* variable) {
  const char* wanted = std::getenv(variable);
  if (wanted == nullptr) return;
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t size = ::readlink(link.c_str(), path.data(), path.size());
  if (size <= 0) return;
  const std::string_view name(path.data(), static_cast<std::size_t>(size));
  while (name.find(wanted) != std::string_view::npos) ::pause();
}

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" {

int fsync(int fd) {
  BlockIfWanted(fd, "BLOCK_AT_SYNC_OF");
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
