#include "listeners.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stdexcept>

#include "endpoint.h"

namespace tuplespace {

namespace {

constexpr std::int64_t kCloseWaitUs = 2'000'000;

}  // namespace

void Listeners::Bind(const std::string& address) {
  const std::string path = IpcPath(address);
  if (!path.empty()) ClearIpcPath(path);
  router_.set(zmq::sockopt::ipv6, IsIpv6(address));
  try {
    router_.bind(address);
  } catch (const zmq::error_t& error) {
    throw std::runtime_error(fmt::format("cannot listen at {}: {}", address, error.what()));
  }
  endpoints_.push_back(router_.get(zmq::sockopt::last_endpoint));
  if (path.empty()) return;
  // Whoever may write to the socket may do anything: it is for this user only.
  chmod(path.c_str(), S_IRUSR | S_IWUSR);
  struct stat info {};
  if (stat(path.c_str(), &info) == 0) ipc_files_.push_back({path, info.st_dev, info.st_ino});
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
