#include "acan/manager/atomic_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "acan/core/error.h"
#include "acan/core/text/system_error_text.h"
#include "acan/manager/file_lock.h"

namespace acan {
namespace {

constexpr std::string_view kSuffix = ".tmp";

// Unique among the living processes and threads of this host; O_EXCL excludes other collisions.
std::string TemporaryName(const std::string& path) {
  static std::atomic<unsigned> number{0};
  return fmt::format("{}.{}.{}{}", path, ::getpid(), number++, kSuffix);
}

bool IsNumber(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// Whether TemporaryName could have made this name for `final_name`.
bool IsTemporaryName(std::string_view name, std::string_view final_name) {
  if (!name.starts_with(final_name) || !name.ends_with(kSuffix)) return false;
  name.remove_prefix(final_name.size());
  if (!name.starts_with('.') || name.size() <= kSuffix.size()) return false;
  name.remove_prefix(1);
  if (name.size() <= kSuffix.size()) return false;
  name.remove_suffix(kSuffix.size());
  const std::size_t dot = name.find('.');
  return dot != std::string_view::npos && IsNumber(name.substr(0, dot)) &&
         IsNumber(name.substr(dot + 1));
}

// Locks a file for the time of writing, so that RemoveUnfinished does not remove it. False if
// RemoveUnfinished got the lock first. On file systems without locks nothing is removed. A system
// that forbids locks answers EACCES for every new name, so only EWOULDBLOCK makes another attempt.
bool LockOwn(int descriptor) {
  const LockTry tried = TryLock(descriptor);
  if (tried.locked != Locked::kYes) return tried.error != EWOULDBLOCK;
  struct stat own = {};
  return ::fstat(descriptor, &own) != 0 || own.st_nlink > 0;
}

}  // namespace

void ThrowFileError(const std::string& path, const std::string& doing, int error) {
  const std::string text = fmt::format("{}: cannot {}: {}", path, doing, SystemErrorText(error));
  if (error == ENOSPC || error == EDQUOT) throw DiskFull(text);
  throw FailureError(text);
}

AtomicFile::AtomicFile(const std::string& path) : path_(path) {
  // Otherwise only the rename at the end would fail.
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) Fail("write", EISDIR);
  while (descriptor_ < 0) {
    temporary_ = TemporaryName(path);
    descriptor_ = ::open(temporary_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    // The name exists if a process with the same id was killed; containers reuse low ids.
    if (descriptor_ < 0 && errno == EEXIST) continue;
    if (descriptor_ < 0) Fail("create", errno);
    if (!LockOwn(descriptor_)) ::close(std::exchange(descriptor_, -1));
  }
}

AtomicFile::~AtomicFile() {
  if (descriptor_ < 0) return;
  ::close(descriptor_);
  ::unlink(temporary_.c_str());
}

void AtomicFile::Fail(const std::string& doing, int error) const {
  ThrowFileError(path_, doing, error);
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
      throw FailureError(fmt::format("{}: cannot read back: another process truncated it", path_));
    }
    to += got;
    offset += got;
    bytes -= static_cast<std::size_t>(got);
  }
}

void AtomicFile::Sync() {
  if (::fsync(descriptor_) != 0) Fail("sync", errno);
}

void AtomicFile::Commit(const std::function<void()>& before_rename) {
  Sync();
  if (before_rename) before_rename();
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) Fail("rename", errno);
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (::close(descriptor) != 0 && errno != EINTR) Fail("close", errno);
  SyncFolderOf(path_);
}

void RemoveUnfinished(const std::string& path) {
  namespace fs = std::filesystem;
  const fs::path whole = fs::absolute(path);
  const std::string final_name = whole.filename().string();
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator at(whole.parent_path(), error), end; !error && at != end;
       at.increment(error)) {
    std::error_code ignored;
    if (!IsTemporaryName(at->path().filename().string(), final_name)) continue;
    if (at->is_regular_file(ignored)) found.push_back(at->path().string());
  }
  std::for_each(found.begin(), found.end(), RemoveUnfinishedFile);
}

bool RemoveUnfinishedFile(const std::string& temporary) {
  const int descriptor = ::open(temporary.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (descriptor < 0) return false;
  const bool removed =
      TryLock(descriptor).locked == Locked::kYes && ::unlink(temporary.c_str()) == 0;
  ::close(descriptor);
  return removed;
}

void SyncFolderOf(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::absolute(path).parent_path();
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) return;
  ::fsync(descriptor);
  ::close(descriptor);
}

void WriteFileAtomically(const std::string& path, const std::string& text) {
  AtomicFile file(path);
  file.WriteAt(0, text.data(), text.size());
  file.Commit();
}

}  // namespace acan
