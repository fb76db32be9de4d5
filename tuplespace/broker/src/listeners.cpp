#include "listeners.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "endpoint.h"

namespace tuplespace {

namespace {

constexpr std::int64_t kCloseWaitUs = 2'000'000;
// Whoever may write to the socket may do anything: it is for this user only.
constexpr mode_t kOwnersOnly = S_IRUSR | S_IWUSR;

// A socket that listens at `path`, where nothing is yet. Linux gives its file the mode that the
// socket has when it is bound, so that nobody else can connect for a moment.
int ListenPrivately(const std::string& path, int backlog) {
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  if (fd >= 0 && fchmod(fd, kOwnersOnly) == 0 &&
      bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
      listen(fd, backlog) == 0) {
    return fd;
  }
  const int why = errno;
  if (fd >= 0) close(fd);
  throw std::runtime_error(fmt::format("cannot listen at ipc://{}: {}", path, std::strerror(why)));
}

}  // namespace

// REQUIRES: the path fits into a sockaddr_un.
void Listeners::BindPrivate(const std::string& address, const std::string& path) {
  const int fd = ListenPrivately(path, router_.get(zmq::sockopt::backlog));
  try {
    router_.set(zmq::sockopt::use_fd, fd);
    router_.bind(address);  // which takes the descriptor
  } catch (const zmq::error_t&) {
    close(fd);
    throw;
  }
  router_.set(zmq::sockopt::use_fd, -1);
}

void Listeners::Bind(const std::string& address) {
  const std::string path = IpcPath(address);
  if (!path.empty()) ClearIpcPath(path);
  router_.set(zmq::sockopt::ipv6, IsIpv6(address));
  try {
    if (path.empty()) {
      router_.bind(address);
    } else {
      BindPrivate(address, path);
    }
  } catch (const zmq::error_t& error) {
    throw std::runtime_error(fmt::format("cannot listen at {}: {}", address, error.what()));
  }
  endpoints_.push_back(router_.get(zmq::sockopt::last_endpoint));
  if (path.empty()) return;
  struct stat info {};
  if (lstat(path.c_str(), &info) == 0) ipc_files_.push_back({path, info.st_dev, info.st_ino});
  // The mask of this process may have left less.
  const bool as_bound = (info.st_mode & ACCESSPERMS) == kOwnersOnly;
  if (!as_bound && chmod(path.c_str(), kOwnersOnly) != 0) {
    throw std::runtime_error(
        fmt::format("the socket {} cannot get the mode 0600, which keeps other users away: {}",
                    path, std::strerror(errno)));
  }
}

void Listeners::Close() {
  monitor_.Drain();
  int closed = 0;
  int expected = 0;
  for (const std::string& endpoint : endpoints_) {
    if (zmq_unbind(router_.handle(), endpoint.c_str()) != 0) continue;
    if (!endpoint.starts_with("inproc://")) ++expected;
  }
  const std::int64_t deadline_us = MonotonicUs() + kCloseWaitUs;
  while (closed < expected && MonotonicUs() < deadline_us) {
    zmq_pollitem_t item{monitor_.handle(), 0, ZMQ_POLLIN, 0};
    PollUntil({&item, 1}, deadline_us);
    closed += monitor_.Drain().closed;
  }
  for (const IpcFile& file : ipc_files_) {
    // Unless another broker has taken the path since.
    struct stat info {};
    if (stat(file.path.c_str(), &info) != 0) continue;
    if (info.st_dev == file.device && info.st_ino == file.inode) unlink(file.path.c_str());
  }
}

}  // namespace tuplespace
