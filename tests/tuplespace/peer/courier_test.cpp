// A courier whose peers are bare sockets.
#include "courier.h"

#include <gmock/gmock.h>
#include <signal.h>
#include <unistd.h>

#include "fake_holder.h"
#include "sockets.h"
#include "wake_up.h"

namespace tuplespace {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

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

// The next end of a fetch.
FetchedPayload NextFetched(Courier& courier, WakeUp& wake) {
  const std::int64_t until_us = MonotonicUs() + 60'000'000;
  while (MonotonicUs() < until_us) {
    for (Courier::Event& event : courier.TakeEvents()) {
      if (auto* fetched = std::get_if<FetchedPayload>(&event)) return std::move(*fetched);
    }
    zmq_pollitem_t item{nullptr, wake.fd(), ZMQ_POLLIN, 0};
    if (wake.BeginSleep()) PollUntil({&item, 1}, until_us);
    wake.EndSleep(item.revents != 0);
  }
  return {0, {}, "nothing came"};
}

// Anybody may say that it listens where another one does.
TEST(CourierTest, AWrongKeyForAnEndpointDoesNotMakeItUnreachable) {
  WakeUp holder_wake, reader_wake;
  CourierOptions options = CourierAt("tcp://127.0.0.1:*");
  options.keys = MakeKeyPair();
  Courier holder(options, holder_wake);
  holder.SessionBegan(kCourierSession, MonotonicUs());
  holder.Offer(kCourierTile, Payload::Copy("payload"));
  options.client = "reader";
  options.keys = MakeKeyPair();
  Courier reader(options, reader_wake);
  const TicketClaims claims{kCourierSession, "reader", options.keys->public_key,
                            kCourierTile.bytes()};
  Place place{holder.listening().endpoint, MakeKeyPair().public_key,
              MakeTicket(holder.listening().secret, claims, MonotonicUs() + kAnHourUs)};
  reader.Fetch(1, kCourierTile, 7, place);
  EXPECT_TRUE(NextFetched(reader, reader_wake).payload.empty());
  place.public_key = holder.listening().public_key;
  reader.Fetch(2, kCourierTile, 7, place);
  const FetchedPayload fetched = NextFetched(reader, reader_wake);
  EXPECT_EQ(fetched.payload.text(), "payload") << fetched.why;
}

// A holder may name any endpoint. It must not make readers connect to services of their own hosts.
TEST(CourierTest, WhoReachesItsBrokerOverANetworkConnectsToAddressesOfNetworksOnly) {
  WakeUp wake;
  CourierOptions options = CourierAt("tcp://127.0.0.1:*");
  options.keys = MakeKeyPair();
  options.address = "10.0.0.7";
  options.reader_limits.connect_us = 1;
  Courier reader(options, wake);
  const auto why = [&](const std::string& host) {
    static std::uint64_t id = 0;
    const Place place{"tcp://" + host + ":1", MakeKeyPair().public_key,
                      std::string(kTicketBytes, 't')};
    reader.Fetch(++id, kCourierTile, 7, place);
    return NextFetched(reader, wake).why;
  };
  for (const char* host : {"127.0.0.1", "127.9.9.9", "0.0.0.0", "169.254.1.1", "224.0.0.1",
                           "255.255.255.255", "[::1]", "[::]", "[fe80::1]", "[::ffff:127.0.0.1]"}) {
    EXPECT_THAT(why(host), HasSubstr("no address of a network")) << host;
  }
  for (const char* host : {"10.0.0.8", "192.168.1.1", "[fd00::1]", "[::ffff:10.0.0.8]"}) {
    EXPECT_THAT(why(host), Not(HasSubstr("no address of a network"))) << host;
  }
}

// Each signal of the process is handled by a thread of the program.
TEST(CourierTest, ItsThreadTakesNoSignals) {
  sigset_t one, before;
  sigemptyset(&one);
  sigaddset(&one, SIGUSR1);
  WakeUp wake;
  // Its thread does not get the mask from its maker.
  Courier courier(CourierAt("tcp://127.0.0.1:*"), wake);
  courier.Fetch(1, kCourierTile, 1, Place{});  // which fails: the thread is at work
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
