// A relay whose broker is stopped.
#include "link_relay.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <optional>

#include "free_descriptors.h"
#include "gtest/gtest.h"
#include "program.h"

namespace acan::cli {
namespace {

using testing::FreeDescriptors;
using testing::TestFolder;

class Socket {
 public:
  explicit Socket(int flags = 0) : fd_(::socket(AF_UNIX, SOCK_STREAM | flags, 0)) {}
  ~Socket() { ::close(fd_); }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int fd() const { return fd_; }
  bool Connect(const std::string& path) const {
    const sockaddr_un address = AddressOf(path);
    return ::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
  }
  bool Listen(const std::string& path) const {
    const sockaddr_un address = AddressOf(path);
    return ::bind(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
           ::listen(fd_, 0) == 0;
  }

 private:
  static sockaddr_un AddressOf(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
    return address;
  }
  int fd_;
};

// The broker's queue of connections is full: a blocking connect would wait for an accept.
TEST(LinkRelay, IsNotKeptByABrokerThatAcceptsNobody) {
  const TestFolder folder;
  const std::string path = folder / "space";
  const Socket broker;
  ASSERT_TRUE(broker.Listen(path));
  std::vector<std::unique_ptr<Socket>> queued;
  do {
    queued.push_back(std::make_unique<Socket>(SOCK_NONBLOCK));
  } while (queued.back()->Connect(path));
  ASSERT_EQ(errno, EAGAIN);

  const Socket client;
  std::optional<LinkRelay> relay(std::in_place, "ipc://" + (folder / "relay"), "ipc://" + path);
  ASSERT_TRUE(client.Connect(folder / "relay"));
  char byte = 0;
  EXPECT_EQ(::recv(client.fd(), &byte, 1, 0), 0) << "the client is told that nobody is there";
  relay.reset();
}

TEST(LinkRelay, GoesOnWhenThereAreDescriptorsAgain) {
  const TestFolder folder;
  const std::string path = folder / "space";
  const Socket broker, refused, waiting;
  ASSERT_TRUE(broker.Listen(path));
  const LinkRelay relay("ipc://" + (folder / "relay"), "ipc://" + path);
  char byte = 0;
  {
    const FreeDescriptors one(1);  // enough for the client, but not for the broker
    ASSERT_TRUE(refused.Connect(folder / "relay"));
    EXPECT_EQ(::recv(refused.fd(), &byte, 1, 0), 0) << "the client comes again";
  }
  {
    const FreeDescriptors none(0);
    ASSERT_TRUE(waiting.Connect(folder / "relay"));
  }
  ASSERT_EQ(::send(waiting.fd(), "x", 1, MSG_NOSIGNAL), 1);
  const int accepted = ::accept4(broker.fd(), nullptr, nullptr, SOCK_CLOEXEC);
  ASSERT_GE(accepted, 0);
  EXPECT_EQ(::recv(accepted, &byte, 1, 0), 1);
  EXPECT_EQ(byte, 'x');
  ::close(accepted);
}

}  // namespace
}  // namespace acan::cli
