#include "reach.h"

#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "acan/core/text/system_error_text.h"
#include "fmt/format.h"

namespace acan::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct CloseDescriptor {
  int fd;
  ~CloseDescriptor() {
    if (fd >= 0) ::close(fd);
  }
};

// nullopt: the connection was established.
std::optional<std::string> Connect(const sockaddr* address, socklen_t size,
                                   std::chrono::milliseconds patience) {
  const int fd = ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return SystemErrorText(errno);
  const CloseDescriptor close{fd};
  if (::connect(fd, address, size) == 0) return std::nullopt;
  if (errno != EINPROGRESS) return SystemErrorText(errno);
  const Clock::time_point deadline = Clock::now() + patience;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd item{fd, POLLOUT, 0};
    const int ready = left.count() <= 0 ? 0 : ::poll(&item, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return SystemErrorText(errno);
    if (ready == 0) {
      return fmt::format("no answer in {} ms: a firewall may drop the packets, or the host is off",
                         patience.count());
    }
    int error = 0;
    socklen_t error_size = sizeof(error);
    ::getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &error_size);
    if (error == 0) return std::nullopt;
    return SystemErrorText(error);
  }
}

Place FindHost(const std::string& host, const std::string& port) {
  Place place;
  const bool is_ipv6 = host.starts_with('[');
  addrinfo hints{};
  hints.ai_family = is_ipv6 ? AF_INET6 : AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  const std::string name = is_ipv6 ? host.substr(1, host.size() - 2) : host;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(name.c_str(), port.c_str(), &hints, &found);
  if (error != 0) {
    place.no_name = error == EAI_SYSTEM ? SystemErrorText(errno) : ::gai_strerror(error);
    return place;
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  std::array<char, NI_MAXHOST> text{};
  ::getnameinfo(found->ai_addr, found->ai_addrlen, text.data(), text.size(), nullptr, 0,
                NI_NUMERICHOST);
  place.address =
      is_ipv6 ? fmt::format("[{}]:{}", text.data(), port) : fmt::format("{}:{}", text.data(), port);
  std::memcpy(&place.socket, found->ai_addr, found->ai_addrlen);
  place.socket_bytes = found->ai_addrlen;
  return place;
}

Place FindSocket(const std::string& path) {
  Place place;
  place.address = path;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), std::min(path.size(), sizeof(address.sun_path) - 1));
  std::memcpy(&place.socket, &address, sizeof(address));
  place.socket_bytes = sizeof(address);
  return place;
}

}  // namespace

Place FindPlace(const std::string& endpoint) {
  const std::size_t begin = endpoint.find("://") + 3;
  if (endpoint.starts_with("ipc://")) return FindSocket(endpoint.substr(begin));
  const std::size_t colon = endpoint.rfind(':');
  return FindHost(endpoint.substr(begin, colon - begin), endpoint.substr(colon + 1));
}

Reach TryToReach(const Place& place, std::chrono::milliseconds patience) {
  Reach reach;
  const Clock::time_point begin = Clock::now();
  reach.problem =
      Connect(reinterpret_cast<const sockaddr*>(&place.socket), place.socket_bytes, patience);
  reach.connect_ms = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  return reach;
}

}  // namespace acan::cli
