#include "folder_watch.h"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace acan::testing {
namespace {

constexpr std::uint32_t kChanges = IN_CREATE | IN_DELETE | IN_MODIFY | IN_MOVED_FROM | IN_MOVED_TO;

}  // namespace

FolderWatch::FolderWatch(std::vector<std::string> folders)
    : folders_(std::move(folders)), fd_(::inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {
  if (fd_ < 0) throw std::runtime_error(std::string("inotify: ") + std::strerror(errno));
  Renew();
}

FolderWatch::~FolderWatch() {
  ::close(fd_);
}

void FolderWatch::Renew() {
  alignas(inotify_event) std::array<char, 4096> changes{};
  while (::read(fd_, changes.data(), changes.size()) > 0) {
  }
  for (const std::string& folder : folders_) {
    if (::inotify_add_watch(fd_, folder.c_str(), kChanges) < 0 && errno != ENOENT) {
      throw std::runtime_error("inotify: " + folder + ": " + std::strerror(errno));
    }
  }
}

}  // namespace acan::testing
