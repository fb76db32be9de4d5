// BrokerCore, the broker's half of the protocol, without sockets or clock.
#include "broker_core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "session_messages.h"
#include "ticket.h"
#include "tuplespace/client.h"
#include "wire.h"

namespace tuplespace {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(BrokerCoreTest, OneHelloTwiceIsOneSession) {
  BrokerCore core{BrokerCoreOptions{}};
  const std::uint64_t session = JoinCore(core, "a", 0);
  EXPECT_NE(session, 0u);
  EXPECT_EQ(JoinCore(core, "a", 1), session);
  EXPECT_NE(JoinCore(core, "a", 2, /*nonce=*/2), session);
  EXPECT_EQ(core.GetStatistics().clients, 1u);
}

// Clients that come and go leave them there.
TEST(BrokerCoreTest, TheSpaceBeginsWithItsFirstTuples) {
  BrokerCoreOptions options;
  options.first_tuples = {Key{"lock", 1}, Key{"lock", 2}};
  BrokerCore core{options};
  EXPECT_EQ(core.GetStatistics().tuples, 2u);
  EXPECT_EQ(core.GetStatistics().clients, 0u);
  Get get;
  get.pattern = Pattern::Of(Key{"lock", 2});
  const std::uint64_t session = JoinCore(core, "a", 0);
  core.Receive("a", To(session, Request{1, get}), 0);
  EXPECT_EQ(core.TakeOutput().size(), 1u);
  core.Lost("a", "it left", 1);
  EXPECT_EQ(core.GetStatistics().tuples, 2u);
}

TEST(BrokerCoreTest, AHelloThatWasOvertakenEndsNoSession) {
  BrokerCore core{BrokerCoreOptions{}};
  EXPECT_NE(JoinCore(core, "a", 0, /*nonce=*/UINT64_MAX), 0u);
  const std::uint64_t session = JoinCore(core, "a", 1, /*nonce=*/3);
  EXPECT_NE(session, 0u);  // nonces may wrap around
  EXPECT_EQ(JoinCore(core, "a", 2, /*nonce=*/2), 0u);
  EXPECT_EQ(JoinCore(core, "a", 3, /*nonce=*/UINT64_MAX), 0u);
  EXPECT_EQ(JoinCore(core, "a", 4, /*nonce=*/3), session);
  // Another process, whose nonces begin elsewhere.
  EXPECT_NE(JoinCore(core, "a", 5, /*nonce=*/3 - (1ull << 40)), 0u);
}

TEST(BrokerCoreTest, AnEnvelopeHasOneHello) {
  BrokerCore core{BrokerCoreOptions{}};
  ToBroker envelope;
  for (std::uint64_t nonce = 1; nonce <= 100; ++nonce) {
    envelope.messages.emplace_back(Hello{nonce, "n"});
  }
  core.Receive("a", std::move(envelope), 0);
  const auto output = core.TakeOutput();
  ASSERT_EQ(output.size(), 1u);
  ASSERT_EQ(output[0].envelope.messages.size(), 1u);
  EXPECT_EQ(std::get<Welcome>(output[0].envelope.messages[0]).nonce, 1u);
  EXPECT_EQ(core.TakeEnded().size(), 0u);
  EXPECT_EQ(core.GetStatistics().counters.bad_requests, 99u);
  EXPECT_EQ(core.TakeLog().size(), 2u) << "it joined, and said too much";
}

TEST(BrokerCoreTest, AnEnvelopeHasOnePong) {
  BrokerCore core{BrokerCoreOptions{}};
  ToBroker envelope;
  envelope.session = JoinCore(core, "a", 0);
  for (int i = 0; i < 100; ++i) envelope.messages.emplace_back(Ping{});
  core.Receive("a", std::move(envelope), 0);
  const auto output = core.TakeOutput();
  ASSERT_EQ(output.size(), 1u);
  EXPECT_EQ(output[0].envelope.messages.size(), 1u);
}

TEST(BrokerCoreTest, WhoSaysNothingThatMakesSenseIsLost) {
  BrokerCore core{BrokerCoreOptions{}};
  for (const int bad : {64, 65}) {
    ToBroker envelope;
    envelope.session = JoinCore(core, "a", 0);
    for (int i = 0; i < bad; ++i) envelope.messages.emplace_back(Malformed{7, "op 9"});
    core.Receive("a", std::move(envelope), 0);
    core.TakeOutput();
    EXPECT_EQ(core.GetStatistics().clients, bad == 64 ? 1u : 0u);
  }
  EXPECT_THAT(core.TakeLog(), Contains(HasSubstr("more than 64 malformed messages")));
}

// Ids appear in logs, messages and files.
TEST(BrokerCoreTest, IdsThatNobodyCanReadAreRefused) {
  BrokerCore core{BrokerCoreOptions{}};
  for (const char* id : {"a\nb", "\x1b[31m", "\xff", "a\x7f"}) {
    EXPECT_EQ(JoinCore(core, id, 0), 0u) << id;
  }
  EXPECT_EQ(core.GetStatistics().clients, 0u);
  EXPECT_NE(JoinCore(core, "key.name-1/x_y", 0), 0u);
}

TEST(BrokerCoreTest, JoiningAgainAndAgainIsLoggedRarely) {
  BrokerCore core{BrokerCoreOptions{}};
  std::uint64_t session = 0;
  for (std::uint64_t nonce = 1; nonce <= 100; ++nonce) {
    session = JoinCore(core, "a", static_cast<std::int64_t>(nonce), nonce);
  }
  EXPECT_THAT(core.TakeLog(), ElementsAre(HasSubstr("joined"), HasSubstr("it joined again")));
  for (std::uint64_t nonce = 101; nonce <= 200; ++nonce) {
    core.Receive("a", To(session, Bye{}), 200);
    session = JoinCore(core, "a", 200, nonce);
  }
  EXPECT_THAT(core.TakeLog(), IsEmpty());
  EXPECT_NE(JoinCore(core, "a", 20'000'000, 201), 0u);
  EXPECT_EQ(core.TakeLog().size(), 1u);
}

TEST(BrokerCoreTest, UnknownSessionsAreAskedToJoinOnceForAnEnvelope) {
  BrokerCore core{BrokerCoreOptions{}};
  ToBroker envelope;
  envelope.session = 3;
  for (RequestId id = 1; id < 10; ++id) envelope.messages.emplace_back(Request{id, OnePut(1)});
  core.Receive("stranger", std::move(envelope), 0);
  const auto output = core.TakeOutput();
  ASSERT_EQ(output.size(), 1u);
  EXPECT_EQ(output[0].envelope.session, 3u);
  ASSERT_EQ(output[0].envelope.messages.size(), 1u);
  EXPECT_EQ(std::get<RequestError>(output[0].envelope.messages[0]).code, ErrorCode::kHelloRequired);
  EXPECT_EQ(core.GetStatistics().tuples, 0u);
}

// ---- places of payloads that stay with clients

class PlacesOfBroker : public ::testing::Test {
 protected:
  // "holder" joins, listens and keeps the payload of `key_`.
  void Begin() {
    holder_ = JoinCore(core_, "holder", kNowUs);
    ToBroker envelope = To(holder_, Listening{"tcp://127.0.0.1:5", "", secret_});
    Tuple tuple;
    tuple.key = key_;
    tuple.resident_bytes = 100;
    envelope.messages.emplace_back(Request{1, Put{{tuple}}});
    core_.Receive("holder", std::move(envelope), kNowUs);
    core_.TakeOutput();
  }
  std::shared_ptr<const Place> PlaceFor(const ClientId& reader) {
    const std::uint64_t session = JoinCore(core_, reader, kNowUs);
    Read read{{Pattern::Of(key_)}};
    read.direct = true;
    core_.Receive(reader, To(session, Request{1, std::move(read)}), kNowUs);
    for (const auto& delivery : core_.TakeOutput()) {
      for (const BrokerMessage& message : delivery.envelope.messages) {
        const auto* reply = std::get_if<Reply>(&message);
        const auto* found = reply == nullptr ? nullptr : std::get_if<Found>(&reply->body);
        if (found != nullptr && !found->tuples.empty()) return found->tuples[0].place;
      }
    }
    return nullptr;
  }
  static constexpr std::int64_t kNowUs = 1'000'000;
  const Key key_{"tile", 1};
  const std::string secret_ = MakeTicketSecret();
  static BrokerCoreOptions ShortTickets() {
    BrokerCoreOptions options;
    options.ticket_us = 5'000'000;
    return options;
  }
  BrokerCore core_{ShortTickets()};
  std::uint64_t holder_ = 0;
};

TEST_F(PlacesOfBroker, AReaderGetsATicketOfItsOwnForAWhile) {
  Begin();
  const auto place = PlaceFor("reader");
  ASSERT_TRUE(place);
  EXPECT_EQ(place->endpoint, "tcp://127.0.0.1:5");
  const TicketClaims claims{holder_, "reader", "", key_.bytes()};
  EXPECT_EQ(CheckTicket(secret_, place->ticket, claims, kNowUs + 4'999'999), TicketVerdict::kGood);
  EXPECT_EQ(CheckTicket(secret_, place->ticket, claims, kNowUs + 5'000'000),
            TicketVerdict::kExpired);
  EXPECT_NE(PlaceFor("other")->ticket, place->ticket);
}

TEST_F(PlacesOfBroker, AWelcomeAndAPongTellTheBrokersClock) {
  core_.Receive("a", To(0, Hello{1, "a"}), 77);
  const auto welcome = core_.TakeOutput();
  const auto& message = std::get<Welcome>(welcome.at(0).envelope.messages.at(0));
  EXPECT_EQ(message.broker_us, 77);
  core_.Receive("a", To(message.session, Ping{}), 99);
  EXPECT_EQ(std::get<Pong>(core_.TakeOutput().at(0).envelope.messages.at(0)).broker_us, 99);
}

TEST_F(PlacesOfBroker, ASecretOfAnotherSizeOrNoTcpIsRefused) {
  holder_ = JoinCore(core_, "holder", kNowUs);
  core_.Receive("holder", To(holder_, Listening{"tcp://127.0.0.1:5", "", "short"}), kNowUs);
  core_.Receive("holder", To(holder_, Listening{"ipc:///tmp/x", "", secret_}), kNowUs);
  EXPECT_EQ(core_.GetStatistics().counters.bad_requests, 2u);
  Begin();
  EXPECT_TRUE(PlaceFor("reader"));
}

// Readers would keep a connection to each place that a hostile holder names.
TEST_F(PlacesOfBroker, AHolderNamesOnePlaceInASession) {
  Begin();
  core_.Receive("holder", To(holder_, Listening{"tcp://127.0.0.1:6", "", secret_}), kNowUs);
  EXPECT_EQ(core_.GetStatistics().counters.bad_requests, 1u);
  const auto place = PlaceFor("reader");
  ASSERT_TRUE(place);
  EXPECT_EQ(place->endpoint, "tcp://127.0.0.1:5");
}

TEST_F(PlacesOfBroker, APublicKeyWithoutKeysIsNotPassedOn) {
  holder_ = JoinCore(core_, "holder", kNowUs);
  core_.Receive("holder", To(holder_, Listening{"tcp://127.0.0.1:5", "a key", secret_}), kNowUs);
  Tuple tuple;
  tuple.key = key_;
  tuple.resident_bytes = 100;
  core_.Receive("holder", To(holder_, Request{1, Put{{tuple}}}), kNowUs);
  core_.TakeOutput();
  EXPECT_FALSE(PlaceFor("reader"));
}

// A plain acknowledgement shares one message with the plain acknowledgements just before it.
TEST(BrokerCoreTest, PlainAcknowledgementsTravelTogether) {
  BrokerCore core{BrokerCoreOptions{}};
  ToBroker envelope;
  envelope.session = JoinCore(core, "a", 0);
  for (RequestId id = 1; id < 4; ++id) {
    envelope.messages.emplace_back(Request{id, OnePut(static_cast<int>(id))});
  }
  envelope.messages.emplace_back(Request{4, OnePut(1)});  // a duplicate
  envelope.messages.emplace_back(Request{5, Hold{}});
  envelope.messages.emplace_back(Request{6, Extend{{Key{"k"}, 1}, 1}});  // stale
  core.Receive("a", std::move(envelope), 1);
  const auto output = core.TakeOutput();
  ASSERT_EQ(output.size(), 1u);
  const auto& messages = output[0].envelope.messages;
  ASSERT_EQ(messages.size(), 4u);
  EXPECT_THAT(std::get<Done>(messages[0]).requests, ElementsAre(1, 2, 3));
  const auto& duplicate = std::get<Reply>(messages[1]);
  EXPECT_EQ(duplicate.id, 4u);
  EXPECT_THAT(std::get<PutReply>(duplicate.body).status, ElementsAre(PutStatus::kDuplicate));
  EXPECT_THAT(std::get<Done>(messages[2]).requests, ElementsAre(5));
  EXPECT_EQ(std::get<LeaseReply>(std::get<Reply>(messages[3]).body).lease, LeaseStatus::kStale);
}

TEST(BrokerCoreTest, SilentClientsAreLostAndTalkingOnesAreNot) {
  BrokerCore core{BrokerCoreOptions{}};
  JoinCore(core, "silent", 0);
  const std::uint64_t session = JoinCore(core, "talking", 0);
  std::int64_t now_us = 0;
  while (now_us < 2 * kSilenceUs) {
    now_us = core.NextDeadlineUs();
    core.Receive("talking", To(session, Ping{}), now_us);
    core.Tick(now_us);
    core.TakeOutput();
  }
  EXPECT_THAT(core.Clients(), ElementsAre("talking"));
  const auto log = core.TakeLog();
  EXPECT_THAT(log.back(), HasSubstr("silent"));
}

// ---- a message that is arriving -----------------------------------------------------------------

constexpr std::uint64_t kPart = 1 << 20;

// Counts the Pongs in the next output for `client`, which has nothing else.
std::size_t PongsFor(BrokerCore& core, const ClientId& client) {
  std::size_t pongs = 0;
  for (const auto& delivery : core.TakeOutput()) {
    EXPECT_EQ(delivery.client, client);
    for (const BrokerMessage& message : delivery.envelope.messages) {
      EXPECT_TRUE(std::holds_alternative<Pong>(message));
      ++pongs;
    }
  }
  return pongs;
}

// Its Pings wait behind the message.
TEST(BrokerCoreTest, WhoSendsALargeMessageHearsThatTheBrokerHearsIt) {
  BrokerCore core{BrokerCoreOptions{}};
  JoinCore(core, "a", 0);
  EXPECT_FALSE(core.Heard("b", kPart, 0)) << "it has not joined";
  std::int64_t heard_us = 0;
  for (std::int64_t now_us = 0; now_us < 5 * kSilenceUs; now_us += kSilenceUs / 50) {
    ASSERT_TRUE(core.Heard("a", kPart, now_us));
    core.Tick(now_us);
    if (PongsFor(core, "a") > 0) heard_us = now_us;
    ASSERT_LE(now_us - heard_us, kSilenceUs / 4);
  }
}

TEST(BrokerCoreTest, PartsGetNoMorePongsThanPings) {
  BrokerCore core{BrokerCoreOptions{}};
  const std::uint64_t session = JoinCore(core, "a", 0);
  std::size_t pongs = 0;
  for (std::int64_t now_us = 0; now_us < kSilenceUs; now_us += kSilenceUs / 1000) {
    core.Heard("a", 25, now_us);
    pongs += PongsFor(core, "a");
  }
  EXPECT_LE(pongs, 4u);
  core.Receive("a", To(session, Ping{}), kSilenceUs);
  EXPECT_EQ(PongsFor(core, "a"), 1u);
  core.Heard("a", 25, kSilenceUs + kSilenceUs / 5);
  EXPECT_EQ(PongsFor(core, "a"), 0u) << "it was answered not long ago";
}

// A client that has a lock and begins to send a large message.
class LockOfSender : public ::testing::Test {
 protected:
  static constexpr std::int64_t kLeaseUs = 1'000'000;

  LockOfSender() {
    const std::uint64_t session = JoinCore(core_, "a", 0);
    ToBroker envelope = To(session, Request{1, Put{{PlainTuple({"lock"}, "")}}});
    Get get = GetAny("lock");
    get.lease_us = kLeaseUs;
    envelope.messages.emplace_back(Request{2, get});
    core_.Receive("a", std::move(envelope), 0);
    core_.TakeOutput();
  }
  // Receives parts at this rate for `for_us`.
  void Send(std::uint64_t bytes_per_s, std::uint64_t bytes_of_part, std::int64_t for_us) {
    const auto pause_us = static_cast<std::int64_t>(1'000'000 * bytes_of_part / bytes_per_s);
    for (const std::int64_t end_us = now_us_ + for_us; now_us_ < end_us;) {
      now_us_ += pause_us;
      core_.Heard("a", bytes_of_part, now_us_);
      core_.Tick(now_us_);
      core_.TakeOutput();
    }
  }
  bool IsHeld() const { return core_.GetStatistics().counters.leases_expired == 0; }

  BrokerCore core_{BrokerCoreOptions{}};
  std::int64_t now_us_ = 0;
};

TEST_F(LockOfSender, IsKeptUntilTheMessageIsThere) {
  Send(3'000'000, kPart, 60 * kLeaseUs);
  EXPECT_TRUE(IsHeld());
  core_.Tick(now_us_ + 2 * kLeaseUs);
  EXPECT_FALSE(IsHeld()) << "nothing comes any more";
}

TEST_F(LockOfSender, IsKeptAlsoIfPartsAreSmall) {
  Send(200'000, 1'000, 60 * kLeaseUs);
  EXPECT_TRUE(IsHeld());
}

TEST_F(LockOfSender, IsNotKeptByATrickle) {
  Send(20'000, 1'000, 2 * kLeaseUs);
  EXPECT_FALSE(IsHeld());
}

TEST(BrokerCoreTest, ClientsAreLimited) {
  BrokerCoreOptions options;
  options.limits.clients = 2;
  BrokerCore core(options);
  EXPECT_NE(JoinCore(core, "a", 0), 0u);
  EXPECT_NE(JoinCore(core, "b", 0), 0u);
  core.Receive("c", To(0, Hello{1, ""}), 0);
  const auto output = core.TakeOutput();
  ASSERT_EQ(output.size(), 1u);
  const auto& error = std::get<RequestError>(output[0].envelope.messages.at(0));
  EXPECT_EQ(error.code, ErrorCode::kBusy);
  EXPECT_THAT(error.text, HasSubstr("clients = 2"));
  core.Lost("a", "test", 0);
  EXPECT_NE(JoinCore(core, "c", 0), 0u);
}

// With its usual limits the space never grants that much at once.
TEST(BrokerCoreTest, GrantsThatCannotBeSentGoBack) {
  constexpr std::uint32_t kInputs = 4096;
  constexpr std::uint32_t kMostTasks = kMaxPayloadFrames / kInputs;
  BrokerCoreOptions options;
  options.turn_cost = 2 * kInputs;
  options.limits.granted_tuples = UINT64_MAX;
  BrokerCore core{options};
  const std::uint64_t session = JoinCore(core, "a", 0);
  Put data;
  std::vector<Key> inputs;
  for (std::uint32_t i = 0; i < kInputs; ++i) {
    Tuple& tuple = data.tuples.emplace_back();
    tuple.key = inputs.emplace_back(Key{"x", i});
    tuple.payload = Payload::Copy(std::string(kInlinePayloadBytes + 1, 'x'));
  }
  core.Receive("a", To(session, Request{1, std::move(data)}), 0);
  Put tasks;
  for (std::uint32_t i = 0; i <= kMostTasks; ++i) {
    Tuple& tuple = tasks.tuples.emplace_back();
    tuple.key = Key{"t", i};
    tuple.task.emplace();
    tuple.task->inputs = inputs;
  }
  core.Receive("a", To(session, Request{2, std::move(tasks)}), 0);
  const auto ask = [&](RequestId id, std::uint32_t count) {
    core.TakeOutput();
    Get get;
    get.pattern = {{FieldPattern::Exact("t"), FieldPattern::Any()}, false};
    get.max_count = count;
    get.with_inputs = true;
    core.Receive("a", To(session, Request{id, get}), 0);
    const auto output = core.TakeOutput();
    return std::get<Reply>(output.at(0).envelope.messages.at(0)).body;
  };
  const std::uint64_t cost_before = core.PeerOf("a")->cost;
  EXPECT_EQ(std::get<RequestError>(ask(3, kMostTasks + 1)).code, ErrorCode::kTooLarge);
  EXPECT_GE(core.PeerOf("a")->cost, cost_before + kMostTasks / 4) << "its pattern moved all tasks";
  EXPECT_EQ(core.GetStatistics().tasks_leased, 0u);
  EXPECT_EQ(core.GetStatistics().tasks_ready, kMostTasks + 1);
  EXPECT_EQ(std::get<Grants>(ask(4, kMostTasks)).grants.size(), kMostTasks);
  EXPECT_EQ(core.FindContradiction(), std::nullopt);
}

// The client may have been paused, and the broker no longer reads its channel.
TEST(BrokerCoreTest, AClientThatIsLostIsToldSo) {
  BrokerCoreOptions options;
  options.client_silence_us = 1000;
  BrokerCore core{options};
  const std::uint64_t session = JoinCore(core, "a", 0);
  core.Tick(5000);
  EXPECT_FALSE(core.Knows("a"));
  const auto output = core.TakeOutput();
  ASSERT_EQ(output.size(), 1u);
  EXPECT_EQ(output[0].client, "a");
  EXPECT_EQ(output[0].envelope.session, session);
  const auto& error = std::get<RequestError>(output[0].envelope.messages.at(0));
  EXPECT_EQ(error.code, ErrorCode::kHelloRequired);
  EXPECT_THAT(error.text, HasSubstr("silent for"));
}

// An answer outside its session would be lost where others wait for the client already.
TEST(BrokerCoreTest, AMessageThatCannotBeReadIsAnsweredInItsSession) {
  BrokerCore core{BrokerCoreOptions{}};
  const std::uint64_t session = JoinCore(core, "a", 0);
  core.TakeOutput();
  core.ReceiveBad("a", {ErrorCode::kBadRequest, "garbage"}, 1);
  core.ReceiveBad("b", {ErrorCode::kBadRequest, "garbage"}, 1);
  std::map<ClientId, std::uint64_t> sessions;
  for (const auto& delivery : core.TakeOutput()) {
    ASSERT_TRUE(std::holds_alternative<RequestError>(delivery.envelope.messages.at(0)));
    sessions[delivery.client] = delivery.envelope.session;
  }
  EXPECT_EQ(sessions, (std::map<ClientId, std::uint64_t>{{"a", session}, {"b", 0}}));
}

TEST(BrokerCoreTest, BadMessagesAreCountedAndLoggedRarely) {
  BrokerCore core{BrokerCoreOptions{}};
  const std::uint64_t session = JoinCore(core, "bad", 0);
  core.TakeLog();
  for (int i = 0; i < 1000; ++i) {
    core.ReceiveBad("bad", {ErrorCode::kBadRequest, "garbage"}, i);
    core.Receive("bad", To(session, Malformed{4, "no key"}), i);
  }
  EXPECT_EQ(core.GetStatistics().counters.bad_requests, 2000u);
  EXPECT_EQ(core.TakeLog().size(), 1u);
  bool answered = false;
  for (const auto& delivery : core.TakeOutput()) {
    for (const BrokerMessage& message : delivery.envelope.messages) {
      const auto* reply = std::get_if<Reply>(&message);
      answered |= reply != nullptr && reply->id == 4 &&
                  std::get<RequestError>(reply->body).code == ErrorCode::kBadRequest;
    }
  }
  EXPECT_TRUE(answered);
}

}  // namespace
}  // namespace tuplespace
