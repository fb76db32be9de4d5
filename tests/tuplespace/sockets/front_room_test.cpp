// A large payload is sent with its control frame in the room in front of it, without a copy; only
// one message at a time can use the room.
#include "front_room.h"
#include "bytes.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "sockets.h"

namespace tuplespace {
namespace {

constexpr std::size_t kBytes = 100'000;

Payload LargePayload() {
  std::string text(kBytes, ' ');
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 7 + i / 256);
  return Payload::Copy(text);
}

TEST(FrontRoom, OneMessageAtATimeHasIt) {
  const Payload payload = LargePayload();
  FrontRoom* const room = FrontRoom::Of(payload);
  ASSERT_NE(room, nullptr);
  EXPECT_EQ(room->Take(kBytes), nullptr);  // the room is smaller
  std::byte* const front = room->Take(512);
  ASSERT_EQ(front, payload.data() - 512);
  std::memset(front, 0xFF, 512);
  EXPECT_EQ(room->Take(512), nullptr);
  room->Release();
  EXPECT_EQ(room->Take(64), payload.data() - 64);
  EXPECT_EQ(payload.text(), LargePayload().text());
}

TEST(FrontRoom, IsInFrontOfTheBytesItWasMadeFor) {
  const Payload payload = LargePayload();
  const Payload copy = payload;
  EXPECT_EQ(FrontRoom::Of(copy), FrontRoom::Of(payload));
  const Payload behind(payload.owner(), payload.data() + 64, 1000);
  EXPECT_EQ(FrontRoom::Of(behind), nullptr);
  EXPECT_EQ(FrontRoom::Of(Payload::Copy("small")), nullptr);
  EXPECT_EQ(FrontRoom::Of(Payload()), nullptr);
}

// Over inproc, ZeroMQ passes on the sender's memory; a payload at another address was copied.
class FrontRoomTest : public testing::Test {
 protected:
  FrontRoomTest() {
    broker_.bind("inproc://front-room");
    client_.set(zmq::sockopt::routing_id, client_id_);
    client_.connect("inproc://front-room");
  }

  void SendOne(zmq::socket_t& socket, const std::string& control, const Payload& payload) {
    SendProgress progress;
    const std::string* const to = &socket == &broker_ ? &client_id_ : nullptr;
    ASSERT_EQ(Send(socket, to, AsBytes(control), std::span(&payload, 1), progress),
              SendResult::kSent);
  }
  ReceivedMultipart ReceiveOne(zmq::socket_t& socket) {
    Receiver receiver;
    ReceivedMultipart message;
    EXPECT_EQ(receiver.Receive(socket, &socket == &broker_, message), ReceiveResult::kMessage);
    EXPECT_FALSE(message.problem);
    return message;
  }
  // The control frame may be padded with zeros.
  static void ExpectControl(const ReceivedMultipart& message, const std::string& control) {
    const auto bytes = message.control();
    ASSERT_GE(bytes.size(), control.size());
    EXPECT_EQ(std::memcmp(bytes.data(), control.data(), control.size()), 0);
    for (const std::byte rest : bytes.subspan(control.size())) EXPECT_EQ(rest, std::byte{0});
  }

  const std::string client_id_ = "client";
  zmq::context_t context_;
  zmq::socket_t broker_{context_, zmq::socket_type::router};
  zmq::socket_t client_{context_, zmq::socket_type::dealer};
};

TEST_F(FrontRoomTest, ALargePayloadIsSentWithoutACopy) {
  const Payload payload = LargePayload();
  SendOne(client_, "control", payload);
  const ReceivedMultipart message = ReceiveOne(broker_);
  ExpectControl(message, "control");
  ASSERT_EQ(message.payloads.size(), 1u);
  EXPECT_EQ(message.payloads[0].data(), payload.data());
  EXPECT_EQ(message.payloads[0].text(), LargePayload().text());
}

TEST_F(FrontRoomTest, IsFreeAgainWhenTheMessageIsGone) {
  const Payload payload = LargePayload();
  for (int i = 0; i < 3; ++i) {
    SendOne(client_, "control", payload);
    EXPECT_EQ(ReceiveOne(broker_).payloads.at(0).data(), payload.data());
  }
}

// Two messages with the same payload are in flight, and each has its own control frame.
TEST_F(FrontRoomTest, ASecondMessageInFlightIsACopy) {
  const Payload payload = LargePayload();
  SendOne(client_, "one", payload);
  SendOne(client_, "another", payload);
  const ReceivedMultipart one = ReceiveOne(broker_);
  const ReceivedMultipart other = ReceiveOne(broker_);
  ExpectControl(one, "one");
  ExpectControl(other, "another");
  EXPECT_NE(other.payloads.at(0).data(), payload.data());
  EXPECT_EQ(other.payloads.at(0).text(), one.payloads.at(0).text());
}

// As in a broker whose reply has a longer control frame than the request had.
TEST_F(FrontRoomTest, WhatWasReceivedIsSentOnWithoutACopy) {
  const std::string reply(250, 'r');
  SendOne(client_, "request", LargePayload());
  Payload received = ReceiveOne(broker_).payloads.at(0);
  const std::byte* const data = received.data();
  SendOne(broker_, reply, std::exchange(received, {}));
  const ReceivedMultipart message = ReceiveOne(client_);
  ExpectControl(message, reply);
  EXPECT_EQ(message.payloads.at(0).data(), data);
  EXPECT_EQ(message.payloads.at(0).text(), LargePayload().text());
}

TEST_F(FrontRoomTest, AControlFrameThatFindsNoRoomIsSentWithACopy) {
  const std::string reply(3000, 'r');
  SendOne(client_, "request", LargePayload());
  const Payload received = ReceiveOne(broker_).payloads.at(0);
  SendOne(broker_, reply, received);
  const ReceivedMultipart message = ReceiveOne(client_);
  ExpectControl(message, reply);
  EXPECT_EQ(message.payloads.at(0).text(), LargePayload().text());
}

// In front of the second payload are the bytes of the first one.
TEST_F(FrontRoomTest, OnlyTheFirstPayloadOfAMessageHasRoom) {
  const std::vector<Payload> payloads = {Payload::Copy(std::string(20'000, 'a')), LargePayload()};
  SendProgress progress;
  ASSERT_EQ(Send(client_, nullptr, AsBytes("control"), payloads, progress), SendResult::kSent);
  const ReceivedMultipart message = ReceiveOne(broker_);
  EXPECT_EQ(FrontRoom::Of(message.payloads.at(1)), nullptr);
}

// With no receiver, the payload stays with the sender and can be sent again later.
TEST_F(FrontRoomTest, WhatWasNotTakenIsSentAgain) {
  zmq::socket_t alone(context_, zmq::socket_type::dealer);
  const Payload payload = LargePayload();
  SendProgress progress;
  EXPECT_EQ(Send(alone, nullptr, AsBytes("control"), std::span(&payload, 1), progress),
            SendResult::kFull);
  SendOne(client_, "control", payload);
  EXPECT_EQ(ReceiveOne(broker_).payloads.at(0).data(), payload.data());
}

}  // namespace
}  // namespace tuplespace
