// FolderWatch: hears of changes in folders, so that a test need not look at them again and again.
#pragma once

#include <string>
#include <vector>

namespace acan::testing {

class FolderWatch {
 public:
  // A folder that does not exist yet must be in one of the others, and come after it.
  explicit FolderWatch(std::vector<std::string> folders);
  ~FolderWatch();
  FolderWatch(const FolderWatch&) = delete;
  FolderWatch& operator=(const FolderWatch&) = delete;

  // Readable after an entry of one of the folders has come, gone or changed since Renew.
  int fd() const { return fd_; }
  // Forgets earlier changes, and also watches the folders that exist by now. Look at the files only
  // after this.
  void Renew();

 private:
  std::vector<std::string> folders_;
  int fd_ = -1;
};

}  // namespace acan::testing
