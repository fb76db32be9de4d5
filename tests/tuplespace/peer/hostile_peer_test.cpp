// Holders that are unreachable, lie or die, and readers that ask for payloads that they may not
// have.
#include <gmock/gmock.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fake_holder.h"

namespace tuplespace {
namespace {

const Key kHostileTile{"open", 1};
constexpr std::uint64_t kHostileBytes = (2 << 20) + 5;

class HostilePeer : public DirectFixture {
 protected:
  std::optional<DealerKeys> KeysOf(const std::string& name) const {
    if (!GetParam()) return std::nullopt;
    return DealerKeys{keys_.at(name), broker_keys_.public_key};
  }
  std::string IdOf(const std::string& name) const { return GetParam() ? name + "/1" : name; }
  std::unique_ptr<FakeHolder> Fake(const Listening& listening) const {
    auto fake = std::make_unique<FakeHolder>(broker_->endpoint(), IdOf("holder"), KeysOf("holder"),
                                             listening);
    fake->supply = Payload::Copy(payload_);
    return fake;
  }
  Listening At(const std::string& endpoint) const {
    return {endpoint, GetParam() ? keys_.at("holder").public_key : "", MakeTicketSecret()};
  }
  // Returns the result of a ReadDirectly; calls `turn` repeatedly meanwhile.
  std::optional<FoundTuple> FetchWith(Client& reader, const std::function<void()>& turn,
                                      std::int64_t wait_us = 60'000'000,
                                      const Key& key = kHostileTile) {
    std::optional<ReplyBody> answer;
    reader.ReadDirectly({Named(key)}, wait_us,
                        [&](ReplyBody&& reply) { answer = std::move(reply); });
    while (!answer) {
      reader.Poll(std::chrono::milliseconds(1));
      turn();
    }
    const auto* found = std::get_if<Found>(&*answer);
    if (found == nullptr || found->tuples.empty()) return std::nullopt;
    return found->tuples.front();
  }
  // Returns the place of the tile that the broker tells `reader`.
  Place PlaceFor(Client& reader) {
    Read read{{Pattern::Of(kHostileTile)}};
    read.direct = true;
    std::optional<Place> place;
    reader.Submit(std::move(read),
                  [&](ReplyBody&& reply) { place = *std::get<Found>(reply).tuples.at(0).place; });
    EXPECT_TRUE(PollUntil(reader, [&] { return place.has_value(); }));
    return *place;
  }
  std::optional<DealerKeys> KeysAt(const Place& place, const std::string& name) const {
    if (!GetParam()) return std::nullopt;
    return DealerKeys{keys_.at(name), place.public_key};
  }
  // Returns the holder's answer to a fetch with this client's key.
  ToReader AnswerTo(Client& holder, const Place& place, const std::string& name,
                    const FetchFrame& fetch) {
    zmq::socket_t dealer = MakeDealer(context_, place.endpoint, KeysAt(place, name));
    dealer.set(zmq::sockopt::rcvtimeo, 1);
    dealer.send(zmq::buffer(EncodePeer(fetch)), zmq::send_flags::none);
    zmq::message_t message;
    const auto deadline = std::chrono::steady_clock::now() + kGenerous;
    while (!dealer.recv(message) && std::chrono::steady_clock::now() < deadline) {
      holder.Poll(std::chrono::milliseconds(1));
    }
    const auto frame = DecodeToReader({message.data<const std::byte>(), message.size()});
    EXPECT_TRUE(frame);
    if (!frame || std::holds_alternative<RefusalFrame>(*frame)) {
      return frame.value_or(RefusalFrame{});
    }
    return PieceFrame{};  // the caller needs no bytes
  }
  static bool IsRefused(const ToReader& answer) {
    const auto* refusal = std::get_if<RefusalFrame>(&answer);
    return refusal != nullptr && refusal->why == FetchRefusal::kTicket;
  }

  const std::string payload_ = Repeated(kHostileBytes, 11);
  zmq::context_t context_;
};

TEST_P(HostilePeer, WhereNobodyListensTheBrokerPassesItOn) {
  const auto fake = Fake(At("tcp://127.0.0.1:1"));
  fake->Ask(Put{{Staying(kHostileTile, kHostileBytes), Staying({"open", 2}, kHostileBytes)}});
  const auto reader = Make("reader");
  for (const std::int64_t tile : {1, 2}) {  // the second one is not tried at the holder
    const auto found = FetchWith(
        *reader, [&] { fake->Turn(); }, 60'000'000, Key{"open", tile});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->payload.text(), payload_);
  }
  EXPECT_EQ(reader->direct_counts().failed_fetches, 2u);
  EXPECT_EQ(StatsOf(*reader).counters.wanted, 2u);
}

TEST_P(HostilePeer, AHolderThatSaysNothingIsGivenUp) {
  const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(listener, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(listener, 8), 0);
  ASSERT_EQ(getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const auto fake = Fake(At("tcp://127.0.0.1:" + std::to_string(ntohs(address.sin_port))));
  fake->Ask(Put{{Staying(kHostileTile, kHostileBytes)}});
  const auto reader = Make("reader");
  const auto found = FetchWith(*reader, [&] { fake->Turn(); });
  close(listener);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->payload.text(), payload_);
  EXPECT_EQ(reader->direct_counts().failed_fetches, 1u);
}

// It says something every 0.2 s, but never sends what is asked for.
TEST_P(HostilePeer, AHolderThatSaysAnythingElseIsGivenUp) {
  FakeListener listener(GetParam());
  const auto fake = Fake(listener.listening(GetParam()));
  fake->Ask(Put{{Staying(kHostileTile, kHostileBytes)}});
  const auto reader = Make("reader");
  std::optional<FetchFrame> fetch;
  const auto begin = std::chrono::steady_clock::now();
  auto next = begin;
  const auto found = FetchWith(*reader, [&] {
    fake->Turn();
    if (auto fetched = listener.Fetched()) fetch = fetched;
    const auto now = std::chrono::steady_clock::now();
    if (!fetch || now < next || now > begin + std::chrono::seconds(40)) return;
    next = now + std::chrono::milliseconds(200);
    listener.Send(RefusalFrame{fetch->transfer + 1, FetchRefusal::kGone});
  });
  ASSERT_TRUE(found);
  EXPECT_EQ(found->payload.text(), payload_);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

// It was expected to have another size: its bytes must not come here, directly or not.
TEST_P(HostilePeer, APayloadOfAnotherSizeIsNotRead) {
  constexpr std::uint64_t kClaimed = std::uint64_t{1} << 30;
  FakeListener listener(GetParam());
  const auto fake = Fake(listener.listening(GetParam()));
  fake->Ask(Put{{Staying(kHostileTile, kClaimed)}});
  const auto reader = Make("reader");
  FoundTuple wanted = Named(kHostileTile);
  wanted.payload_bytes = kHostileBytes;
  std::optional<ReplyBody> answer;
  reader->ReadDirectly({wanted}, 10'000'000, [&](ReplyBody&& reply) { answer = std::move(reply); });
  while (!answer) {
    reader->Poll(std::chrono::milliseconds(1));
    fake->Turn();
    EXPECT_FALSE(listener.Fetched());
  }
  const FoundTuple& found = std::get<Found>(*answer).tuples.at(0);
  EXPECT_TRUE(found.payload.empty());
  EXPECT_EQ(found.payload_bytes, kClaimed);
  EXPECT_EQ(found.put_by, IdOf("holder"));
  EXPECT_EQ(StatsOf(*reader).counters.wanted, 0u);
}

TEST_P(HostilePeer, WhatDoesNotHaveItsHashIsReadThroughTheBroker) {
  FakeListener listener(GetParam());
  const auto fake = Fake(listener.listening(GetParam()));
  fake->Ask(Put{{Staying(kHostileTile, kHostileBytes)}});
  const auto reader = Make("reader");
  const std::string lie = Repeated(kHostileBytes, 12);
  const auto found = FetchWith(*reader, [&] {
    fake->Turn();
    const auto fetch = listener.Fetched();
    if (!fetch) return;
    const auto bytes = std::as_bytes(std::span(lie));
    for (std::size_t at = 0; at < lie.size(); at += kMaxPieceBytes) {
      const auto piece = bytes.subspan(at, std::min(kMaxPieceBytes, lie.size() - at));
      listener.Send({fetch->transfer, lie.size(), at, {1, 2}, piece});
    }
  });
  ASSERT_TRUE(found);
  EXPECT_EQ(found->payload.text(), payload_);
  EXPECT_EQ(reader->direct_counts().failed_fetches, 1u);
}

// The fetch may have waited longer for its turn than the ticket lasts.
TEST_P(HostilePeer, AnExpiredTicketIsReplaced) {
  FakeListener listener(GetParam());
  const auto fake = Fake(listener.listening(GetParam()));
  fake->Ask(Put{{Staying(kHostileTile, kHostileBytes)}});
  const auto reader = Make("reader");
  std::vector<std::string> tickets;
  const auto found = FetchWith(*reader, [&] {
    fake->Turn();
    const auto fetch = listener.Fetched();
    if (!fetch) return;
    tickets.push_back(fetch->ticket);
    if (tickets.size() == 1) {
      return listener.Send(RefusalFrame{fetch->transfer, FetchRefusal::kExpired});
    }
    const auto bytes = std::as_bytes(std::span(payload_));
    for (std::size_t at = 0; at < bytes.size(); at += kMaxPieceBytes) {
      const auto piece = bytes.subspan(at, std::min(kMaxPieceBytes, bytes.size() - at));
      listener.Send({fetch->transfer, bytes.size(), at, HashOf(bytes), piece});
    }
  });
  ASSERT_TRUE(found);
  EXPECT_EQ(found->payload.text(), payload_);
  ASSERT_EQ(tickets.size(), 2u);
  EXPECT_NE(tickets[0], tickets[1]);
  EXPECT_EQ(StatsOf(*reader).counters.wanted, 0u) << "nothing came through the broker";
}

// As one whose clock is wrong does. Otherwise nobody would learn why the broker is so busy.
TEST_P(HostilePeer, AHolderForWhichEveryTicketHasExpiredIsReported) {
  FakeListener listener(GetParam());
  const auto fake = Fake(listener.listening(GetParam()));
  fake->Ask(Put{{Staying(kHostileTile, kHostileBytes)}});
  const auto reader = Make("reader");
  std::vector<std::string> problems;
  reader->OnDirectProblem([&](const std::string& text) { problems.push_back(text); });
  int fetches = 0;
  const auto found = FetchWith(*reader, [&] {
    fake->Turn();
    const auto fetch = listener.Fetched();
    if (!fetch) return;
    EXPECT_TRUE(problems.empty()) << "another ticket may be good";
    ++fetches;
    listener.Send(RefusalFrame{fetch->transfer, FetchRefusal::kExpired});
  });
  ASSERT_TRUE(found);
  EXPECT_EQ(found->payload.text(), payload_);
  EXPECT_EQ(fetches, 2);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_NE(problems[0].find("the ticket has expired"), std::string::npos) << problems[0];
}

TEST_P(HostilePeer, AHolderThatDiesInTheMiddleLosesItsPayload) {
  const auto owner = Make("owner"), reader = Make("reader");
  std::vector<Notice> notices;
  owner->OnNotice([&](Notice&& notice) { notices.push_back(std::move(notice)); });
  auto listener = std::make_unique<FakeListener>(GetParam());
  auto fake = Fake(listener->listening(GetParam()));
  Tuple task = TaskTuple({"task", 1}, "work");
  task.task->results = {kHostileTile};
  ASSERT_TRUE(owner->Put({task}, kGenerous));
  Get get;
  get.pattern = AnyOf("task");
  const ReplyBody granted = fake->Ask(std::move(get));
  const Grant& grant = std::get<Grants>(granted).grants.at(0);
  fake->Ask(Complete{{grant.key, grant.fence}, {Staying(kHostileTile, kHostileBytes)}});
  const auto found = FetchWith(
      *reader,
      [&] {
        const auto fetch = listener ? listener->Fetched() : std::nullopt;
        if (!fetch) return;
        const auto bytes = std::as_bytes(std::span(payload_));
        listener->Send(
            {fetch->transfer, payload_.size(), 0, HashOf(bytes), bytes.first(kPieceBytes)});
        listener.reset();
        fake.reset();
      },
      /*wait_us=*/2'000'000);
  EXPECT_FALSE(found) << "nobody has it any more";
  EXPECT_EQ(reader->direct_counts().failed_fetches, 1u);
  ASSERT_TRUE(PollUntil(*owner, [&] { return !notices.empty(); }));
  EXPECT_EQ(notices[0].kind, Notice::Kind::kLost);
  EXPECT_EQ(notices[0].key, kHostileTile);
}

TEST_P(HostilePeer, ATicketIsForOneReaderAndOneKey) {
  const auto holder = Make("holder"), reader = Make("reader");
  Keep(*holder, kHostileTile, payload_);
  const Place place = PlaceFor(*reader);
  const FetchFrame good{1, place.ticket, 1 << 20, IdOf("reader"), kHostileTile};
  FetchFrame fetch = good;
  fetch.reader = IdOf("thief");
  EXPECT_TRUE(IsRefused(AnswerTo(*holder, place, "reader", fetch)));
  fetch = good;
  fetch.key = Key{"open", 2};
  EXPECT_TRUE(IsRefused(AnswerTo(*holder, place, "reader", fetch)));
  fetch = good;
  fetch.ticket[9] = static_cast<char>(fetch.ticket[9] ^ 4);
  EXPECT_TRUE(IsRefused(AnswerTo(*holder, place, "reader", fetch)));
  std::uint64_t refused = 3;
  if (GetParam()) {  // stolen by a client with another key
    EXPECT_TRUE(IsRefused(AnswerTo(*holder, place, "thief", good)));
    ++refused;
  }
  EXPECT_FALSE(IsRefused(AnswerTo(*holder, place, "reader", good)));
  EXPECT_TRUE(
      PollUntil(*holder, [&] { return holder->direct_counts().refused_tickets == refused; }));
}

TEST_P(HostilePeer, AHolderServesOnWhateverPeersSend) {
  const auto holder = Make("holder"), reader = Make("reader");
  Keep(*holder, kHostileTile, payload_);
  const Place place = PlaceFor(*reader);
  std::vector<zmq::socket_t> hostile;
  for (int i = 0; i < 12; ++i) {
    hostile.push_back(MakeDealer(context_, place.endpoint, KeysAt(place, "thief")));
  }
  const FetchFrame good{1, place.ticket, 1 << 20, IdOf("reader"), kHostileTile};
  const auto send = [](zmq::socket_t& to, const std::string& bytes, bool more = false) {
    const auto flags =
        zmq::send_flags::dontwait | (more ? zmq::send_flags::sndmore : zmq::send_flags::none);
    static_cast<void>(to.send(zmq::buffer(bytes), flags));
  };
  for (int round = 0; round < 200; ++round) {
    FetchFrame forged = good;
    forged.ticket[20] = static_cast<char>(round);
    forged.transfer = static_cast<std::uint64_t>(round);
    const std::vector<std::byte> frame = EncodePeer(forged);
    const std::string fetch(reinterpret_cast<const char*>(frame.data()), frame.size());
    for (std::size_t i = 0; i < hostile.size(); ++i) {
      if (i % 4 == 0) send(hostile[i], fetch);
      if (i % 4 == 1) send(hostile[i], std::string(static_cast<std::size_t>(round), 'g'));
      if (i % 4 == 2) {
        send(hostile[i], fetch, /*more=*/true);
        send(hostile[i], fetch);
      }
      if (i % 4 == 3) send(hostile[i], std::string(3 << 20, 'l'));  // over the limit
    }
    holder->Poll(std::chrono::microseconds(0));
  }
  hostile.resize(6);  // the others end in the middle of what they were doing
  const auto found = Fetch(*reader, {holder.get()}, {Named(kHostileTile)});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->payload.text(), payload_);
  EXPECT_EQ(reader->direct_counts().fetched_payloads, 1u);
  EXPECT_GT(holder->direct_counts().refused_tickets + holder->direct_counts().malformed, 0u);
}

TEST_P(HostilePeer, AListeningThatMakesNoSenseIsRefused) {
  Listening listening = At("tcp://127.0.0.1:1");
  listening.secret.resize(5);
  FakeHolder fake(broker_->endpoint(), IdOf("holder"), KeysOf("holder"), listening);
  const auto reader = Make("reader");
  EXPECT_TRUE(PollUntil(*reader, [&] { return StatsOf(*reader).counters.bad_requests == 1; }));
}

INSTANTIATE_TEST_SUITE_P(Keys, HostilePeer, ::testing::Bool(), KeysOrNot);

}  // namespace
}  // namespace tuplespace
