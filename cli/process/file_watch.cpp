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

bool FileChanges::MayRead(const std::string& look) {
  const bool settled = std::exchange(seen_, look) == look;
  return settled && used_ != look;
}

// A file that was away, as on a file server, is read again even if it comes back unchanged.
void FileChanges::WasRead(bool used) {
  used_ = used ? std::optional(seen_) : std::nullopt;
}

FileWatch::FileWatch(const std::string& path, const std::string& known,
                     std::function<bool()> changed)
    : path_(path), changed_(std::move(changed)), changes_(known), thread_([this] { Watch(); }) {}

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
    if (changes_.MayRead(LookOf(path_))) changes_.WasRead(changed_());
  }
}

}  // namespace acan::cli
