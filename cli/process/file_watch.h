// FileWatch: calls a function, on a thread of its own, when a file has become another one.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace acan::cli {

// Which file it is, its size, and when it was changed last; empty: there is none.
std::string LookOf(const std::string& path);

// Looks once a second: the file systems that tell of changes made on other hosts are few.
class FileWatch {
 public:
  // `known`: how it looked before it was read.
  FileWatch(const std::string& path, std::string known, std::function<void()> changed);
  ~FileWatch();
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

 private:
  void Watch();

  const std::string path_;
  const std::function<void()> changed_;
  std::string last_;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace acan::cli
