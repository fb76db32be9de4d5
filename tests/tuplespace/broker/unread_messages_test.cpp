// Messages that peers send while the broker does not read: the broker survives them, and they have
// limits.
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "broker_fixture.h"
#include "raw_connection.h"
#include "unannounced.h"

namespace tuplespace {
namespace {

using ::testing::HasSubstr;

// A broker that blocks in its log function at the first bad message, until WakeUp.
class SleepingBroker {
 public:
  explicit SleepingBroker(BrokerOptions options) : broker_(WithLog(std::move(options))) {
    thread_ = std::thread([this] { broker_.Run(); });
  }
  ~SleepingBroker() {
    WakeUp();
    broker_.Stop();
    thread_.join();
  }
  const std::string& endpoint() const { return broker_.endpoints().front(); }
  bool WaitUntilAsleep() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kGenerous, [&] { return asleep_; });
  }
  void WakeUp() {
    const std::lock_guard lock(mutex_);
    awake_ = true;
    changed_.notify_all();
  }
  std::string Log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }

 private:
  BrokerOptions WithLog(BrokerOptions options) {
    options.log = [this](const std::string& line) {
      std::unique_lock lock(mutex_);
      log_ += line + "\n";
      if (line.find("a bad message") == std::string::npos) return;
      asleep_ = true;
      changed_.notify_all();
      changed_.wait(lock, [&] { return awake_; });
    };
    return options;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool asleep_ = false, awake_ = false;
  std::string log_;
  Broker broker_;
  std::thread thread_;
};

// The broker's end of a connection. The broker runs in this process, so its descriptor is here,
// too.
class OtherEnd {
 public:
  explicit OtherEnd(const RawConnection& raw) {
    const std::uint16_t port = raw.LocalPort();
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
      sockaddr_in peer{};
      socklen_t size = sizeof(peer);
      const int fd = std::stoi(entry.path().filename());
      if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) == 0 &&
          peer.sin_family == AF_INET && ntohs(peer.sin_port) == port) {
        link_ = entry.path();
        socket_ = Target();
      }
    }
    EXPECT_FALSE(socket_.empty()) << "the broker has not accepted the connection";
  }
  // Returns false after a long time.
  bool WaitUntilClosed() const {
    return AwaitUnannounced([this] { return Target() != socket_; });
  }

 private:
  // Identifies the socket by its unique inode number.
  std::string Target() const {
    std::error_code gone;
    return std::filesystem::read_symlink(link_, gone);
  }

  std::filesystem::path link_;
  std::string socket_;
};

// Connects a peer that makes the broker block.
RawConnection Lullaby(SleepingBroker& broker) {
  RawConnection raw(broker.endpoint());
  EXPECT_TRUE(raw.Say(zmtp::Greeting("NULL") + zmtp::Ready("unread")));
  // It also waits for the first bytes of the broker's READY.
  EXPECT_TRUE(raw.Hear(zmtp::Greeting("NULL").size() + 8));
  EXPECT_TRUE(raw.Say(zmtp::FrameHead(0, 1) + "x"));
  EXPECT_TRUE(broker.WaitUntilAsleep());
  return raw;
}

// libzmq 4.3.4 aborts the process if the queue of received messages is full, the connection ends,
// and a PING follows the messages that did not fit.
TEST(UnreadMessages, OfAConnectionThatEndsDoNotEndTheBroker) {
  SleepingBroker broker(BrokerThread::Options("tcp://127.0.0.1:*"));
  {
    RawConnection raw = Lullaby(broker);
    std::string flood;
    for (int i = 0; i < 2000; ++i) {
      flood += std::string("\0\1x", 3);
      if (i >= 1000 && i % 7 == 0) flood += std::string("\4\7\4PING\0\0", 9);
    }
    ASSERT_TRUE(raw.Say(flood));
    ASSERT_TRUE(raw.WaitUntilSent());
    const OtherEnd brokers_end(raw);
    raw.Reset();
    // ZeroMQ's thread must see the end of the connection before the broker reads on.
    EXPECT_TRUE(brokers_end.WaitUntilClosed());
  }
  broker.WakeUp();
  Client honest(ClientAt(broker.endpoint()));
  EXPECT_TRUE(honest.GetStatistics(kGenerous));
}

TEST(UnreadMessages, HaveALimit) {
  BrokerOptions options = BrokerThread::Options("tcp://127.0.0.1:*");
  options.connections.unread_bytes = 8 << 20;
  SleepingBroker broker(options);
  const RawConnection raw = Lullaby(broker);
  const std::string frame = zmtp::FrameHead(0, 1 << 16) + std::string(1 << 16, 'u');
  for (int i = 0; i < 512; ++i) ASSERT_TRUE(raw.Say(frame));  // 32 MiB
  ASSERT_TRUE(raw.WaitUntilSent());
  // The time that passes is what is tested: the broker checks its connections four times a second.
  // After this time it does so as soon as it wakes up, before it has received everything.
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  broker.WakeUp();
  EXPECT_TRUE(raw.IsHungUp());
  Client honest(ClientAt(broker.endpoint()));
  EXPECT_TRUE(honest.GetStatistics(kGenerous));
  EXPECT_THAT(broker.Log(), HasSubstr("unread_bytes = 8388608"));
}

TEST(UnreadMessages, OfAllConnectionsHaveALimit) {
  BrokerOptions options = BrokerThread::Options("tcp://127.0.0.1:*");
  options.connections.unread_bytes_of_all = 12 << 20;
  SleepingBroker broker(options);
  std::vector<RawConnection> open;
  for (int i = 0; i < 3; ++i) {
    RawConnection& raw = open.emplace_back(broker.endpoint());
    EXPECT_TRUE(raw.Say(zmtp::Greeting("NULL") + zmtp::Ready("unread " + std::to_string(i))));
    EXPECT_TRUE(raw.Hear(zmtp::Greeting("NULL").size() + 8));
  }
  // Its answer shows that the broker knows the connections that were made before.
  EXPECT_TRUE(Client(ClientAt(broker.endpoint())).GetStatistics(kGenerous));
  const RawConnection lullaby = Lullaby(broker);
  const std::string frame = zmtp::FrameHead(0, 1 << 16) + std::string(1 << 16, 'u');
  for (int i = 0; i < 3; ++i) {
    for (int n = 0; n < 64 * (i == 1 ? 12 : 1); ++n) ASSERT_TRUE(open[i].Say(frame));
    ASSERT_TRUE(open[i].WaitUntilSent());
  }
  // As in the test above, but the broker's clock takes the time for a pause and does not count it.
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  broker.WakeUp();
  EXPECT_TRUE(open[1].IsHungUp()) << "which has sent most";
  Client honest(ClientAt(broker.endpoint()));
  EXPECT_TRUE(honest.GetStatistics(kGenerous));
  EXPECT_THAT(broker.Log(), HasSubstr("unread_bytes_of_all = 12582912"));
}

}  // namespace
}  // namespace tuplespace
