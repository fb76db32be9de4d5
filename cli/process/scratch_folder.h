// ScratchFolder: a private folder for the sockets of one run.
#pragma once

#include <sys/types.h>

#include <string>

namespace acan::cli {

// Whether an open file lies on a file system that no other machine uses at the same time, unless
// this machine serves it: on a disk or in memory.
bool IsOnLocalFileSystem(int descriptor);

// Who makes a folder. The folder's name says the machine and its start.
struct ScratchMaker {
  // Eight digits that this machine keeps when it is started again. Its containers have others.
  // Empty means that they are unknown.
  std::string machine;
  // Eight digits that are the same in all containers of a machine, and that differ on each machine
  // and after each start. Empty means that they are unknown.
  std::string boot;
  uid_t user;
  bool (*is_local)(int descriptor) = IsOnLocalFileSystem;  // tests have no file server

  static ScratchMaker ThisProcess();
};

// Made with mode 0700 in $TMPDIR, or in /tmp if that is not set or its path is too long for a
// socket's address. The destructor removes it with all files in it. It is locked while its process
// lives. Making one also removes those folders of this user that are not locked, because their
// processes were killed, if they were made since this machine was started, or before that by this
// machine on a file system of its own. A name that leaves out the machine makes room for a longer
// $TMPDIR.
class ScratchFolder {
 public:
  // Both throw Error (failure).
  ScratchFolder() : ScratchFolder(ScratchMaker::ThisProcess()) {}
  explicit ScratchFolder(const ScratchMaker& maker);
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }
  void Remove();  // thread safe; may be called repeatedly

 private:
  std::string path_;
  int lock_ = -1;
};

// Removes the folder of an ipc:// endpoint if it is empty. This is the last act of a broker, whose
// parent process may have died and cannot clean up.
void RemoveFolderOf(const std::string& ipc_endpoint);

}  // namespace acan::cli
