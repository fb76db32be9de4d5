// Preloaded into a process: simulates a system that lacks disk, threads or processes.
//
// LIMITED_DISK=FOLDER: while the file FOLDER.bytes exists, the files in the folder may have at most
// the number of bytes that it contains. Writes and reservations beyond that fail as on a full disk;
// a partial write fills it. If the number is followed by the name of a file, only writes to that
// file, or to one that will be renamed to it, fail. While the file FOLDER.threads exists, a thread
// can start only if the process then has at most the number of threads that the file contains;
// without a number, none can. While the file FOLDER.processes exists, no process can start.
// While the file FOLDER.held exists, a file that will be renamed to FOLDER/metrics.jsonl is not
// written, as by a disk or file server that does not respond; the process says so. While the file
// FOLDER.unsynced exists, FOLDER/metrics.jsonl does not reach the disk. If the file FOLDER.unlogged
// exists, a file audit.jsonl does not reach the disk. The system says this only once, so the sync
// that fails removes FOLDER.unlogged. While the file FOLDER.server exists, all files seem to lie on
// a file server, and the process says when it first syncs a file FILE while FILE.lock is locked.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

namespace {

namespace fs = std::filesystem;

template <typename Function>
Function* Next(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

std::int64_t BytesIn(const std::string& folder) {
  std::int64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code gone;
    const auto size = at->is_regular_file(gone) ? at->file_size(gone) : 0;
    if (!gone) bytes += static_cast<std::int64_t>(size);
  }
  return bytes;
}

std::string PathOf(int fd) {
  std::array<char, 4096> path{};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  const ssize_t size = ::readlink(link.c_str(), path.data(), path.size());
  return {path.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

// Whether it is `name`, or one of the temporary files NAME.*, which are renamed to it.
bool IsOrBecomes(const std::string& path, const std::string& name) {
  const std::string last = path.substr(path.rfind('/') + 1);
  return last == name || last.starts_with(name + ".");
}

// The number of bytes by which the file may grow; nullopt: no limit.
std::optional<std::int64_t> RoomFor(int fd) {
  const char* folder = std::getenv("LIMITED_DISK");
  if (folder == nullptr) return std::nullopt;
  const std::string path = PathOf(fd);
  if (!path.starts_with(std::string(folder) + "/")) return std::nullopt;
  std::ifstream limits(std::string(folder) + ".bytes");
  std::int64_t limit = 0;
  if (!(limits >> limit)) return std::nullopt;
  std::string only;
  if (limits >> only && !IsOrBecomes(path, only)) return std::nullopt;
  return std::max<std::int64_t>(0, limit - BytesIn(folder));
}

std::int64_t SizeOf(int fd) {
  struct stat status {};
  return ::fstat(fd, &status) == 0 ? status.st_size : 0;
}

// The number of bytes that may be written from `begin` on; if 0, errno is set.
std::size_t Allowed(int fd, std::int64_t begin, std::size_t bytes) {
  const std::optional<std::int64_t> room = RoomFor(fd);
  if (!room) return bytes;
  const std::int64_t end = std::min(begin + static_cast<std::int64_t>(bytes), SizeOf(fd) + *room);
  if (end <= begin) errno = ENOSPC;
  return static_cast<std::size_t>(std::max<std::int64_t>(0, end - begin));
}

std::optional<std::size_t> MaxThreads() {
  const char* folder = std::getenv("LIMITED_DISK");
  if (folder == nullptr) return std::nullopt;
  std::ifstream file(std::string(folder) + ".threads");
  if (!file) return std::nullopt;
  std::size_t most = 0;
  file >> most;
  return most;
}

std::size_t Threads() {
  return static_cast<std::size_t>(
      std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator()));
}

int Reserve(int fd, int mode, off_t offset, off_t bytes) {
  const std::optional<std::int64_t> room = RoomFor(fd);
  if (room && offset + bytes > SizeOf(fd) + *room) {
    errno = ENOSPC;
    return -1;
  }
  static auto* const next = Next<decltype(::fallocate)>("fallocate");
  return next(fd, mode, offset, bytes);
}

// Whether there is the file FOLDER.NAME.
bool IsSet(const char* name) {
  const char* folder = std::getenv("LIMITED_DISK");
  return folder != nullptr && ::access((std::string(folder) + "." + name).c_str(), F_OK) == 0;
}

// Whether a descriptor, which may be this process's own, has locked the file.
bool IsLocked(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return false;
  const bool locked = ::flock(fd, LOCK_EX | LOCK_NB) != 0;
  ::close(fd);
  return locked;
}

void SayIfSyncedWhileLocked(int fd) {
  static std::atomic_flag said;
  const std::string path = PathOf(fd);
  if (!IsLocked(path + ".lock") || said.test_and_set()) return;
  ::dprintf(STDERR_FILENO, "%s is synced while it is locked\n", path.c_str());
}

void WaitWhileHeld(int fd) {
  const char* folder = std::getenv("LIMITED_DISK");
  if (folder == nullptr) return;
  const std::string held = std::string(folder) + ".held";
  if (::access(held.c_str(), F_OK) != 0) return;
  if (!PathOf(fd).starts_with(std::string(folder) + "/metrics.jsonl.")) return;
  ::dprintf(STDERR_FILENO, "the disk does not respond\n");
  const int changes = ::inotify_init1(IN_CLOEXEC);
  std::array<char, 4096> some{};
  // The removal of its last name changes the attributes of a file.
  while (::inotify_add_watch(changes, held.c_str(), IN_ATTRIB) >= 0 &&
         ::read(changes, some.data(), some.size()) > 0) {
  }
  ::close(changes);
}

ssize_t WriteAt(int fd, const void* from, size_t bytes, off_t offset) {
  WaitWhileHeld(fd);
  const std::size_t allowed = Allowed(fd, offset, bytes);
  if (allowed == 0 && bytes > 0) return -1;
  static auto* const next = Next<decltype(::pwrite)>("pwrite");
  return next(fd, from, allowed, offset);
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* from, size_t bytes) {
  const std::size_t allowed = Allowed(fd, SizeOf(fd), bytes);
  if (allowed == 0 && bytes > 0) return -1;
  static auto* const next = Next<decltype(::write)>("write");
  return next(fd, from, allowed);
}

ssize_t pwrite(int fd, const void* from, size_t bytes, off_t offset) {
  return WriteAt(fd, from, bytes, offset);
}

ssize_t pwrite64(int fd, const void* from, size_t bytes, off64_t offset) {
  return WriteAt(fd, from, bytes, offset);
}

int fallocate(int fd, int mode, off_t offset, off_t bytes) {
  return Reserve(fd, mode, offset, bytes);
}

int fallocate64(int fd, int mode, off64_t offset, off64_t bytes) {
  return Reserve(fd, mode, offset, bytes);
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*begin)(void*),
                   void* argument) noexcept {
  const std::optional<std::size_t> most = MaxThreads();
  if (most && Threads() >= *most) return EAGAIN;
  static auto* const next = Next<decltype(::pthread_create)>("pthread_create");
  return next(thread, attributes, begin, argument);
}

int fstatfs(int fd, struct statfs* info) noexcept {
  static auto* const next = Next<decltype(::fstatfs)>("fstatfs");
  const int result = next(fd, info);
  if (result == 0 && IsSet("server")) info->f_type = NFS_SUPER_MAGIC;
  return result;
}

int fdatasync(int fd) {
  const char* folder = std::getenv("LIMITED_DISK");
  if (IsSet("unsynced") && PathOf(fd) == std::string(folder) + "/metrics.jsonl") {
    errno = EIO;
    return -1;
  }
  if (IsSet("unlogged") && PathOf(fd).ends_with("/audit.jsonl")) {
    ::unlink((std::string(folder) + ".unlogged").c_str());
    errno = EIO;
    return -1;
  }
  if (IsSet("server")) SayIfSyncedWhileLocked(fd);
  static auto* const next = Next<decltype(::fdatasync)>("fdatasync");
  return next(fd);
}

pid_t fork() noexcept {
  const char* folder = std::getenv("LIMITED_DISK");
  if (folder != nullptr && ::access((std::string(folder) + ".processes").c_str(), F_OK) == 0) {
    errno = EAGAIN;
    return -1;
  }
  static auto* const next = Next<decltype(::fork)>("fork");
  return next();
}

}  // extern "C"
