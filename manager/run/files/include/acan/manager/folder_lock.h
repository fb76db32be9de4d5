// FolderLock: ensures that only one manager writes to an output folder.
//
// The lock is flock(2) on the file `manager.lock` in the folder, so it ends with its process,
// however that ends. On a shared file system that forwards locks (NFS does) it also excludes other
// hosts. The file's text about its owner serves messages, with one exception: if two managers of
// one job share a broker, the broker decides which one leads, and the leader may take the folder
// from the other one, which may be stopped or disconnected.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace acan {

struct FolderOwner {
  pid_t pid = 0;  // 0: the file does not name its owner
  std::string host;
  std::string since;  // "2026-11-23 21:00:00 UTC"
  std::string run;    // the prefix of its tuples' keys in the space that it uses
};

class FolderLock {
 public:
  // Null if another process has the lock; `*owner` is then set to it. `*said` is set if there is
  // something to tell the user: the folder was left by another host, or does not support locks.
  // `make_room` is called while this process has the lock and the disk has no room for its text;
  // true: try again. Throws DiskFull if there is still none, and Error (failure) if the file cannot
  // be created or written.
  static std::unique_ptr<FolderLock> Take(const std::string& folder, const std::string& run,
                                          FolderOwner* owner, std::string* said,
                                          const std::function<bool()>& make_room = {});
  // Takes the lock from any owner; the previous one notices through IsOwn(). REQUIRES: the broker
  // says that this process leads, and the owner does not.
  static std::unique_ptr<FolderLock> TakeOver(const std::string& folder, const std::string& run);
  // Throws Error (failure) with the text of InUse if another process has the lock.
  static void CheckFree(const std::string& folder);
  // "the output folder out is in use by pid 17 on host vm since ...: ..., what to do".
  static std::string InUse(const std::string& folder, const FolderOwner& owner);

  ~FolderLock();  // removes the file, if it is still its own
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // nullopt: the file does not exist.
  static std::optional<FolderOwner> OwnerOf(const std::string& folder);
  bool IsOwn() const;  // false: another process has taken the folder, or removed the file
  void SetRun(const std::string& run);

 private:
  FolderLock(std::string path, int descriptor);
  void Write(const std::string& run);
  void WriteWithRoom(const std::string& run, const std::function<bool()>& make_room);

  const std::string path_;
  const int descriptor_;
  const std::string since_;
  std::string run_;
};

}  // namespace acan
