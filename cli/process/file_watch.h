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

// Decides when to read a file again. A file that is written in place, as by scp, may be valid when
// it is half written, so a change counts when the file looks the same twice.
class FileChanges {
 public:
  explicit FileChanges(const std::string& known) : used_(known), seen_(known) {}
  // Whether to read the file now, which looks like this. WasRead follows.
  bool MayRead(const std::string& look);
  // `used`: whether the file could be used. Otherwise it is to be read again.
  void WasRead(bool used);

 private:
  std::optional<std::string> used_;  // nullopt: the file could not be used
  std::string seen_;                 // the last look
};

// Polls once a second, because few file systems notify of changes made on other hosts.
class FileWatch {
 public:
  // `known`: what LookOf returned before the file was read. `changed` is called when a changed file
  // has looked the same for a second, also if the file is gone. It returns false if the file could
  // not be used; then it is called again a second later.
  FileWatch(const std::string& path, const std::string& known, std::function<bool()> changed);
  ~FileWatch();
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

 private:
  void Watch();

  const std::string path_;
  const std::function<bool()> changed_;
  FileChanges changes_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace acan::cli
