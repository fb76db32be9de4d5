// A courier whose peers are plain sockets.
#include "courier.h"

#include <signal.h>
#include <unistd.h>

#include "fake_holder.h"
#include "sockets.h"
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

// Each peer that ends has a full window, and together they use all bytes that may be under way.
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

// Signals of the process are for the program's own threads.
TEST(CourierTest, ItsThreadTakesNoSignals) {
  sigset_t one, before;
  sigemptyset(&one);
  sigaddset(&one, SIGUSR1);
  WakeUp wake;
  // So the courier's thread does not inherit a signal mask from its creator.
  Courier courier(CourierAt("tcp://127.0.0.1:*"), wake);
  courier.Fetch(1, kCourierTile, 1, Place{});  // it fails, and then the thread runs
  while (courier.TakeEvents().empty()) {
    zmq_pollitem_t item{nullptr, wake.fd(), ZMQ_POLLIN, 0};
    if (wake.BeginSleep()) PollUntil({&item, 1}, MonotonicUs() + kAnHourUs);
    wake.EndSleep(item.revents != 0);
  }
  pthread_sigmask(SIG_BLOCK, &one, &before);
  ASSERT_EQ(kill(getpid(), SIGUSR1), 0);
  const timespec at_most{60, 0};
  EXPECT_EQ(sigtimedwait(&one, nullptr, &at_most), SIGUSR1);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace
}  // namespace tuplespace
