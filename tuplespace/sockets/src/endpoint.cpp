#include "endpoint.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>

namespace tuplespace {

namespace {

constexpr std::size_t kMaxIpcPathBytes = sizeof(sockaddr_un::sun_path) - 1;  // 107 on Linux

std::optional<std::string> WithoutScheme(const std::string& endpoint, const std::string& scheme) {
  if (!endpoint.starts_with(scheme)) return std::nullopt;
  return endpoint.substr(scheme.size());
}

std::string CheckedIpc(const std::string& endpoint, const std::string& path) {
  if (path.empty()) {
    throw std::invalid_argument(
        fmt::format("endpoint \"{}\" has no path: ipc:///run/acan.sock would have one", endpoint));
  }
  if (path.size() > kMaxIpcPathBytes) {
    throw std::invalid_argument(
        fmt::format("the path of endpoint \"{}\" has {} bytes; the system allows at most {}: use a "
                    "shorter one",
                    endpoint, path.size(), kMaxIpcPathBytes));
  }
  if (path == "*" || path.front() == '@' || path.find('\0') != std::string::npos) {
    throw std::invalid_argument(
        fmt::format("endpoint \"{}\" does not name a file: give a path", endpoint));
  }
  return endpoint;
}

struct HostAndPort {
  std::string host, port;
};

HostAndPort Split(const std::string& endpoint, const std::string& rest, bool any_port) {
  const std::size_t colon = rest.rfind(':');
  if (colon == std::string::npos || colon == 0) {
    throw std::invalid_argument(
        fmt::format("endpoint \"{}\" is not of the form tcp://HOST:PORT", endpoint));
  }
  HostAndPort parts{rest.substr(0, colon), rest.substr(colon + 1)};
  if (any_port && parts.port == "*") return parts;
  std::uint32_t port = 0;
  const char* end = parts.port.data() + parts.port.size();
  const auto parsed = std::from_chars(parts.port.data(), end, port);
  if (parsed.ec != std::errc() || parsed.ptr != end || port == 0 || port > 65535) {
    throw std::invalid_argument(
        fmt::format("endpoint \"{}\" has the port \"{}\"; a number from 1 "
                    "to 65535{} is needed",
                    endpoint, parts.port, any_port ? " or *" : ""));
  }
  return parts;
}

bool IsLoopback(const std::string& host) {
  in_addr v4{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return (ntohl(v4.s_addr) >> 24) == 127;
  return host == "[::1]" || host == "localhost";
}

bool IsAddress(const std::string& host) {
  in_addr v4{};
  in6_addr v6{};
  if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return true;
  return host.size() > 2 && host.front() == '[' && host.back() == ']' &&
         inet_pton(AF_INET6, host.substr(1, host.size() - 2).c_str(), &v6) == 1;
}

// Whether this address stands for the host itself, or means something else on each link: loopback,
// unspecified, link-local and multicast addresses.
bool IsOfHostOrLink(const std::string& host) {
  const bool bracketed = host.size() > 2 && host.front() == '[' && host.back() == ']';
  const std::string plain = bracketed ? host.substr(1, host.size() - 2) : host;
  in_addr v4{};
  in6_addr v6{};
  bool is_v4 = inet_pton(AF_INET, plain.c_str(), &v4) == 1;
  if (!is_v4) {
    if (inet_pton(AF_INET6, plain.substr(0, plain.find('%')).c_str(), &v6) != 1) return false;
    is_v4 = IN6_IS_ADDR_V4MAPPED(&v6);
    if (is_v4) std::memcpy(&v4, v6.s6_addr + 12, sizeof(v4));
  }
  if (!is_v4) {
    return IN6_IS_ADDR_LOOPBACK(&v6) || IN6_IS_ADDR_UNSPECIFIED(&v6) ||
           IN6_IS_ADDR_LINKLOCAL(&v6) || IN6_IS_ADDR_MULTICAST(&v6);
  }
  const std::uint32_t address = ntohl(v4.s_addr);
  return address >> 24 == 127 || address >> 24 == 0 || address >> 16 == 0xa9fe ||
         address >> 28 >= 0xe;  // 169.254.0.0/16, and from 224.0.0.0
}

// Why this cannot be a host name (RFC 1123, and '_', which some networks use); nullopt if it can.
std::optional<std::string> HostProblem(const std::string& host) {
  if (host.front() == '[' || host.back() == ']') {
    const std::string inside = host.substr(1, host.size() < 2 ? 0 : host.size() - 2);
    in6_addr v6{};
    const std::string address = inside.substr(0, inside.find('%'));
    if (host.front() == '[' && host.back() == ']' &&
        inet_pton(AF_INET6, address.c_str(), &v6) == 1) {
      return std::nullopt;
    }
    return "is not an IPv6 address";
  }
  in_addr v4{};
  if (host.find_first_not_of("0123456789.") == std::string::npos) {
    if (inet_pton(AF_INET, host.c_str(), &v4) == 1) return std::nullopt;
    return "is not an IPv4 address, which has four numbers from 0 to 255";
  }
  if (host.size() > 253) return "is longer than 253 characters";
  for (std::size_t begin = 0; begin < host.size();) {
    const std::size_t end = std::min(host.find('.', begin), host.size());
    const std::string label = host.substr(begin, end - begin);
    const bool plain = label.find_first_not_of(
                           "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                           "0123456789-_") == std::string::npos;
    if (!plain) return "has characters that a host name cannot have";
    if (label.empty() || label.size() > 63 || label.front() == '-' || label.back() == '-') {
      return "has a part between dots that is empty, longer than 63, or begins or ends with '-'";
    }
    begin = end + 1;  // a final dot marks an absolute name
  }
  return std::nullopt;
}

[[noreturn]] void ThrowScheme(const std::string& endpoint) {
  throw std::invalid_argument(
      fmt::format("endpoint \"{}\" does not begin with tcp://, ipc:// or inproc://", endpoint));
}

std::string CheckedInproc(const std::string& endpoint, const std::string& name, bool has_keys) {
  if (has_keys) {
    throw std::invalid_argument(fmt::format(
        "endpoint \"{}\" is refused: ZeroMQ has no keys within a process; use ipc:// or tcp://",
        endpoint));
  }
  if (name.empty())
    throw std::invalid_argument(fmt::format("endpoint \"{}\" has no name", endpoint));
  return endpoint;
}

}  // namespace

std::string ListenAddress(const std::string& endpoint, bool has_keys) {
  if (const auto path = WithoutScheme(endpoint, "ipc://")) return CheckedIpc(endpoint, *path);
  if (const auto name = WithoutScheme(endpoint, "inproc://")) {
    return CheckedInproc(endpoint, *name, has_keys);
  }
  const auto rest = WithoutScheme(endpoint, "tcp://");
  if (!rest) ThrowScheme(endpoint);
  const HostAndPort parts = Split(endpoint, *rest, /*any_port=*/true);
  if (!has_keys && !IsLoopback(parts.host)) {
    throw std::invalid_argument(fmt::format(
        "endpoint \"{}\" is refused: \"{}\" is not a loopback address, and this broker has no "
        "keys, "
        "so it would admit anybody who can reach it; give it keys, or use tcp://127.0.0.1, "
        "tcp://[::1], tcp://localhost or ipc://",
        endpoint, parts.host));
  }
  // ZeroMQ would take a name here for that of a network interface.
  if (parts.host == "localhost") return "tcp://127.0.0.1:" + parts.port;
  return endpoint;
}

std::string ConnectAddress(const std::string& endpoint, bool has_keys) {
  if (const auto path = WithoutScheme(endpoint, "ipc://")) return CheckedIpc(endpoint, *path);
  if (const auto name = WithoutScheme(endpoint, "inproc://")) {
    return CheckedInproc(endpoint, *name, has_keys);
  }
  const auto rest = WithoutScheme(endpoint, "tcp://");
  if (!rest) ThrowScheme(endpoint);
  const HostAndPort parts = Split(endpoint, *rest, /*any_port=*/false);
  if (const auto problem = HostProblem(parts.host)) {
    throw std::invalid_argument(
        fmt::format("endpoint \"{}\" has the host \"{}\", which {}; a name or an address is needed",
                    endpoint, parts.host, *problem));
  }
  if (parts.host == "localhost") return "tcp://127.0.0.1:" + parts.port;
  return endpoint;
}

std::string PlaceAddress(const std::string& endpoint, bool has_keys,
                         const std::string& own_address) {
  const auto rest = WithoutScheme(endpoint, "tcp://");
  if (!rest) {
    throw std::invalid_argument(fmt::format("the place \"{}\" is not a tcp:// endpoint", endpoint));
  }
  const HostAndPort parts = Split(endpoint, *rest, /*any_port=*/false);
  if (!IsAddress(parts.host)) {
    throw std::invalid_argument(fmt::format(
        "the place \"{}\" has the host \"{}\", which is not an address", endpoint, parts.host));
  }
  if (!has_keys && !IsLoopback(parts.host)) {
    throw std::invalid_argument(
        fmt::format("the place \"{}\" is not a loopback address, and there are no keys", endpoint));
  }
  if (!own_address.empty() && !IsOfHostOrLink(own_address) && IsOfHostOrLink(parts.host)) {
    throw std::invalid_argument(
        fmt::format("the place \"{}\" is no address of a network", endpoint));
  }
  return endpoint;
}

bool IsIpv6(const std::string& endpoint) {
  return endpoint.starts_with("tcp://[");
}

std::string IpcPath(const std::string& endpoint) {
  return WithoutScheme(endpoint, "ipc://").value_or("");
}

void ClearIpcPath(const std::string& path) {
  struct stat info {};
  if (lstat(path.c_str(), &info) != 0) return;  // nothing there, or bind() reports the problem
  if (!S_ISSOCK(info.st_mode)) {
    throw std::runtime_error(
        fmt::format("{} exists and is not a socket: it will not be replaced", path));
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, path.data(), path.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) throw std::runtime_error(fmt::format("socket(AF_UNIX): {}", std::strerror(errno)));
  const int rc = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  const int why = rc == 0 ? 0 : errno;
  close(fd);
  // EAGAIN: a process listens there, but its queue is full.
  if (why == 0 || why == EAGAIN) {
    throw std::runtime_error(
        fmt::format("a live process listens at {} already: stop it or use another path", path));
  }
  if (why != ECONNREFUSED) {
    throw std::runtime_error(
        fmt::format("{} exists and cannot be connected to: {}", path, std::strerror(why)));
  }
  if (unlink(path.c_str()) != 0 && errno != ENOENT) {
    throw std::runtime_error(fmt::format("the socket {} of a dead broker cannot be removed: {}",
                                         path, std::strerror(errno)));
  }
}

}  // namespace tuplespace
