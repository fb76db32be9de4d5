// For attacks on the port of a broker: a plain TCP connection, and frames of ZMTP, which is the
// protocol of ZeroMQ.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

namespace tuplespace {

// A TCP connection that sends arbitrary bytes.
class RawConnection {
 public:
  explicit RawConnection(const std::string& endpoint)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port =
        htons(static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      ADD_FAILURE() << "connect: " << std::strerror(errno);
    }
  }
  ~RawConnection() {
    if (fd_ >= 0) close(fd_);
  }
  RawConnection(RawConnection&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  RawConnection(const RawConnection&) = delete;

  // Sends the bytes; returns false if the broker has hung up.
  bool Say(const std::string& bytes) const {
    for (std::size_t sent = 0; sent < bytes.size();) {
      const ssize_t count = send(fd_, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (count < 0 && errno == EINTR) continue;
      if (count <= 0) return false;
      sent += static_cast<std::size_t>(count);
    }
    return true;
  }
  // Waits for `bytes` bytes.
  bool Hear(std::size_t bytes) const {
    std::string heard(bytes, '\0');
    return recv(fd_, heard.data(), bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
  }
  // Waits until the peer's end of the connection has all sent bytes; returns false after a long
  // time. More than its buffer holds arrives only while the peer reads.
  bool WaitUntilSent() const {
    // The connection is then writable only once nothing waits to be sent.
    const int unsent_bytes = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_bytes, sizeof(unsent_bytes));
    pollfd item{fd_, POLLOUT, 0};
    return poll(&item, 1, 60'000) == 1;
  }
  std::uint16_t LocalPort() const {
    sockaddr_in address{};
    socklen_t size = sizeof(address);
    EXPECT_EQ(getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    return ntohs(address.sin_port);
  }
  // Ends the connection at once with a reset.
  void Reset() {
    const linger reset{1, 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    close(std::exchange(fd_, -1));
  }
  // Waits until the broker hangs up; returns false after a long time.
  bool IsHungUp() const {
    char bytes[4096];
    for (;;) {
      pollfd item{fd_, POLLIN, 0};
      if (poll(&item, 1, 60'000) <= 0) return false;
      if (recv(fd_, bytes, sizeof(bytes), 0) <= 0) return true;
    }
  }

 private:
  int fd_;
};

namespace zmtp {

inline std::string Greeting(const std::string& mechanism) {
  std::string text("\xff\0\0\0\0\0\0\0\0\x7f\3\0", 12);
  text += mechanism;
  text.resize(64);
  return text;
}

enum Flags : char { kMore = 1, kLong = 2, kCommand = 4 };

inline std::string FrameHead(int flags, std::uint64_t size) {
  std::string head(1, static_cast<char>(flags | kLong));
  for (int shift = 56; shift >= 0; shift -= 8) head.push_back(static_cast<char>(size >> shift));
  return head;
}

inline std::string Ready(const std::string& id) {
  const auto property = [](const std::string& name, const std::string& value) {
    return std::string(1, static_cast<char>(name.size())) + name + std::string(3, '\0') +
           std::string(1, static_cast<char>(value.size())) + value;
  };
  const std::string body = "\5READY" + property("Socket-Type", "DEALER") + property("Identity", id);
  return FrameHead(kCommand, body.size()) + body;
}

}  // namespace zmtp

}  // namespace tuplespace
