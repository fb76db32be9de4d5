// The limits of a listener's connections, with connections of the kernel and a clock of the test.
#include "connections.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

namespace tuplespace {
namespace {

constexpr std::int64_t kNeverUs = INT64_MAX / 2;
constexpr std::int64_t kLookUs = 250'000;

sockaddr_in LoopbackAddress(std::uint32_t host) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK - 1 + host);
  return address;
}

// Both ends of a tcp connection from 127.0.0.`host`.
class LoopbackPair {
 public:
  explicit LoopbackPair(std::uint32_t host = 1) {
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address = LoopbackAddress(1);
    socklen_t size = sizeof(address);
    EXPECT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(listen(listener, 1), 0);
    EXPECT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
    client_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in own = LoopbackAddress(host);
    EXPECT_EQ(bind(client_, reinterpret_cast<sockaddr*>(&own), sizeof(own)), 0);
    EXPECT_EQ(connect(client_, reinterpret_cast<sockaddr*>(&address), size), 0);
    server_ = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    EXPECT_GE(server_, 0);
    close(listener);
  }
  ~LoopbackPair() {
    close(client_);
    close(server_);
  }
  LoopbackPair(const LoopbackPair&) = delete;
  LoopbackPair& operator=(const LoopbackPair&) = delete;

  int server() const { return server_; }
  // Sends so many bytes, and takes them out of the kernel as ZeroMQ does.
  void Pass(std::size_t bytes) const {
    constexpr std::size_t kAtOnce = 4096;
    std::string text(kAtOnce, 'p');
    for (std::size_t left = bytes; left > 0;) {
      const std::size_t now = std::min(left, kAtOnce);
      ASSERT_EQ(send(client_, text.data(), now, MSG_NOSIGNAL), static_cast<ssize_t>(now));
      ASSERT_EQ(recv(server_, text.data(), now, MSG_WAITALL), static_cast<ssize_t>(now));
      left -= now;
    }
  }
  // False: the server's end was shut down.
  bool IsOpen() const {
    pollfd item{server_, 0, 0};
    poll(&item, 1, 0);
    return (item.revents & POLLHUP) == 0;
  }

 private:
  int client_ = -1;
  int server_ = -1;
};

TEST(Connections, WhileTheirBytesTogetherAreTooManyTheLargestEnd) {
  constexpr std::size_t kBytes = 8 << 10;
  ConnectionLimits limits;
  limits.unread_bytes_of_all = 8 * kBytes;
  Connections connections(limits, kNeverUs);
  std::deque<LoopbackPair> pairs;
  for (int i = 0; i < 40; ++i) {
    const LoopbackPair& pair = pairs.emplace_back();
    connections.Accepted(pair.server(), 0);
    connections.Heard(pair.server(), "client", 0);
    pair.Pass(kBytes + static_cast<std::size_t>(i));
  }
  connections.Tick(kLookUs);
  EXPECT_EQ(connections.refused(), 32u);
  for (int i = 0; i < 40; ++i) EXPECT_EQ(pairs[static_cast<std::size_t>(i)].IsOpen(), i < 8) << i;
  EXPECT_EQ(connections.TakeLog().size(), 1u);
}

// Nobody without a key makes clients lose what they send.
TEST(Connections, BytesBeforeAFirstMessageEndBeforeOthers) {
  ConnectionLimits limits;
  limits.unread_bytes_of_all = 300 << 10;
  Connections connections(limits, kNeverUs);
  const LoopbackPair client, handshake, stranger;
  for (const LoopbackPair* pair : {&client, &handshake, &stranger}) {
    connections.Accepted(pair->server(), 0);
  }
  connections.Heard(client.server(), "client", 0);
  client.Pass(290 << 10);
  handshake.Pass(1 << 10);
  stranger.Pass(80 << 10);
  connections.Tick(kLookUs);
  EXPECT_EQ(connections.refused(), 1u);
  EXPECT_TRUE(client.IsOpen());
  EXPECT_TRUE(handshake.IsOpen());
  EXPECT_FALSE(stranger.IsOpen());
}

TEST(Connections, ASilentOneMakesRoomIfThereAreTooMany) {
  ConnectionLimits limits;
  limits.connections = 3;
  Connections connections(limits, kNeverUs);
  const LoopbackPair client, silent, another, early, late, later, last;
  connections.Accepted(client.server(), 0);
  connections.Heard(client.server(), "client", 10);
  connections.Accepted(silent.server(), 0);
  connections.Accepted(another.server(), 0);
  connections.Accepted(early.server(), SilentConnections::kYoungUs - 1);
  EXPECT_FALSE(early.IsOpen()) << "the others may still be in their handshake";
  EXPECT_FALSE(connections.Ended(early.server()));
  connections.Accepted(late.server(), SilentConnections::kYoungUs);
  EXPECT_TRUE(late.IsOpen());
  EXPECT_FALSE(silent.IsOpen());
  EXPECT_FALSE(connections.Ended(silent.server()));
  connections.Heard(late.server(), "late", 10);
  connections.Accepted(later.server(), SilentConnections::kYoungUs);
  EXPECT_TRUE(later.IsOpen());
  EXPECT_FALSE(another.IsOpen());
  EXPECT_FALSE(connections.Ended(another.server()));
  connections.Heard(later.server(), "later", 10);
  connections.Accepted(last.server(), 10 * SilentConnections::kYoungUs);
  EXPECT_FALSE(last.IsOpen()) << "none of the others is silent";
  EXPECT_TRUE(client.IsOpen() && late.IsOpen() && later.IsOpen());
  EXPECT_EQ(connections.refused(), 4u);
  EXPECT_EQ(connections.failed(), 0u);
}

TEST(Connections, ASilentOneMakesRoomForItsAddress) {
  ConnectionLimits limits;
  limits.connections_per_address = 1;
  Connections connections(limits, kNeverUs);
  const LoopbackPair elsewhere(2), silent(3), next(3);
  connections.Accepted(elsewhere.server(), 0);
  connections.Accepted(silent.server(), 0);
  connections.Accepted(next.server(), SilentConnections::kYoungUs);
  EXPECT_TRUE(elsewhere.IsOpen());
  EXPECT_FALSE(silent.IsOpen());
  EXPECT_TRUE(next.IsOpen());
}

TEST(Connections, AreUsefulInTimeOrEnd) {
  constexpr std::int64_t kFirstUs = 10'000'000;
  Connections connections({}, kNeverUs, kFirstUs);
  const LoopbackPair useful, chatty, silent;
  for (const LoopbackPair* pair : {&useful, &chatty, &silent}) {
    connections.Accepted(pair->server(), 0);
  }
  connections.Heard(useful.server(), "", 10, /*counts=*/true);
  connections.Heard(chatty.server(), "", 10, /*counts=*/false);
  connections.Tick(kFirstUs - 1);
  EXPECT_TRUE(useful.IsOpen() && chatty.IsOpen() && silent.IsOpen());
  connections.Heard(chatty.server(), "", 10, /*counts=*/false);
  connections.Heard(useful.server(), "", 10, /*counts=*/false);
  connections.LookAtOnce();
  connections.Tick(kFirstUs);
  EXPECT_TRUE(useful.IsOpen());
  EXPECT_FALSE(chatty.IsOpen());
  EXPECT_FALSE(silent.IsOpen());
}

}  // namespace
}  // namespace tuplespace
