// Outbox: messages that wait for clients that do not read.
#include "outbox.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "broker_fixture.h"

namespace tuplespace {
namespace {

using ::testing::HasSubstr;

// A client whose connection holds at most two parts.
class OutboxTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kLimit = 4 << 20;
  static constexpr std::uint64_t kSession = 7;

  OutboxTest() {
    router_.set(zmq::sockopt::router_mandatory, true);
    router_.set(zmq::sockopt::sndhwm, 1);
    router_.bind("inproc://outbox");
    dealer_ = Connect(kClient);
  }
  std::optional<std::string> Send(std::size_t bytes) {
    return Send(kClient, Payload::Copy(std::string(bytes, 'b')), {});
  }
  std::optional<std::string> Send(const ClientId& client, const Payload& payload,
                                  const Outbox::Group& group) {
    const std::vector<std::byte> control(8);
    return outbox_.Send(client, kSession, control, {payload}, group);
  }
  // Connects a client that reads nothing.
  zmq::socket_t Connect(const ClientId& client) {
    zmq::socket_t dealer(context_, zmq::socket_type::dealer);
    dealer.set(zmq::sockopt::routing_id, client);
    dealer.set(zmq::sockopt::rcvhwm, 1);
    dealer.connect("inproc://outbox");
    dealer.send(zmq::str_buffer("here"), zmq::send_flags::none);
    zmq::message_t ignored;
    while (ignored.to_string_view() != "here") static_cast<void>(router_.recv(ignored));
    return dealer;
  }
  // Reads sent messages and retries waiting ones until `done`; returns false if that takes too
  // long.
  bool ReadUntil(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + kGenerous;
    while (!done()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      const ReceiveResult result = receiver_.Receive(dealer_, /*router=*/false, message_);
      if (result != ReceiveResult::kNothing) ++parts_;
      if (result == ReceiveResult::kMessage) read_.push_back(message_.payloads.at(0).size());
      Retry(now_us_ += Outbox::kSocketRetryUs);
    }
    return true;
  }
  void Retry(std::int64_t now_us) {
    EXPECT_TRUE(outbox_.Retry([](const ClientId&) { return true; }, now_us).empty());
  }

  const std::string kClient = "reader";
  zmq::context_t context_;
  zmq::socket_t router_{context_, zmq::socket_type::router};
  zmq::socket_t dealer_;
  ChannelTable channels_{0, -1};
  Outbox outbox_{router_, channels_, kLimit};
  Receiver receiver_;
  ReceivedMultipart message_;
  std::int64_t now_us_ = 0;
  int parts_ = 0;
  std::vector<std::size_t> read_;
};

TEST_F(OutboxTest, WhoReadsGetsMoreThanMayWait) {
  constexpr std::size_t kLong = 4 * kLimit;
  EXPECT_EQ(Send(kLong), std::nullopt);
  EXPECT_TRUE(outbox_.Waits(kClient));
  // A message that was read no longer counts as waiting.
  EXPECT_TRUE(ReadUntil([&] { return parts_ >= 13; }));
  EXPECT_EQ(Send(kLong), std::nullopt);
  EXPECT_TRUE(ReadUntil([&] { return read_.size() == 2; }));
  EXPECT_EQ(read_, (std::vector<std::size_t>{kLong, kLong}));
  EXPECT_TRUE(outbox_.empty());
}

// Each try may consume the socket's signal that a message has come, so that the broker looks again
// instead of sleeping.
TEST_F(OutboxTest, TheSocketRestsWhileAClientReadsSlowly) {
  EXPECT_EQ(Send(4 * kLimit), std::nullopt);
  Retry(0);
  EXPECT_TRUE(outbox_.TakeUsedSocket());
  for (int i = 0; i < 10; ++i) Retry(Outbox::kSocketRetryUs - 1);
  EXPECT_FALSE(outbox_.TakeUsedSocket());
  Retry(Outbox::kSocketRetryUs);
  EXPECT_TRUE(outbox_.TakeUsedSocket());
}

TEST_F(OutboxTest, WhoDoesNotReadIsGivenUpWithTheNextMessage) {
  EXPECT_EQ(Send(2 * kLimit), std::nullopt);
  const auto why = Send(1);
  ASSERT_TRUE(why);
  EXPECT_THAT(*why, HasSubstr("over the limit client_queue_bytes = 4194304"));
}

constexpr Outbox::Group kGroup{"key", 16 << 20};

TEST_F(OutboxTest, ClientsOfOneKeyShareWhatMayWaitForThem) {
  const zmq::socket_t other = Connect("other");
  const zmq::socket_t stranger = Connect("stranger");
  const auto own = [] { return Payload::Copy(std::string(3 << 20, 'b')); };
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Send(kClient, own(), kGroup), std::nullopt);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(Send("other", own(), kGroup), std::nullopt);
  std::optional<std::string> why;
  std::vector<zmq::socket_t> more;
  for (int i = 0; i < 4 && !why; ++i) {
    more.push_back(Connect(fmt::format("more {}", i)));
    why = Send(fmt::format("more {}", i), own(), kGroup);
  }
  ASSERT_TRUE(why);
  EXPECT_THAT(*why, HasSubstr("16777216 bytes, the limit for a key (unread_bytes_of_key)"));
  EXPECT_EQ(Send("stranger", own(), {"another key", kGroup.limit_bytes}), std::nullopt);
  // Dropping clients makes room for others.
  outbox_.Forget("other");
  outbox_.Forget(kClient);
  const zmq::socket_t later = Connect("later");
  EXPECT_EQ(Send("later", own(), kGroup), std::nullopt);
}

TEST_F(OutboxTest, PayloadsThatTheSpaceKeepsTakeNoMemoryOfAKey) {
  const std::vector<Payload> kept(64, Payload::Copy(std::string(kLimit, 'b')));
  std::vector<zmq::socket_t> readers;
  for (int i = 0; i < 16; ++i) {
    readers.push_back(Connect(fmt::format("reader {}", i)));
    EXPECT_EQ(Send(fmt::format("reader {}", i), kept[0], kGroup), std::nullopt) << i;
  }
}

TEST_F(OutboxTest, TheOnlyMessageForAKeyMayHaveAnySize) {
  EXPECT_EQ(Send(kClient, Payload::Copy(std::string(kGroup.limit_bytes + 1, 'b')), kGroup),
            std::nullopt);
  EXPECT_TRUE(outbox_.TakeOverLimit(0).empty());
  EXPECT_TRUE(outbox_.Waits(kClient));
}

TEST_F(OutboxTest, APayloadThatTheSpaceLetsGoTakesMemoryOfAKey) {
  constexpr std::int64_t kLookUs = 1'000'000;
  constexpr int kReaders = 8;
  // The space stands for most owners of each payload, so that its messages take little.
  std::vector<std::vector<Payload>> space;
  std::vector<zmq::socket_t> readers;
  for (int i = 0; i < kReaders; ++i) {
    const std::string reader = fmt::format("reader {}", i);
    readers.push_back(Connect(reader));
    space.emplace_back(7, Payload::Copy(std::string(kLimit, 'b')));
    EXPECT_EQ(Send(reader, space.back().front(), kGroup), std::nullopt) << i;
  }
  std::int64_t now_us = 0;
  EXPECT_TRUE(outbox_.TakeOverLimit(now_us).empty());
  space.clear();
  EXPECT_TRUE(outbox_.TakeOverLimit(now_us + kLookUs - 1).empty());
  now_us += kLookUs;
  const auto lost = outbox_.TakeOverLimit(now_us);
  ASSERT_FALSE(lost.empty());
  EXPECT_LT(lost.size(), static_cast<std::size_t>(kReaders)) << "the others are below the limit";
  for (const auto& [client, why] : lost) {
    EXPECT_THAT(why, HasSubstr("the limit for a key (unread_bytes_of_key)"));
    outbox_.Forget(client);
  }
  EXPECT_TRUE(outbox_.TakeOverLimit(now_us + kLookUs).empty());
  EXPECT_FALSE(outbox_.empty());
}

}  // namespace
}  // namespace tuplespace
