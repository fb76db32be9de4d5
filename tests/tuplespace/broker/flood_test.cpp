// Attacks on a broker's port, and on its sessions: many connections, half handshakes, huge frames,
// endless messages. An honest client must notice nothing.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "broker_fixture.h"
#include "raw_connection.h"

namespace tuplespace {
namespace {

using ::testing::HasSubstr;

class Flood : public ::testing::TestWithParam<bool> {
 protected:
  static constexpr std::uint64_t kPerAddress = 100;

  // Starts a broker whose limits on connections also apply to the honest client.
  void Start(ConnectionLimits limits, std::int64_t silence_us = BrokerOptions().client_silence_us) {
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = std::min<rlim_t>(files.rlim_max, 1 << 16);
    setrlimit(RLIMIT_NOFILE, &files);
    BrokerOptions options = BrokerThread::Options("tcp://127.0.0.1:*");
    options.connections = limits;
    options.client_silence_us = silence_us;
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
  std::vector<RawConnection> raws;
  for (int i = 0; i < 1000; ++i) {
    raws.emplace_back(broker_->endpoint());
    // Some send nothing, some stop in the middle of the greeting, some after it.
    const std::string greeting = zmtp::Greeting(Mechanism());
    raws.back().Say(greeting.substr(0, static_cast<std::size_t>(i % 3) * 32));
    if (i % 100 == 0) {
      EXPECT_TRUE(HonestWorks());
    }
  }
  // Most are refused at once. The others are dropped when the time for a handshake is over.
  for (const RawConnection& raw : raws) EXPECT_TRUE(raw.IsHungUp());
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
  std::vector<RawConnection> raws;
  for (int i = 0; i < 100; ++i) raws.emplace_back(broker_->endpoint());
  EXPECT_TRUE(PollUntil(*honest_, [&] { return Counted().refused_connections >= 80; }));
  EXPECT_THAT(broker_->Log(), HasSubstr("the limit connections = 20"));
  for (const RawConnection& raw : raws) EXPECT_TRUE(raw.IsHungUp());
}

// By themselves these connections would last for ten minutes.
class SilentFlood : public Flood {
 protected:
  static constexpr std::uint64_t kMost = 20;

  void ExpectRoomForAnother(ConnectionLimits limits) {
    constexpr std::int64_t kTenMinutesUs = 600'000'000;
    limits.handshake_us = kTenMinutesUs;
    Start(limits, kTenMinutesUs);
    std::vector<RawConnection> raws;
    for (std::uint64_t i = 0; i < kMost + 10; ++i) raws.emplace_back(broker_->endpoint());
    EXPECT_TRUE(PollUntil(*honest_, [&] { return Counted().refused_connections >= 11; }));
    Client late(HonestOptions());
    EXPECT_TRUE(late.GetStatistics(kGenerous));
  }
};

TEST_P(SilentFlood, MakesRoomInAll) {
  ConnectionLimits limits;
  limits.connections = kMost;
  ExpectRoomForAnother(limits);
}

TEST_P(SilentFlood, MakesRoomForItsAddress) {
  ConnectionLimits limits;
  limits.connections_per_address = kMost;
  ExpectRoomForAnother(limits);
}

INSTANTIATE_TEST_SUITE_P(Keys, SilentFlood, ::testing::Bool(),
                         [](const auto& one) { return one.param ? "with" : "without"; });

TEST_P(Flood, FramesOfSixteenGibibytes) {
  Start({});
  for (const std::uint64_t size : {16ull << 30, ~0ull, 1ull << 63, (4ull << 20) + 1}) {
    for (const int flags : {0, int{zmtp::kMore}, int{zmtp::kCommand}}) {
      // During the handshake, and, if there are no keys, also after it.
      const RawConnection early(broker_->endpoint());
      early.Say(zmtp::Greeting(Mechanism()) + zmtp::FrameHead(flags, size));
      EXPECT_TRUE(early.IsHungUp()) << size;
      if (GetParam()) continue;
      const RawConnection late(broker_->endpoint());
      late.Say(zmtp::Greeting(Mechanism()) + zmtp::Ready("late") + zmtp::FrameHead(flags, size));
      EXPECT_TRUE(late.IsHungUp()) << size;
    }
  }
}

TEST_P(Flood, RandomBytes) {
  ConnectionLimits limits;
  limits.handshake_us = 500'000;  // wait briefly for bytes that look like a handshake
  Start(limits);
  std::mt19937_64 random(3);
  std::vector<RawConnection> raws;
  for (int i = 0; i < 100; ++i) {
    std::string bytes(200 + random() % 4000, '\0');
    for (char& c : bytes) c = static_cast<char>(random());
    if (i % 2 == 1) bytes = zmtp::Greeting(i % 4 == 1 ? "NULL" : "CURVE") + bytes;
    raws.emplace_back(broker_->endpoint());
    raws.back().Say(bytes);
    if (i % 10 == 0) {
      EXPECT_TRUE(HonestWorks());
    }
  }
  for (const RawConnection& raw : raws) EXPECT_TRUE(raw.IsHungUp());
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
  const RawConnection raw(broker_->endpoint());
  ASSERT_TRUE(raw.Say(zmtp::Greeting("NULL") + zmtp::Ready("endless")));
  const std::string frame = zmtp::FrameHead(zmtp::kMore, 1 << 20) + std::string(1 << 20, 'e');
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
  const std::string frame = zmtp::FrameHead(zmtp::kMore, 1 << 20) + std::string(1 << 20, 'e');
  std::vector<RawConnection> raws;
  for (int i = 0; i < 4; ++i) {
    const RawConnection& raw = raws.emplace_back(broker_->endpoint());
    ASSERT_TRUE(raw.Say(zmtp::Greeting("NULL") + zmtp::Ready("endless " + std::to_string(i))));
    for (int frames = 0; frames < 24 && raw.Say(frame); ++frames) continue;
  }
  EXPECT_TRUE(PollUntil(*honest_, [&] { return Counted().refused_connections >= 1; }));
  EXPECT_THAT(broker_->Log(), HasSubstr("unread_bytes_of_all = 67108864"));
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

// libzmq numbers the connections without an id in a row. Whoever claimed the next number as an id
// would end the broker.
TEST(RoutingIds, CannotBePredicted) {
  std::srand(1);  // as in every process that does not seed rand()
  BrokerThread broker("tcp://127.0.0.1:*");
  const std::size_t answer_bytes = zmtp::Greeting("NULL").size() + 8;
  const RawConnection claims(broker.endpoint());
  const std::string first("\0\x6b\x8b\x45\x67", 5);
  ASSERT_TRUE(claims.Say(zmtp::Greeting("NULL") + zmtp::Ready(first)));
  EXPECT_TRUE(claims.Hear(answer_bytes));
  EXPECT_TRUE(Client(ClientAt(broker.endpoint())).GetStatistics(kGenerous));
  const RawConnection anonymous(broker.endpoint());
  ASSERT_TRUE(anonymous.Say(zmtp::Greeting("NULL") + zmtp::Ready("")));
  EXPECT_TRUE(anonymous.Hear(answer_bytes));
  EXPECT_TRUE(Client(ClientAt(broker.endpoint())).GetStatistics(kGenerous));
}

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
  const RawConnection raw(broker.endpoint());
  ASSERT_TRUE(raw.Say(zmtp::Greeting("NULL") + zmtp::Ready("silent")));
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
