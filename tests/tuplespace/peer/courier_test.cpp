// A courier whose peers are bare sockets.
#include "courier.h"

#include "fake_holder.h"
#include "wake_up.h"

namespace tuplespace {
namespace {

const Key kCourierTile{"open", 1};
constexpr std::uint64_t kCourierSession = 7;
constexpr std::int64_t kAnHourUs = 3'600'000'000;

CourierOptions CourierAt(const std::string& listen) {
  CourierOptions options;
  options.listen = listen;
  options.client = "holder";
  return options;
}

// Peers that end have a full window each, and together all that may be under way.
TEST(CourierTest, WhatPeersThatEndedWereSentIsNotUnderWayAnyMore) {
  constexpr int kPeers = 4;
  WakeUp wake;
  CourierOptions options = CourierAt("tcp://127.0.0.1:*");
  options.holder_limits.window_bytes = kPieceBytes;
  options.holder_limits.in_flight_bytes = kPeers * kPieceBytes;
  options.holder_limits.stall_us = kAnHourUs;
  Courier courier(options, wake);
  courier.SessionBegan(kCourierSession, MonotonicUs());
  courier.Offer(kCourierTile, Payload::Copy(Repeated(2 * kPieceBytes, 5)));
  const TicketClaims claims{kCourierSession, "reader", "", kCourierTile.bytes()};
  const FetchFrame fetch{1,
                         MakeTicket(courier.listening().secret, claims, MonotonicUs() + kAnHourUs),
                         kPieceBytes, "reader", kCourierTile};
  zmq::context_t context;
  const auto fetches = [&] {
    zmq::socket_t dealer = MakeDealer(context, courier.listening().endpoint, std::nullopt);
    dealer.send(zmq::buffer(EncodePeer(fetch)), zmq::send_flags::none);
    zmq::message_t piece;
    EXPECT_TRUE(dealer.recv(piece)) << "nothing came";
    EXPECT_EQ(piece.size(), kPieceHeadBytes + kPieceBytes);
    return dealer;
  };
  for (int round = 0; round < 3; ++round) {
    std::vector<zmq::socket_t> dealers;
    for (int i = 0; i < kPeers; ++i) dealers.push_back(fetches());
  }
}

}  // namespace
}  // namespace tuplespace
