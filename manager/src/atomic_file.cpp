#include "atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "acan/core/error.h"

namespace acan {
namespace {

// Unique among the processes and threads of this host; O_EXCL settles the rest.
std::string TemporaryName(const std::string& path) {
  static std::atomic<unsigned> number{0};
  return fmt::format("{}.{}.{}.tmp", path, ::getpid(), number++);
}

// A rename is on disk only when its directory is. Some file systems cannot sync directories: theirs
// is then as durable as they make it.
void SyncDirectoryOf(const std::string& path) {
  const std::filesystem::path directory = std::filesystem::absolute(path).parent_path();
  const int descriptor = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path) : path_(path), temporary_(TemporaryName(path)) {
  // Renaming onto a directory would fail only at the end.
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) Fail("write", EISDIR);
  descriptor_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) Fail("create", errno);
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::Fail(const std::string& doing, int error) const {
  throw FailureError(fmt::format("{}: cannot {}: {}", path_, doing, std::strerror(error)));
}

void AtomicFile::Reserve(std::int64_t bytes) {
  if (bytes == 0) return;
  int result = 0;
  do {
    result = ::fallocate(descriptor_, 0, 0, bytes);
  } while (result != 0 && errno == EINTR);
  if (result == 0) return;
  if (errno != EOPNOTSUPP && errno != ENOSYS) {
    Fail(fmt::format("reserve {} bytes for it", bytes), errno);
  }
  if (::ftruncate(descriptor_, bytes) != 0) Fail("set its size", errno);
}

void AtomicFile::WriteAt(std::int64_t offset, const void* data, std::size_t bytes) {
  const char* from = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t wrote = ::pwrite(descriptor_, from, bytes, offset);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) Fail("write", errno);
    from += wrote;
    offset += wrote;
    bytes -= static_cast<std::size_t>(wrote);
  }
}

void AtomicFile::ReadAt(std::int64_t offset, void* data, std::size_t bytes) const {
  char* to = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor_, to, bytes, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) Fail("read back", errno);
    if (got == 0) {
      throw FailureError(fmt::format("{}: cannot read back: somebody cut it short", path_));
    }
    to += got;
    offset += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

void AtomicFile::Commit() {
  if (::fsync(descriptor_) != 0) Fail("sync", errno);
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) Fail("rename", errno);
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (::close(descriptor) != 0 && errno != EINTR) Fail("close", errno);
  SyncDirectoryOf(path_);
}

void WriteFileAtomically(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.WriteAt(0, text.data(), text.size());
  file.Commit();
}

}  // namespace acan
