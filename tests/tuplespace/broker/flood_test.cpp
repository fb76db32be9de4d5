// Attacks on a broker's port, and on its sessions: many connections, half handshakes, huge frames,
// endless messages. An honest client must notice nothing.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <linux/sockios.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "broker_fixture.h"

namespace tuplespace {
namespace {

using ::testing::HasSubstr;

// A TCP connection that sends arbitrary bytes.
class Raw {
 public:
  explicit Raw(const std::string& endpoint) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port =
        htons(static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) {
      ADD_FAILURE() << "connect: " << std::strerror(errno);
    }
  }
  ~Raw() {
    if (fd_ >= 0) close(fd_);
  }
  Raw(Raw&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Raw(const Raw&) = delete;

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
  // Waits until the peer has taken all sent bytes out of the kernel, or takes no more of them.
  // Polls, because Linux does not notify anybody when that amount changes.
  void WaitUntilRead() const {
    int left = -1, before = -2;
    for (int same = 0; left != 0 && same < 20; same = left == before ? same + 1 : 0) {
      before = left;
      if (ioctl(fd_, SIOCOUTQ, &left) != 0) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
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

std::string Greeting(const std::string& mechanism) {
  std::string text("\xff\0\0\0\0\0\0\0\0\x7f\3\0", 12);
  text += mechanism;
  text.resize(64);
  return text;
}

enum FrameFlags : char { kMore = 1, kLong = 2, kCommand = 4 };

std::string FrameHead(int flags, std::uint64_t size) {
  std::string head(1, static_cast<char>(flags | kLong));
  for (int shift = 56; shift >= 0; shift -= 8) head.push_back(static_cast<char>(size >> shift));
  return head;
}

std::string Ready(const std::string& id) {
  const auto property = [](const std::string& name, const std::string& value) {
    return std::string(1, static_cast<char>(name.size())) + name + std::string(3, '\0') +
           std::string(1, static_cast<char>(value.size())) + value;
  };
  const std::string body = "\5READY" + property("Socket-Type", "DEALER") + property("Identity", id);
  return FrameHead(kCommand, body.size()) + body;
}

class Flood : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr std::uint64_t kPerAddress = 100;

  // Starts a broker whose limits on connections also apply to the honest client.
  void Start(ConnectionLimits limits) {
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = std::min<rlim_t>(files.rlim_max, 1 << 16);
    setrlimit(RLIMIT_NOFILE, &files);
    BrokerOptions options = BrokerThread::Options("tcp://127.0.0.1:*");
    options.connections = limits;
    options.limits.message_bytes = 4 << 20;
    options.control_frame_bytes = 1 << 20;
    if (GetParam()) {
      const Role any{"any",
                     {{{Operation::kRead, Operation::kPut}, {{FieldPattern::Any()}, true}, {}}}};
      options.access = {broker_keys_, {any}, {{"c", client_keys_.public_key, "any"}}};
    }
    broker_ = std::make_unique<BrokerThread>(options);
    honest_ = std::make_unique<Client>(HonestOptions());
    ASSERT_TRUE(honest_->Put({PlainTuple({"before"}, "x")}, kGenerous));
    honest_->OnConnection([this](bool, const std::string& why) { disturbed_ += why; });
  }
  ClientOptions HonestOptions() const {
    ClientOptions options = ClientAt(broker_->endpoint());
    if (GetParam()) options.access = {"c", client_keys_, broker_keys_.public_key};
    return options;
  }
  std::string Mechanism() const { return GetParam() ? "CURVE" : "NULL"; }
  bool HonestWorks() {
    return honest_->Put({PlainTuple({"n", ++puts_}, std::string(1000, 'x'))}, kGenerous)
        .has_value();
  }
  Counters Counted() { return honest_->GetStatistics(kGenerous)->counters; }
  int LogLines(const std::string& text) const {
    const std::string log = broker_->Log();
    int lines = 0;
    for (std::size_t at = log.find(text); at != std::string::npos; at = log.find(text, at + 1)) {
      ++lines;
    }
    return lines;
  }
  void TearDown() override {
    EXPECT_TRUE(HonestWorks());
    EXPECT_EQ(disturbed_, "");
    Client late(HonestOptions());
    EXPECT_TRUE(late.GetStatistics(kGenerous));  // new clients may join
  }

  const KeyPair broker_keys_ = MakeKeyPair();
  const KeyPair client_keys_ = MakeKeyPair();
  std::unique_ptr<BrokerThread> broker_;
  std::unique_ptr<Client> honest_;
  std::string disturbed_;
  std::int64_t puts_ = 0;
};

TEST_P(Flood, AThousandHalfOpenConnections) {
  ConnectionLimits limits;
  limits.connections_per_address = kPerAddress;
  limits.handshake_us = 2'000'000;
  Start(limits);
  std::vector<Raw> raws;
  for (int i = 0; i < 1000; ++i) {
    raws.emplace_back(broker_->endpoint());
    // Some send nothing, some stop in the middle of the greeting, some after it.
    const std::string greeting = Greeting(Mechanism());
    raws.back().Say(greeting.substr(0, static_cast<std::size_t>(i % 3) * 32));
    if (i % 100 == 0) {
      EXPECT_TRUE(HonestWorks());
    }
  }
  // Most are refused at once. The others are dropped when the time for a handshake is over.
  for (const Raw& raw : raws) EXPECT_TRUE(raw.IsHungUp());
  EXPECT_TRUE(PollUntil(*honest_, [&] {
    const Counters counters = Counted();
    return counters.refused_connections + counters.failed_connections == raws.size();
  }));
  EXPECT_GE(Counted().refused_connections, raws.size() / 2);
  EXPECT_THAT(broker_->Log(), HasSubstr("connections_per_address = 100"));
  // There is at most one such line in ten seconds, and the test is faster than that.
  EXPECT_LE(LogLines("connections_per_address"), 2);
  EXPECT_LE(LogLines("a connection failed"), 2);
}

TEST_P(Flood, ConnectionsInAll) {
  ConnectionLimits limits;
  limits.connections = 20;
  limits.handshake_us = 500'000;
  Start(limits);
  std::vector<Raw> raws;
  for (int i = 0; i < 100; ++i) raws.emplace_back(broker_->endpoint());
  EXPECT_TRUE(PollUntil(*honest_, [&] { return Counted().refused_connections >= 80; }));
  EXPECT_THAT(broker_->Log(), HasSubstr("the limit connections = 20"));
  for (const Raw& raw : raws) EXPECT_TRUE(raw.IsHungUp());
}

TEST_P(Flood, FramesOfSixteenGibibytes) {
  Start({});
  for (const std::uint64_t size : {16ull << 30, ~0ull, 1ull << 63, (4ull << 20) + 1}) {
    for (const int flags : {0, int{kMore}, int{kCommand}}) {
      // During the handshake, and, if there are no keys, also after it.
      const Raw early(broker_->endpoint());
      early.Say(Greeting(Mechanism()) + FrameHead(flags, size));
      EXPECT_TRUE(early.IsHungUp()) << size;
      if (GetParam()) continue;
      const Raw late(broker_->endpoint());
      late.Say(Greeting(Mechanism()) + Ready("late") + FrameHead(flags, size));
      EXPECT_TRUE(late.IsHungUp()) << size;
    }
  }
}

TEST_P(Flood, RandomBytes) {
  ConnectionLimits limits;
  limits.handshake_us = 500'000;  // wait briefly for bytes that look like a handshake
  Start(limits);
  std::mt19937_64 random(3);
  std::vector<Raw> raws;
  for (int i = 0; i < 100; ++i) {
    std::string bytes(200 + random() % 4000, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    if (i % 2 == 1) bytes = Greeting(i % 4 == 1 ? "NULL" : "CURVE") + bytes;
    raws.emplace_back(broker_->endpoint());
    raws.back().Say(bytes);
    if (i % 10 == 0) {
      EXPECT_TRUE(HonestWorks());
    }
  }
  for (const Raw& raw : raws) EXPECT_TRUE(raw.IsHungUp());
  EXPECT_TRUE(PollUntil(*honest_, [&] { return Counted().failed_connections >= 100; }))
      << Counted().failed_connections << " failed, " << Counted().refused_connections
      << " refused\n"
      << broker_->Log();
  EXPECT_LE(LogLines("a connection failed"), 2);
  // Without keys some of the bytes are valid messages of clients with random names.
  EXPECT_LE(LogLines("a bad message"), 2);
}

INSTANTIATE_TEST_SUITE_P(Keys, Flood, ::testing::Bool(),
                         [](const auto& one) { return one.param ? "with" : "without"; });

// ZeroMQ sends only whole messages, so this test speaks ZMTP itself to begin a message and never
// end it. Keys make no difference to this limit.
class Endless : public Flood {};

TEST_P(Endless, AMessageWithoutEndIsCutOff) {
  ConnectionLimits limits;
  limits.unfinished_bytes = 64 << 20;
  Start(limits);
  const Raw raw(broker_->endpoint());
  ASSERT_TRUE(raw.Say(Greeting("NULL") + Ready("endless")));
  const std::string frame = FrameHead(kMore, 1 << 20) + std::string(1 << 20, 'e');
  std::uint64_t sent = 0;
  while (sent < (16ull << 30) && raw.Say(frame)) {
    sent += frame.size();
    if (sent % (16 * frame.size()) == 0) {
      EXPECT_TRUE(HonestWorks());
    }
  }
  EXPECT_GT(sent, limits.unfinished_bytes);
  EXPECT_LT(sent, 16ull << 30);
  EXPECT_EQ(Counted().refused_connections, 1u);
  EXPECT_THAT(broker_->Log(), HasSubstr("unfinished_bytes = 67108864"));
}

TEST_P(Endless, MessagesWithoutEndHaveALimitTogether) {
  ConnectionLimits limits;
  limits.unread_bytes_of_all = 64 << 20;
  Start(limits);
  const std::string frame = FrameHead(kMore, 1 << 20) + std::string(1 << 20, 'e');
  std::vector<Raw> raws;
  for (int i = 0; i < 4; ++i) {
    const Raw& raw = raws.emplace_back(broker_->endpoint());
    ASSERT_TRUE(raw.Say(Greeting("NULL") + Ready("endless " + std::to_string(i))));
    for (int frames = 0; frames < 24 && raw.Say(frame); ++frames) continue;
  }
  EXPECT_TRUE(PollUntil(*honest_, [&] { return Counted().refused_connections >= 1; }));
  EXPECT_THAT(broker_->Log(), HasSubstr("unread_bytes_of_all = 67108864"));
}

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
  explicit OtherEnd(const Raw& raw) {
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
  // Returns false after a long time. Polls, because Linux does not notify anybody when a descriptor
  // is closed.
  bool WaitUntilClosed() const {
    const auto deadline = std::chrono::steady_clock::now() + kGenerous;
    while (Target() == socket_) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
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
Raw Lullaby(SleepingBroker& broker) {
  Raw raw(broker.endpoint());
  EXPECT_TRUE(raw.Say(Greeting("NULL") + Ready("unread")));
  EXPECT_TRUE(raw.Hear(Greeting("NULL").size() + 8));  // and the first bytes of the broker's READY
  EXPECT_TRUE(raw.Say(FrameHead(0, 1) + "x"));
  EXPECT_TRUE(broker.WaitUntilAsleep());
  return raw;
}

// libzmq 4.3.4 aborts the process if the queue of received messages is full, the connection ends,
// and a PING follows the messages that did not fit.
TEST(UnreadMessages, OfAConnectionThatEndsDoNotEndTheBroker) {
  SleepingBroker broker(BrokerThread::Options("tcp://127.0.0.1:*"));
  {
    Raw raw = Lullaby(broker);
    std::string flood;
    for (int i = 0; i < 2000; ++i) {
      flood += std::string("\0\1x", 3);
      if (i >= 1000 && i % 7 == 0) flood += std::string("\4\7\4PING\0\0", 9);
    }
    ASSERT_TRUE(raw.Say(flood));
    raw.WaitUntilRead();
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
  const Raw raw = Lullaby(broker);
  const std::string frame = FrameHead(0, 1 << 16) + std::string(1 << 16, 'u');
  for (int i = 0; i < 512; ++i) ASSERT_TRUE(raw.Say(frame));  // 32 MiB
  raw.WaitUntilRead();
  // The broker checks its connections four times a second. After this sleep it does so as soon as
  // it wakes up, before it has received everything that was sent.
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
  std::vector<Raw> open;
  for (int i = 0; i < 3; ++i) {
    Raw& raw = open.emplace_back(broker.endpoint());
    EXPECT_TRUE(raw.Say(Greeting("NULL") + Ready("unread " + std::to_string(i))));
    EXPECT_TRUE(raw.Hear(Greeting("NULL").size() + 8));
  }
  // Its answer shows that the broker knows the connections that were made before.
  EXPECT_TRUE(Client(ClientAt(broker.endpoint())).GetStatistics(kGenerous));
  const Raw lullaby = Lullaby(broker);
  const std::string frame = FrameHead(0, 1 << 16) + std::string(1 << 16, 'u');
  for (int i = 0; i < 3; ++i) {
    for (int n = 0; n < 64 * (i == 1 ? 12 : 1); ++n) ASSERT_TRUE(open[i].Say(frame));
    open[i].WaitUntilRead();
  }
  // As in the test above, but the broker's clock takes the time for a pause and does not count it.
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  broker.WakeUp();
  EXPECT_TRUE(open[1].IsHungUp()) << "which has sent most";
  Client honest(ClientAt(broker.endpoint()));
  EXPECT_TRUE(honest.GetStatistics(kGenerous));
  EXPECT_THAT(broker.Log(), HasSubstr("unread_bytes_of_all = 12582912"));
}

TEST_P(Endless, WholeMessagesMayBeAsManyAsTheyLike) {
  ConnectionLimits limits;
  limits.unfinished_bytes = 8 << 20;
  Start(limits);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(honest_->Put({PlainTuple({"large", i}, std::string(1 << 20, 'w'))}, kGenerous));
  }
  EXPECT_EQ(Counted().refused_connections, 0u);
}

INSTANTIATE_TEST_SUITE_P(Keys, Endless, ::testing::Values(false),
                         [](const auto&) { return "without"; });

constexpr std::chrono::milliseconds kSilence(500);

// Whether a client that only polls, and so sends a message now and then, keeps its connection for
// three times the silence.
bool IsKept(const std::string& endpoint) {
  Client client(ClientAt(endpoint));
  EXPECT_TRUE(client.GetStatistics(kGenerous));
  bool lost = false;
  client.OnConnection([&](bool, const std::string&) { lost = true; });
  const auto until = std::chrono::steady_clock::now() + 3 * kSilence;
  while (!lost && std::chrono::steady_clock::now() < until) client.Poll(kSilence / 5);
  return !lost;
}

// A connection that only keeps itself alive is useless, authenticated or not.
TEST(SilentPeers, AreHungUpOn) {
  BrokerOptions options = BrokerThread::Options("tcp://127.0.0.1:*");
  options.client_silence_us = std::chrono::microseconds(kSilence).count();
  BrokerThread broker(options);
  const Raw raw(broker.endpoint());
  ASSERT_TRUE(raw.Say(Greeting("NULL") + Ready("silent")));
  EXPECT_TRUE(raw.IsHungUp());
  Client client(ClientAt(broker.endpoint()));
  EXPECT_TRUE(PollUntil(
      client, [&] { return broker.Log().find("no message came over it") != std::string::npos; }));
  // On a busy machine a thread may not run for as long as the silence. A client that sent nothing
  // would lose its connection in every attempt.
  int lost = 0;
  while (!IsKept(broker.endpoint())) ASSERT_LT(++lost, 20);
}

}  // namespace
}  // namespace tuplespace
