// AtomicFile: a file that appears under its name complete or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "acan/core/error.h"

namespace acan {

// The disk or a quota is full. The caller may free space and try again.
class DiskFull : public Error {
 public:
  explicit DiskFull(const std::string& text) : Error(Kind::kFailure, text) {}
};

// Throws DiskFull if `error`, a value of errno, says so, and otherwise Error (failure). The message
// names the path, what was not possible (`doing`, as in "write"), and the system's reason.
[[noreturn]] void ThrowFileError(const std::string& path, const std::string& doing, int error);

// The file is written under a temporary name beside `path`; Commit syncs and renames it. The
// destructor removes a file that was not committed. Errors are Error (failure) that name the path
// and the system's message, or DiskFull if there is no space.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Makes the file `bytes` long and, if the file system can, reserves the space, so that a full
  // disk is noticed before the work.
  void Reserve(std::int64_t bytes);
  void WriteAt(std::int64_t offset, const void* data, std::size_t bytes);
  // Reads back exactly `bytes`.
  void ReadAt(std::int64_t offset, void* data, std::size_t bytes) const;
  // Writes to the disk what Commit would otherwise have to write.
  void Sync();
  // `before_rename`, if set, is called when the contents are on the disk, and may throw: then the
  // file is not committed.
  void Commit(const std::function<void()>& before_rename = {});

 private:
  [[noreturn]] void Fail(const std::string& doing, int error) const;

  std::string path_;
  std::string temporary_;
  int descriptor_ = -1;
};

// Removes the temporary files that killed writers of `path` left beside it. Keeps files that any
// process is still writing, and ignores files that cannot be removed.
void RemoveUnfinished(const std::string& path);
// The same for one temporary file. Returns whether it was removed.
bool RemoveUnfinishedFile(const std::string& temporary);

// Makes a file's new name durable, after a rename or a link. If the file system cannot sync
// folders, the name is as durable as the file system makes it.
void SyncFolderOf(const std::string& path);

// Writes `text` to `path` through an AtomicFile.
void WriteFileAtomically(const std::string& path, const std::string& text);

}  // namespace acan
