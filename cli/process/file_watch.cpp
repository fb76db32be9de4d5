#include "file_watch.h"

#include <sys/stat.h>

#include <chrono>
#include <utility>

#include "fmt/format.h"

namespace acan::cli {
namespace {

constexpr std::chrono::seconds kPause{1};

}  // namespace

std::string LookOf(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return "";
  return fmt::format("{} {} {} {} {} {} {}", info.st_dev, info.st_ino, info.st_size,
                     info.st_mtim.tv_sec, info.st_mtim.tv_nsec, info.st_ctim.tv_sec,
                     info.st_ctim.tv_nsec);
}

FileWatch::FileWatch(const std::string& path, std::string known, std::function<bool()> changed)
    : path_(path),
      changed_(std::move(changed)),
      last_(std::move(known)),
      thread_([this] { Watch(); }) {}

FileWatch::~FileWatch() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

void FileWatch::Watch() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, kPause, [this] { return stop_; })) {
    std::string look = LookOf(path_);
    if (last_ == look) continue;
    // A file that was away, as on a file server, is read again even if it comes back unchanged.
    last_ = changed_() ? std::optional(std::move(look)) : std::nullopt;
  }
}

}  // namespace acan::cli
