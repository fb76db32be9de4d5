// A courier whose peers are plain sockets.
#include "courier.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "direct_link.h"
#include "fake_holder.h"
#include "poll_limit.h"
#include "sockets.h"
#include "wake_up.h"

namespace tuplespace {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const Key kCourierTile{"open", 1};
constexpr std::uint64_t kCourierSession = 7;
constexpr std::int64_t kAnHourUs = 3'600'000'000;

using ::testing::HasSubstr;

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

// It says that it has received what it leaves in the holder's queue. Tickets that have expired show
// when the holder has read everything before them.
TEST(CourierTest, AReaderThatConfirmsWhatItDoesNotReadIsSentOnlyAWindow) {
  constexpr std::uint64_t kBytes = 4 << 20;
  constexpr std::uint64_t kWindow = 8 << 20;
  constexpr std::uint64_t kKernels = 24 << 20;  // more than the sockets of both ends buffer
  WakeUp wake;
  Courier courier(CourierAt("tcp://127.0.0.1:*"), wake);
  courier.SessionBegan(kCourierSession, MonotonicUs());
  courier.Offer(kCourierTile, Payload::Copy(Repeated(kBytes, 5)));
  const TicketClaims claims{kCourierSession, "reader", "", kCourierTile.bytes()};
  const std::string& secret = courier.listening().secret;
  FetchFrame fetch{1, MakeTicket(secret, claims, MonotonicUs() + kAnHourUs), 4 << 20, "reader",
                   kCourierTile};
  FetchFrame late = fetch;
  late.ticket = MakeTicket(secret, claims, 1);
  zmq::context_t context;
  zmq::socket_t dealer(context, zmq::socket_type::dealer);
  dealer.set(zmq::sockopt::linger, 0);
  dealer.set(zmq::sockopt::rcvhwm, 1);
  dealer.connect(courier.listening().endpoint);
  const auto say = [&](const auto& frame) {
    dealer.send(zmq::buffer(EncodePeer(frame)), zmq::send_flags::none);
  };
  std::uint64_t lates = 0;
  for (int round = 0; round < 40; ++round, ++fetch.transfer) {
    say(fetch);
    late.transfer = UINT64_MAX - lates++;
    say(late);
    while (courier.counts().holder.expired < lates) std::this_thread::yield();
    for (std::uint64_t at = kPieceBytes; at <= kBytes; at += kPieceBytes) {
      say(MoreFrame{fetch.transfer, at});
    }
    late.transfer = UINT64_MAX - lates++;
    say(late);
    while (courier.counts().holder.expired < lates) std::this_thread::yield();
  }
  EXPECT_LE(courier.counts().holder.sent_bytes, kWindow + kKernels);
}

// Waits until a connection has ended; returns false after a long time.
bool SeesAnEnd(Monitor& monitor) {
  const std::int64_t until_us = MonotonicUs() + 60'000'000;
  while (monitor.Drain().disconnected == 0) {
    if (MonotonicUs() >= until_us) return false;
    zmq_pollitem_t item{monitor.handle(), 0, ZMQ_POLLIN, 0};
    PollUntil({&item, 1}, until_us);
  }
  return true;
}

// Every key may connect, so a message that anybody can send keeps no connection.
TEST(CourierTest, WhoFetchesNothingIsHungUpOn) {
  WakeUp wake;
  CourierOptions options = CourierAt("tcp://127.0.0.1:*");
  options.first_fetch_us = 2'000'000;
  options.holder_limits.stall_us = kAnHourUs;  // the reader below confirms nothing
  Courier courier(options, wake);
  courier.SessionBegan(kCourierSession, MonotonicUs());
  courier.Offer(kCourierTile, Payload::Copy("tile"));
  const TicketClaims claims{kCourierSession, "reader", "", kCourierTile.bytes()};
  FetchFrame fetch{1, MakeTicket(courier.listening().secret, claims, MonotonicUs() + kAnHourUs),
                   kPieceBytes, "reader", kCourierTile};
  zmq::context_t context;
  zmq::socket_t reader(context, zmq::socket_type::dealer);
  zmq::socket_t idler(context, zmq::socket_type::dealer);
  Monitor of_reader(context, reader), of_idler(context, idler);
  for (zmq::socket_t* const dealer : {&reader, &idler}) {
    dealer->set(zmq::sockopt::linger, 0);
    dealer->set(zmq::sockopt::rcvtimeo, 60'000);
    dealer->connect(courier.listening().endpoint);
  }
  const auto fetches = [&] {
    reader.send(zmq::buffer(EncodePeer(fetch)), zmq::send_flags::none);
    zmq::message_t piece;
    EXPECT_TRUE(reader.recv(piece));
    EXPECT_EQ(piece.size(), kPieceHeadBytes + 4);
    ++fetch.transfer;
  };
  fetches();
  idler.send(zmq::buffer(EncodePeer(StopFrame{1})), zmq::send_flags::none);
  ASSERT_TRUE(SeesAnEnd(of_idler));
  fetches();
  EXPECT_EQ(of_reader.Drain().disconnected, 0);
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

// ---- links to holders

// A holder that offers one payload.
class OneHolder {
 public:
  OneHolder() : courier_(CourierAt("tcp://127.0.0.1:*"), wake_) {
    courier_.SessionBegan(kCourierSession, MonotonicUs());
    courier_.Offer(kCourierTile, Payload::Copy("tile"));
  }
  Place place() const { return PlaceAt(courier_.listening()); }
  static Place PlaceAt(const Listening& listening) {
    const TicketClaims claims{kCourierSession, "reader", "", kCourierTile.bytes()};
    return {listening.endpoint, "",
            MakeTicket(listening.secret, claims, MonotonicUs() + kAnHourUs)};
  }

 private:
  WakeUp wake_;
  Courier courier_;
};

class LinksOfCourier : public ::testing::Test {
 protected:
  void Begin(std::size_t most_links, std::int64_t idle_link_us = kAnHourUs) {
    CourierOptions options = CourierAt("tcp://127.0.0.1:*");
    options.client = "reader";
    options.most_links = most_links;
    options.idle_link_us = idle_link_us;
    // The listeners of a test that do not answer are not given up.
    options.reader_limits.connect_us = options.reader_limits.stall_us = kAnHourUs;
    courier_ = std::make_unique<Courier>(options, wake_);
  }
  void BeginFetch(const Place& place) { courier_->Fetch(++fetches_, kCourierTile, 4, place); }
  // What the next fetch that ends has brought.
  FetchedPayload Await() {
    for (;;) {
      for (Courier::Event& event : courier_->TakeEvents()) {
        return std::get<FetchedPayload>(std::move(event));
      }
      zmq_pollitem_t item{nullptr, wake_.fd(), ZMQ_POLLIN, 0};
      if (wake_.BeginSleep()) PollUntil({&item, 1}, MonotonicUs() + kAnHourUs);
      wake_.EndSleep(item.revents != 0);
    }
  }
  FetchedPayload Fetch(const Place& place) {
    BeginFetch(place);
    return Await();
  }
  // Returns how the listener tells this connection from others.
  std::string FetchFrom(FakeListener& listener) {
    BeginFetch(OneHolder::PlaceAt(listener.listening(/*keys=*/false)));
    const std::optional<FetchFrame> fetch = listener.AwaitFetch();
    if (!fetch) throw std::runtime_error("no fetch came");
    const std::string tile = "tile";
    const auto bytes = std::as_bytes(std::span(tile));
    listener.Send({fetch->transfer, bytes.size(), 0, HashOf(bytes), bytes});
    EXPECT_EQ(Await().payload.text(), tile);
    return listener.peer();
  }
  std::uint64_t links() const { return courier_->counts().links; }

  WakeUp wake_;
  std::unique_ptr<Courier> courier_;
  std::uint64_t fetches_ = 0;
};

// Anybody may also name the right key for it, but cannot make tickets for it: the connection ends.
TEST_F(LinksOfCourier, WhoNamesThePlaceOfAnotherDoesNotMakeThatUnreachable) {
  Begin(2);
  FakeListener listener(/*keys=*/false);
  const Place place = OneHolder::PlaceAt(listener.listening(/*keys=*/false));
  courier_->Fetch(++fetches_, kCourierTile, 4, place, "attacker");
  const std::optional<FetchFrame> fetch = listener.AwaitFetch();
  ASSERT_TRUE(fetch);
  const std::string longer = "longer than was said";
  const auto bytes = std::as_bytes(std::span(longer));
  listener.Send({fetch->transfer, bytes.size(), 0, HashOf(bytes), bytes});
  EXPECT_THAT(Await().why, HasSubstr("were due"));
  courier_->Fetch(++fetches_, kCourierTile, 4, place, "attacker");
  EXPECT_THAT(Await().why, HasSubstr("recently unreachable"));
  FetchFrom(listener);  // for which it stays with somebody else
}

// A hostile holder could name one place after the other until no more sockets can be made.
TEST_F(LinksOfCourier, OnlySoManyAreOpen) {
  constexpr std::size_t kMost = 2;
  Begin(kMost);
  std::vector<std::unique_ptr<OneHolder>> holders;
  for (int i = 0; i < 5; ++i) {
    holders.push_back(std::make_unique<OneHolder>());
    EXPECT_EQ(Fetch(holders.back()->place()).payload.text(), "tile");
    EXPECT_LE(links(), kMost);
  }
}

TEST_F(LinksOfCourier, TheOneThatWasIdleLongestIsClosed) {
  Begin(2);
  FakeListener first(/*keys=*/false), second(/*keys=*/false);
  const OneHolder third;
  const std::string to_first = FetchFrom(first);
  const std::string to_second = FetchFrom(second);
  EXPECT_EQ(FetchFrom(first), to_first);
  EXPECT_EQ(Fetch(third.place()).payload.text(), "tile");
  EXPECT_EQ(FetchFrom(first), to_first);
  EXPECT_NE(FetchFrom(second), to_second);
}

TEST_F(LinksOfCourier, AFetchFailsIfAllAreInUse) {
  Begin(1);
  FakeListener silent(/*keys=*/false);
  OneHolder holder;
  BeginFetch(OneHolder::PlaceAt(silent.listening(/*keys=*/false)));
  const FetchedPayload fetched = Fetch(holder.place());
  EXPECT_EQ(fetched.id, 2u);
  EXPECT_TRUE(fetched.payload.empty());
  EXPECT_THAT(fetched.why, HasSubstr("fetches from 1 holders already"));
  courier_->Forget(1);
  EXPECT_EQ(Fetch(holder.place()).payload.text(), "tile");
}

TEST_F(LinksOfCourier, AnIdleOneIsClosed) {
  Begin(2, /*idle_link_us=*/50'000);
  FakeListener listener(/*keys=*/false);
  const std::unique_ptr<Monitor> monitor = listener.Observe();
  const std::string idle = FetchFrom(listener);
  EXPECT_TRUE(SeesAnEnd(*monitor));
  EXPECT_NE(FetchFrom(listener), idle) << "by a new one";
}

// ---- a courier that dies

// It polls its wake-up, its listener and the listener's monitor.
constexpr rlim_t kTooFewToServe = 2;

// Whether somebody listens at tcp://127.0.0.1:PORT.
bool Accepts(const std::string& endpoint) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port =
      htons(static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1))));
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool accepts = connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  close(fd);
  return accepts;
}

TEST(CourierTest, OneThatDiesSaysSoEndsItsFetchesAndRefusesReaders) {
  WakeUp wake;
  CourierOptions options = CourierAt("tcp://127.0.0.1:*");
  options.reader_limits.connect_us = options.reader_limits.stall_us = kAnHourUs;
  Courier courier(options, wake);
  FakeListener silent(/*keys=*/false);
  const Place place = OneHolder::PlaceAt(silent.listening(/*keys=*/false));
  courier.Fetch(1, kCourierTile, 4, place);
  ASSERT_TRUE(silent.AwaitFetch());
  std::vector<Courier::Event> events;
  const auto await = [&](std::size_t count) {
    while (events.size() < count) {
      for (Courier::Event& event : courier.TakeEvents()) events.push_back(std::move(event));
      std::this_thread::yield();
    }
  };
  {
    const PollLimit limit(kTooFewToServe);
    courier.Withdraw(kCourierTile);  // wakes it
    await(2);
  }
  ASSERT_TRUE(std::holds_alternative<Courier::Died>(events[0]));
  EXPECT_THAT(std::get<Courier::Died>(events[0]).why, HasSubstr("ppoll"));
  EXPECT_EQ(std::get<FetchedPayload>(events[1]).id, 1u);
  EXPECT_TRUE(std::get<FetchedPayload>(events[1]).payload.empty());
  courier.Fetch(2, kCourierTile, 4, place);
  await(3);
  EXPECT_EQ(std::get<FetchedPayload>(events[2]).id, 2u);
  EXPECT_THAT(std::get<FetchedPayload>(events[2]).why, HasSubstr("no longer fetches"));
  while (Accepts(courier.listening().endpoint)) std::this_thread::yield();
}

TEST(DirectLinkTest, WithoutItsCourierItGoesThroughTheBroker) {
  ClientOptions options;
  options.id = "reader";
  options.direct = true;
  WakeUp wake;
  std::vector<Read> submitted;
  const auto submit = [&](Read read, const Client::ReplyHandler&) {
    submitted.push_back(std::move(read));
  };
  DirectLink link(options, wake, submit, submit);
  std::vector<std::string> problems;
  link.OnProblem([&](const std::string& problem) { problems.push_back(problem); });
  link.NoteAddress("127.0.0.1");
  const auto follow = [&](std::uint64_t session) {
    link.NoteClock(MonotonicUs());
    link.Follow(session, /*shares=*/false);
  };
  follow(kCourierSession);
  ASSERT_TRUE(link.TakeListening());
  ASSERT_TRUE(link.listens());
  {
    const PollLimit limit(kTooFewToServe);
    follow(kCourierSession);  // wakes the courier
    while (problems.empty()) {
      link.HandleEvents();
      std::this_thread::yield();
    }
  }
  EXPECT_THAT(problems.front(), HasSubstr("all bytes go through the broker: ppoll"));
  EXPECT_FALSE(link.listens());
  follow(kCourierSession + 1);
  EXPECT_FALSE(link.HasListening());
  EXPECT_FALSE(link.listens());
  FoundTuple wanted;
  wanted.key = kCourierTile;
  wanted.place = std::make_shared<const Place>();
  link.ReadDirectly({wanted}, kAnHourUs, [](ReplyBody&&) {});
  ASSERT_EQ(submitted.size(), 1u);
  EXPECT_FALSE(submitted.front().direct);
  EXPECT_EQ(problems.size(), 1u);
}

}  // namespace
}  // namespace tuplespace
