// Somebody without any key answers at the broker's address, and refuses the keys of its clients.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>

#include "broker_fixture.h"
#include "test_roles.h"

namespace tuplespace {
namespace {

using ::testing::HasSubstr;

// Refuses every connection as a broker refuses a key that is not on its list.
class Forger {
 public:
  explicit Forger(const std::string& endpoint)
      : listener_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
    const int on = 1;
    ::setsockopt(listener_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port =
        htons(static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (::bind(listener_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0 ||
        ::listen(listener_, 16) != 0) {
      ADD_FAILURE() << "cannot listen at " << endpoint << ": " << std::strerror(errno);
    }
  }
  ~Forger() {
    for (const auto& connection : heard_) ::close(connection.first);
    ::close(listener_);
  }
  Forger(const Forger&) = delete;
  Forger& operator=(const Forger&) = delete;

  // Does what can be done without waiting. Returns how many connections were refused so far.
  int Answer() {
    for (;;) {
      const int fd = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0) break;
      std::string greeting("\xff\0\0\0\0\0\0\0\0\x7f\3\0CURVE", 17);
      greeting.resize(64);
      Send(fd, greeting);
      heard_[fd] = 0;
    }
    for (auto at = heard_.begin(); at != heard_.end();) {
      if (Hear(at->first, at->second)) {
        ++at;
      } else {
        ::close(at->first);
        at = heard_.erase(at);
      }
    }
    return refused_;
  }

 private:
  // A greeting and the command HELLO, after which a client expects an answer.
  static constexpr std::size_t kHelloBytes = 64 + 202;

  static void Send(int fd, std::string_view bytes) {
    [[maybe_unused]] const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  // False: the client has hung up.
  bool Hear(int fd, std::size_t& heard) {
    char bytes[512];
    for (;;) {
      const ssize_t count = ::recv(fd, bytes, sizeof(bytes), 0);
      if (count < 0) return errno == EAGAIN || errno == EINTR;
      if (count == 0) return false;
      const std::size_t before = heard;
      heard += static_cast<std::size_t>(count);
      if (before >= kHelloBytes || heard < kHelloBytes) continue;
      Send(fd,
           "\4\12\5ERROR\3"
           "400");  // a short command of 10 bytes
      ++refused_;
    }
  }

  int listener_;
  std::map<int, std::size_t> heard_;  // bytes, by connection
  int refused_ = 0;
};

class ForgedRefusals : public ::testing::Test {
 protected:
  BrokerOptions OptionsAt(const std::string& endpoint) const {
    BrokerOptions options = BrokerThread::Options(endpoint);
    options.access = {broker_keys_, Roles(), {{"w", worker_keys_.public_key, "worker"}}};
    return options;
  }
  ClientOptions Worker() const {
    ClientOptions options = ClientAt(endpoint_);
    options.access = {"w", worker_keys_, broker_keys_.public_key};
    options.refusal_patience_us = kForeverUs;
    return options;
  }
  // Another takes the broker's address until it has refused the client a few times.
  void Refuse(Client& client) {
    broker_.reset();
    {
      Forger forger(endpoint_);
      ASSERT_TRUE(PollUntil(client, [&] { return forger.Answer() >= 3; }));
    }
    broker_ = std::make_unique<BrokerThread>(OptionsAt(endpoint_));
  }

  const KeyPair broker_keys_ = MakeKeyPair();
  const KeyPair worker_keys_ = MakeKeyPair();
  std::unique_ptr<BrokerThread> broker_ =
      std::make_unique<BrokerThread>(OptionsAt("tcp://127.0.0.1:*"));
  const std::string endpoint_ = broker_->endpoint();
};

TEST_F(ForgedRefusals, EndNoClientThatHadJoined) {
  std::string told;
  ClientOptions options = Worker();
  options.refusal_patience_us = 0;  // that is only for those that have never joined
  Client worker(options);
  worker.OnConnection([&](bool, const std::string& why) { told += why + "\n"; });
  ASSERT_TRUE(worker.Put({PlainTuple({"me", worker.id()}, "x")}, kGenerous));
  bool stored = false;
  Put put;
  put.tuples.push_back(PlainTuple({"me", worker.id()}, "y"));
  worker.Submit(std::move(put),
                [&](ReplyBody&& reply) { stored = std::holds_alternative<PutReply>(reply); });
  Refuse(worker);
  EXPECT_THAT(told, HasSubstr("refused the key \"w\""));
  EXPECT_TRUE(PollUntil(worker, [&] { return stored; }));
}

TEST_F(ForgedRefusals, EndNoStartingClientAtOnce) {
  std::string told;
  Client worker(Worker());
  worker.OnConnection([&](bool, const std::string& why) { told += why + "\n"; });
  Refuse(worker);
  EXPECT_THAT(told, HasSubstr("refused the key \"w\""));
  EXPECT_TRUE(worker.GetStatistics(kGenerous));
}

}  // namespace
}  // namespace tuplespace
