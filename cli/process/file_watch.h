// FileWatch: calls a function, on a thread of its own, when a file changes.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace acan::cli {

// Identifies the file, its size and its time of change; empty if there is no file.
std::string LookOf(const std::string& path);

// Polls once a second, because few file systems notify of changes made on other hosts.
class FileWatch {
 public:
  // `known`: what LookOf returned before the file was read. `changed` is also called if the file is
  // gone. It returns false if the file could not be used; then it is called again a second later.
  FileWatch(const std::string& path, std::string known, std::function<bool()> changed);
  ~FileWatch();
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

 private:
  void Watch();

  const std::string path_;
  const std::function<bool()> changed_;
  std::optional<std::string> last_;  // nullopt: the file could not be used
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace acan::cli
