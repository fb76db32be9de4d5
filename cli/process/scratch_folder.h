// ScratchFolder: a private folder for the sockets of one run.
#pragma once

#include <string>

namespace acan::cli {

// Made with mode 0700 in $TMPDIR, or in /tmp if that is not set or its path is too long for a
// socket's address. The destructor removes it with all files in it. It is locked while its process
// lives. Making one also removes those folders of this user that are not locked, because their
// processes were killed, and that were made since this machine was started.
class ScratchFolder {
 public:
  ScratchFolder();  // throws Error (failure)
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
