#include "link_relay.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "acan/core/error.h"
#include "acan/core/text/system_error_text.h"
#include "fmt/format.h"

namespace acan::cli {
namespace {

using std::chrono::milliseconds;

constexpr std::size_t kPassBytes = 1 << 18;  // held for one direction of a link
constexpr int kBacklog = 128;
constexpr milliseconds kShortage{100};  // of descriptors or memory; others may release some

struct Address {
  union {
    sockaddr any;
    sockaddr_in tcp;
    sockaddr_un ipc;
  };
  socklen_t size = 0;
};

[[noreturn]] void Fail(const std::string& doing) {
  throw FailureError(fmt::format("cannot {}: {}", doing, SystemErrorText(errno)));
}

// REQUIRES: an endpoint that a broker has printed, or one of LinkRelay's two.
Address ParseAddress(const std::string& endpoint) {
  Address address;
  std::memset(&address.ipc, 0, sizeof(address.ipc));
  if (endpoint.starts_with("ipc://")) {
    const std::string path = endpoint.substr(6);
    address.ipc.sun_family = AF_UNIX;
    if (path.size() >= sizeof(address.ipc.sun_path)) {
      throw FailureError(fmt::format("the path {} is too long for a socket", path));
    }
    std::memcpy(address.ipc.sun_path, path.c_str(), path.size() + 1);
    address.size = sizeof(address.ipc);
    return address;
  }
  const std::size_t colon = endpoint.rfind(':');
  const std::string host = endpoint.substr(6, colon - 6), port = endpoint.substr(colon + 1);
  address.tcp.sin_family = AF_INET;
  address.tcp.sin_port = htons(port == "*" ? 0 : static_cast<std::uint16_t>(std::stoi(port)));
  if (::inet_pton(AF_INET, host.c_str(), &address.tcp.sin_addr) != 1) {
    throw FailureError(fmt::format("{}: must be ipc:// or tcp:// with an IPv4 address", endpoint));
  }
  address.size = sizeof(address.tcp);
  return address;
}

void SetNonBlocking(int fd) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
}

void PrepareToPass(int fd, bool tcp) {
  SetNonBlocking(fd);
  const int one = 1;
  if (tcp) ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

// The process or the system lacks resources. The listener would be ready again immediately.
bool IsShortage(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

bool WouldBlock() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
}

}  // namespace

LinkRelay::LinkRelay(const std::string& listen, const std::string& broker) {
  const Address to = ParseAddress(broker);
  std::memcpy(&broker_, &to.ipc, sizeof(to.ipc));
  broker_size_ = to.size;
  Address address = ParseAddress(listen);
  listen_fd_ = ::socket(address.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listen_fd_ < 0) Fail("make a socket");
  wake_fd_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  const bool listens = wake_fd_ >= 0 && ::bind(listen_fd_, &address.any, address.size) == 0 &&
                       ::listen(listen_fd_, kBacklog) == 0 &&
                       ::getsockname(listen_fd_, &address.any, &address.size) == 0;
  if (!listens) {
    const int error = errno;
    ::close(listen_fd_);
    if (wake_fd_ >= 0) ::close(wake_fd_);
    errno = error;
    Fail("listen on " + listen);
  }
  ::fcntl(listen_fd_, F_SETFL, O_NONBLOCK);
  endpoint_ = listen.starts_with("ipc://")
                  ? listen
                  : fmt::format("tcp://127.0.0.1:{}", ntohs(address.tcp.sin_port));
  thread_ = std::thread(&LinkRelay::Run, this);
}

LinkRelay::~LinkRelay() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  Wake();
  thread_.join();
  for (Link& link : links_) Close(link);
  ::close(listen_fd_);
  ::close(wake_fd_);
  if (endpoint_.starts_with("ipc://")) ::unlink(endpoint_.c_str() + 6);
}

void LinkRelay::Wake() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_fd_, &one, sizeof(one));
}

void LinkRelay::CutLink(Link& link, milliseconds pause, Afterwards afterwards) {
  link.cut_until = Clock::now() + pause;
  link.reset = afterwards == Afterwards::kReset;
}

bool LinkRelay::Cut(milliseconds pause, Afterwards afterwards, std::mt19937_64& random) {
  const std::lock_guard lock(mutex_);
  if (links_.empty()) return false;
  const auto index = std::uniform_int_distribution<std::size_t>(0, links_.size() - 1)(random);
  CutLink(*std::next(links_.begin(), static_cast<std::ptrdiff_t>(index)), pause, afterwards);
  Wake();
  return true;
}

void LinkRelay::CutAll(milliseconds pause, Afterwards afterwards) {
  const std::lock_guard lock(mutex_);
  for (Link& link : links_) CutLink(link, pause, afterwards);
  Wake();
}

// ---- the thread
// ----------------------------------------------------------------------------------

int LinkRelay::Connect() const {
  // A stopped broker accepts no connection, and must not block this thread. Over TCP the connection
  // is made later; a socket in the file system gives no connection if its queue is full.
  const int fd = ::socket(broker_.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  const auto* const address = reinterpret_cast<const sockaddr*>(&broker_);
  if (::connect(fd, address, broker_size_) == 0 || errno == EINPROGRESS) return fd;
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

void LinkRelay::Accept() {
  for (;;) {
    const int client = ::accept4(listen_fd_, nullptr, nullptr, SOCK_CLOEXEC);
    const int broker = client < 0 ? -1 : Connect();
    if (broker < 0) {
      const int error = errno;
      // There is no broker now: the client sees its connection end and reconnects.
      if (client >= 0) ::close(client);
      if (IsShortage(error)) accept_at_ = Clock::now() + kShortage;
      // A client that ended before it was accepted need not be the last in the queue.
      const bool more = client >= 0 || error == ECONNABORTED || error == EINTR;
      if (!more || IsShortage(error)) return;
      continue;
    }
    const bool tcp = broker_.ss_family == AF_INET;
    PrepareToPass(client, tcp);
    PrepareToPass(broker, tcp);
    links_.emplace_back();
    links_.back().client_fd = client;
    links_.back().broker_fd = broker;
  }
}

// False if the link has ended.
bool LinkRelay::Pass(int from, int to, bool readable, Direction& direction) {
  if (readable && direction.bytes.empty() && !direction.ended) {
    direction.bytes.resize(kPassBytes);
    const ssize_t got = ::recv(from, direction.bytes.data(), kPassBytes, 0);
    direction.bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    if (got == 0 || (got < 0 && !WouldBlock())) direction.ended = true;
  }
  if (!direction.bytes.empty()) {
    const ssize_t put = ::send(to, direction.bytes.data() + direction.sent,
                               direction.bytes.size() - direction.sent, MSG_NOSIGNAL);
    if (put < 0 && !WouldBlock()) return false;
    direction.sent += put > 0 ? static_cast<std::size_t>(put) : 0;
    if (direction.sent == direction.bytes.size()) {
      direction.bytes.clear();
      direction.sent = 0;
    }
  }
  return !direction.ended || !direction.bytes.empty();
}

void LinkRelay::Close(Link& link) {
  ::close(link.client_fd);
  ::close(link.broker_fd);
}

void LinkRelay::Run() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    const Clock::time_point now = Clock::now();
    const bool accepts = accept_at_ <= now;
    std::vector<pollfd> fds = {{wake_fd_, POLLIN, 0}, {accepts ? listen_fd_ : -1, POLLIN, 0}};
    Clock::time_point next = accepts ? Clock::time_point::max() : accept_at_;
    const auto wanted = [](const Direction& in, const Direction& out) {
      return static_cast<short>((in.bytes.empty() && !in.ended ? POLLIN : 0) |
                                (out.bytes.empty() ? 0 : POLLOUT));
    };
    for (const Link& link : links_) {
      // poll ignores negative descriptors: those of links that are cut, and ends from which nothing
      // is wanted and which may have hung up.
      const bool cut = link.cut_until > now;
      if (cut) next = std::min(next, link.cut_until);
      const auto add = [&fds, cut](int fd, short events) {
        fds.push_back({cut || events == 0 ? -1 : fd, events, 0});
      };
      add(link.client_fd, wanted(link.to_broker, link.to_client));
      add(link.broker_fd, wanted(link.to_client, link.to_broker));
    }
    const int timeout_ms =
        next == Clock::time_point::max()
            ? -1
            : static_cast<int>(std::chrono::ceil<milliseconds>(next - now).count());
    lock.unlock();
    ::poll(fds.data(), fds.size(), timeout_ms);
    lock.lock();
    std::uint64_t count = 0;
    if (fds[0].revents != 0) [[maybe_unused]]
      const auto got = ::read(wake_fd_, &count, sizeof(count));
    std::size_t next_fd = 2;
    for (auto link = links_.begin(); link != links_.end(); next_fd += 2) {
      const bool cut = link->cut_until > Clock::now();
      const bool open =
          cut ||
          (!link->reset &&
           Pass(link->client_fd, link->broker_fd, fds[next_fd].revents != 0, link->to_broker) &&
           Pass(link->broker_fd, link->client_fd, fds[next_fd + 1].revents != 0, link->to_client));
      if (!open) Close(*link);
      link = open ? std::next(link) : links_.erase(link);
    }
    if (fds[1].revents != 0) Accept();
  }
}

}  // namespace acan::cli
