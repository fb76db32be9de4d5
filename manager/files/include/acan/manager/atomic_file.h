// A file that appears under its name whole or not at all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "acan/core/error.h"

namespace acan {

// The disk, or somebody's share of it, has no room. Whoever can make some may try again.
class DiskFull : public Error {
 public:
  explicit DiskFull(const std::string& text) : Error(Kind::kFailure, text) {}
};

// Written under a temporary name beside `path`; Commit syncs and renames it. The destructor removes
// what was not committed. Errors are Error (failure) that name the path and the system's words,
// those for want of room DiskFull.
//
// With an empty path the file lies in the folder for temporary files ($TMPDIR, else /tmp) and has
// no name: it goes with this object, or with the process, however that ends. Commit does nothing.
class AtomicFile {
 public:
  explicit AtomicFile(const std::string& path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  // Makes the file `bytes` long and, where the file system can, reserves the space: a disk too full
  // is found before the work, not after it.
  void Reserve(std::int64_t bytes);
  void WriteAt(std::int64_t offset, const void* data, std::size_t bytes);
  // Reads back exactly `bytes`.
  void ReadAt(std::int64_t offset, void* data, std::size_t bytes) const;
  void Commit();

 private:
  void OpenNameless();
  [[noreturn]] void Fail(const std::string& doing, int error) const;

  std::string path_;
  std::string temporary_;  // empty: the file has no name
  int descriptor_ = -1;
};

// Removes what writers of `path` that were killed have left beside it. What is being written,
// by whichever process, stays, and so does what cannot be removed.
void RemoveUnfinished(const std::string& path);

// Writes all of `text` to `path` in this way.
void WriteFileAtomically(const std::string& path, const std::string& text);

}  // namespace acan
