// FolderLock: an output folder has one manager that writes to it.
//
// The lock is flock(2) on the file `manager.lock` in the folder, so it ends with its process,
// however that dies; a shared file system that passes locks on (NFS does) holds it for other hosts,
// too. What the file says of its owner is for messages, and for the one exception: of two managers
// of one job at one broker the broker says who leads, and that one may take the folder from the
// other, which may be stopped or cut off.
#pragma once

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>

namespace acan {

struct FolderOwner {
  pid_t pid = 0;  // 0: the file does not say who it is
  std::string host;
  std::string since;  // "2026-11-23 21:00:00 UTC"
  std::string run;    // names its tuples in the space that it works with
};

class FolderLock {
 public:
  // Null if somebody has the lock: `*owner` becomes who. `*said` becomes what the user should know,
  // if there is something: the folder was left by another host, or has no locks. Throws Error
  // (failure) if the file cannot be made.
  static std::unique_ptr<FolderLock> Take(const std::string& folder, const std::string& run,
                                          FolderOwner* owner, std::string* said);
  // The lock of this name becomes this one's, whoever has it; the other owner finds that by
  // IsOwn(). REQUIRES: the broker says that this process leads, and the owner does not.
  static std::unique_ptr<FolderLock> TakeOver(const std::string& folder, const std::string& run);
  // Throws Error (failure), as InUse says it, if somebody has the lock.
  static void CheckFree(const std::string& folder);
  // "the output folder out is in use by pid 17 on host vm since ...: ..., what to do".
  static std::string InUse(const std::string& folder, const FolderOwner& owner);

  ~FolderLock();  // removes the file, if it is its own still
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // nullopt: the file is gone.
  static std::optional<FolderOwner> OwnerOf(const std::string& folder);
  bool IsOwn() const;  // false: somebody else has taken the folder, or removed the file
  void SetRun(const std::string& run);

 private:
  FolderLock(std::string path, int descriptor);
  void Write(const std::string& run);

  const std::string path_;
  const int descriptor_;
  const std::string since_;
  std::string run_;
};

}  // namespace acan
