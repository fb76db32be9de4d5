#include "listeners.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <utility>

#include "endpoint.h"

namespace tuplespace {

namespace {

constexpr std::int64_t kCloseWaitUs = 2'000'000;
constexpr std::int64_t kLookEveryUs = 1'000'000;
// Whoever can write to the socket may do anything, so only this user can.
constexpr mode_t kOwnersOnly = S_IRUSR | S_IWUSR;

// A listening socket at `path`, where no file exists yet. Linux gives the file the mode that the
// socket has when it is bound, so no other user can connect even for a moment.
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

// Recreates the folder of a socket if it was removed with the socket. Returns why a socket cannot
// be made there; empty if it can. In a folder of another user, that user could replace the socket.
std::string FolderProblem(const std::string& socket) {
  const std::string folder = std::filesystem::path(socket).parent_path();
  if (folder.empty()) return "";
  if (mkdir(folder.c_str(), S_IRWXU) != 0 && errno != EEXIST) {
    return fmt::format("{} cannot be made: {}", folder, std::strerror(errno));
  }
  struct stat info {};
  if (lstat(folder.c_str(), &info) != 0) return fmt::format("{}: {}", folder, std::strerror(errno));
  if (info.st_uid == geteuid() || info.st_uid == 0) return "";
  return fmt::format("{} now belongs to user {}, but must belong to this user ({}) or to root",
                     folder, info.st_uid, geteuid());
}

}  // namespace

// REQUIRES: the path fits into a sockaddr_un.
void Listeners::BindPrivate(const std::string& address, const std::string& path) {
  const int fd = ListenPrivately(path, router_.get(zmq::sockopt::backlog));
  try {
    router_.set(zmq::sockopt::use_fd, fd);
    router_.bind(address);  // which takes over the descriptor
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
  // This process's umask may have removed bits.
  const bool as_bound = (info.st_mode & ACCESSPERMS) == kOwnersOnly;
  if (!as_bound && chmod(path.c_str(), kOwnersOnly) != 0) {
    throw std::runtime_error(
        fmt::format("the socket {} cannot get the mode 0600, which keeps other users away: {}",
                    path, std::strerror(errno)));
  }
}

std::int64_t Listeners::NextLookUs() const {
  return ipc_files_.empty() ? INT64_MAX : look_us_;
}

std::vector<std::string> Listeners::BindLost(std::int64_t now_us) {
  std::vector<std::string> lines;
  if (now_us < NextLookUs()) return lines;
  look_us_ = now_us + kLookEveryUs;
  for (IpcFile& file : ipc_files_) {
    struct stat info {};
    if (lstat(file.path.c_str(), &info) == 0) {
      const bool is_own = info.st_dev == file.device && info.st_ino == file.inode;
      if (is_own) {
        // Another program may have moved it away and back.
        file.said_lost = false;
        file.said_taken = false;
        continue;
      }
      if (std::exchange(file.said_taken, true)) continue;
      // It is not ours to remove.
      lines.push_back(
          fmt::format("another file has taken the place of the socket {}: another broker may "
                      "listen there; clients that are connected stay so, and no others can come; "
                      "when that file is removed, this broker listens there again",
                      file.path));
      continue;
    }
    if (errno != ENOENT) continue;
    const std::string problem = BindAgain(file);
    if (problem.empty()) {
      lines.push_back(fmt::format("the socket {} was removed: listening there again", file.path));
    } else if (!std::exchange(file.said_lost, true)) {
      lines.push_back(
          fmt::format("the socket {} was removed, and cannot be made again: {}; clients that are "
                      "connected stay so, and no others can come; trying again every second",
                      file.path, problem));
    }
  }
  return lines;
}

// Returns why that failed. Does not unbind the old listener, as that would end all connections that
// it accepted.
std::string Listeners::BindAgain(IpcFile& file) {
  if (std::string problem = FolderProblem(file.path); !problem.empty()) return problem;
  try {
    BindPrivate("ipc://" + file.path, file.path);
  } catch (const std::exception& error) {
    return error.what();
  }
  ++file.sockets;
  struct stat info {};
  if (stat(file.path.c_str(), &info) == 0) {
    file.device = info.st_dev;
    file.inode = info.st_ino;
  }
  file.said_lost = false;
  file.said_taken = false;
  return "";
}

void Listeners::Close() {
  monitor_.Drain();
  int closed = 0;
  int expected = 0;
  for (const std::string& endpoint : endpoints_) {
    if (zmq_unbind(router_.handle(), endpoint.c_str()) != 0) continue;
    if (!endpoint.starts_with("inproc://")) ++expected;
  }
  for (const IpcFile& file : ipc_files_) expected += file.sockets - 1;
  const std::int64_t deadline_us = MonotonicUs() + kCloseWaitUs;
  while (closed < expected && MonotonicUs() < deadline_us) {
    zmq_pollitem_t item{monitor_.handle(), 0, ZMQ_POLLIN, 0};
    PollUntil({&item, 1}, deadline_us);
    closed += monitor_.Drain().closed;
  }
  for (const IpcFile& file : ipc_files_) {
    // Skips the file if another broker has taken the path since.
    struct stat info {};
    if (stat(file.path.c_str(), &info) != 0) continue;
    if (info.st_dev == file.device && info.st_ino == file.inode) unlink(file.path.c_str());
  }
}

}  // namespace tuplespace
