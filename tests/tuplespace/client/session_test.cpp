// ClientSession, the client's half of the protocol, step by step, without sockets or clock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "session_fixture.h"
#include "tuplespace/client.h"

namespace tuplespace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST_F(SessionTest, JoinsBeforeItSendsAnything) {
  const RequestId id = session_.Submit(OnePut(1), now_us_);
  EXPECT_FALSE(session_.HasOutput());
  session_.Tick(now_us_);
  EXPECT_EQ(CountEvents<RelinkWanted>(), 1);
  session_.LinkUp(now_us_);
  WelcomeIt(55);
  const ClientSession::Output output = session_.TakeOutput(now_us_);
  EXPECT_EQ(output.session, 55u);
  ASSERT_EQ(output.messages.size(), 1u);
  EXPECT_EQ(std::get<const Request*>(output.messages[0])->id, id);
  EXPECT_FALSE(session_.HasOutput());
}

TEST_F(SessionTest, AWelcomeForAnotherHelloCountsNothing) {
  session_.LinkUp(now_us_);
  const std::uint64_t nonce = TakeHello();
  session_.Receive(From(0, Welcome{nonce - 1, 5, kSilenceUs, 1 << 20, 1 << 20}), now_us_);
  EXPECT_FALSE(session_.joined());
  session_.Receive(From(0, Welcome{nonce, 6, kSilenceUs, 1 << 20, 1 << 20}), now_us_);
  EXPECT_TRUE(session_.joined());
}

TEST_F(SessionTest, RepliesOfAnEarlierSessionAreIgnored) {
  Join();
  const RequestId id = session_.Submit(OnePut(1), now_us_);
  SentIds();
  session_.Receive(From(99, Reply{id, PutReply{{PutStatus::kStored}}}), now_us_);
  EXPECT_EQ(CountEvents<Reply>(), 0);
  session_.Receive(From(100, Reply{id, PutReply{{PutStatus::kStored}}}), now_us_);
  EXPECT_EQ(CountEvents<Reply>(), 1);
  session_.Receive(From(100, Reply{id, PutReply{{PutStatus::kStored}}}), now_us_);
  EXPECT_EQ(CountEvents<Reply>(), 0);
  EXPECT_EQ(session_.unanswered(), 0u);
  EXPECT_EQ(session_.unanswered_bytes(), 0u);
}

TEST_F(SessionTest, AChangeIsUnderTheLeaseThatHeldWhenItWasSubmitted) {
  Join();
  const LeaseRef first{Key{"lead"}, 1};
  const LeaseRef second{Key{"lead"}, 2};
  session_.Submit(OnePut(1), now_us_);
  session_.ChangeUnder(first);
  session_.Submit(OnePut(2), now_us_);
  session_.Submit(Put{{PlainTuple({"k", 3}, "x")}, second}, now_us_);
  session_.ChangeUnder(second);
  session_.Submit(Retire{Pattern::Of(Key{"k"}), false}, now_us_);
  session_.ChangeUnder(std::nullopt);
  session_.Submit(OnePut(4), now_us_);
  const auto fences = [this] {
    std::vector<std::uint64_t> sent;
    for (const Request& request : SentRequests()) {
      const auto* put = std::get_if<Put>(&request.body);
      const auto& under = put != nullptr ? put->under : std::get<Retire>(request.body).under;
      sent.push_back(under ? under->fence : 0);
    }
    return sent;
  };
  EXPECT_THAT(fences(), ElementsAre(0, 1, 2, 2, 0));
  session_.LinkDown("cut", now_us_);
  session_.ChangeUnder(second);
  session_.Tick(now_us_ + 1'000'000);
  session_.LinkUp(now_us_ + 1'000'000);
  WelcomeIt(101);
  EXPECT_THAT(fences(), ElementsAre(0, 1, 2, 2, 0)) << "what is sent again stays under its lease";
}

// `Done` becomes a reply of the matching type for each request.
TEST_F(SessionTest, WhatIsDoneIsAnsweredInFull) {
  Join();
  const LeaseRef lease{Key{"k"}, 1};
  Put put = OnePut(1);
  put.tuples.push_back(PlainTuple({"k", 2}, "x"));
  const std::vector<RequestId> ids = {
      session_.Submit(std::move(put), now_us_),
      session_.Submit(Complete{lease, {PlainTuple({"r"}, "x")}}, now_us_),
      session_.Submit(Extend{lease, 1}, now_us_), session_.Submit(Hold{{Key{"k"}}, {}}, now_us_)};
  EXPECT_EQ(SentIds(), ids);
  session_.Receive(From(99, Done{ids}), now_us_);  // of an earlier session
  EXPECT_FALSE(session_.HasEvents());
  session_.Receive(From(100, Done{{ids[0], ids[1], 12345, ids[2], ids[3], ids[0]}}), now_us_);
  const std::vector<SessionEvent> events = session_.TakeEvents();
  ASSERT_EQ(events.size(), ids.size());
  const auto body = [&](std::size_t i) {
    EXPECT_EQ(std::get<Reply>(events[i]).id, ids[i]);
    return std::get<Reply>(events[i]).body;
  };
  EXPECT_THAT(std::get<PutReply>(body(0)).status,
              ElementsAre(PutStatus::kStored, PutStatus::kStored));
  const auto completed = std::get<CompleteReply>(body(1));
  EXPECT_EQ(completed.lease, LeaseStatus::kOk);
  EXPECT_THAT(completed.results, ElementsAre(PutStatus::kStored));
  EXPECT_EQ(std::get<LeaseReply>(body(2)).lease, LeaseStatus::kOk);
  EXPECT_TRUE(std::holds_alternative<Ok>(body(3)));
  EXPECT_EQ(session_.unanswered(), 0u);
}

TEST_F(SessionTest, AGetCannotBeDone) {
  Join();
  const RequestId id = session_.Submit(Get{}, now_us_);
  SentIds();
  session_.Receive(From(100, Done{{id, id}}), now_us_);
  ASSERT_TRUE(session_.failure());
  EXPECT_THAT(session_.failure()->text, HasSubstr("request 1 is said to be done"));
}

TEST_F(SessionTest, UnansweredRequestsAreSentAgainInTheirOrder) {
  Join();
  std::vector<RequestId> ids;
  for (int i = 0; i < 50; ++i) ids.push_back(session_.Submit(OnePut(i), now_us_));
  EXPECT_EQ(SentIds(), ids);
  session_.Receive(From(100, Reply{ids[10], PutReply{{PutStatus::kStored}}}), now_us_);
  ids.erase(ids.begin() + 10);
  session_.LinkDown("cable", now_us_);
  ids.push_back(session_.Submit(OnePut(50), now_us_));
  EXPECT_FALSE(session_.HasOutput());
  session_.LinkUp(now_us_);
  WelcomeIt(101);
  EXPECT_EQ(SentIds(), ids);
}

TEST_F(SessionTest, ABrokerThatForgotItIsJoinedAgain) {
  Join();
  const RequestId id = session_.Submit(OnePut(1), now_us_);
  SentIds();
  session_.Receive(From(99, HelloRequired()), now_us_);  // for an older session
  EXPECT_TRUE(session_.joined());
  session_.Receive(From(100, HelloRequired()), now_us_);
  EXPECT_FALSE(session_.joined());
  session_.Receive(From(100, HelloRequired()), now_us_);  // for another one: one Hello is enough
  WelcomeIt(101);
  EXPECT_THAT(SentIds(), ElementsAre(id));
}

TEST_F(SessionTest, WaitsShrinkByTheTimeThatPassed) {
  Get get = GetAny("t");
  get.wait_us = 5'000;
  session_.Submit(get, now_us_);
  Read read;
  read.patterns = {get.pattern};
  read.wait_us = kForeverUs;
  session_.Submit(read, now_us_);
  now_us_ += 2'000;
  Join();
  const std::vector<Request> requests = SentRequests();
  ASSERT_EQ(requests.size(), 2u);
  EXPECT_EQ(std::get<Get>(requests[0].body).wait_us, 3'000);
  EXPECT_EQ(std::get<Read>(requests[1].body).wait_us, kForeverUs);
  session_.LinkDown("cable", now_us_);
  now_us_ += 100'000;
  session_.LinkUp(now_us_);
  WelcomeIt(101);
  EXPECT_EQ(std::get<Get>(SentRequests().at(0).body).wait_us, 0);
}

TEST_F(SessionTest, ABusyBrokerIsAskedAgainToJoin) {
  session_.LinkUp(now_us_);
  const std::uint64_t first = TakeHello();
  session_.Receive(From(0, Busy()), now_us_);
  EXPECT_FALSE(session_.HasOutput());
  now_us_ = session_.NextDeadlineUs();
  session_.Tick(now_us_);
  EXPECT_GT(TakeHello(), first);
}

TEST_F(SessionTest, PingsWhenIdleAndGivesUpOnASilentBroker) {
  Join();
  EXPECT_FALSE(session_.HasOutput());
  now_us_ = session_.NextDeadlineUs();
  EXPECT_LE(now_us_, 1'000'000 + kSilenceUs / 2);
  session_.Tick(now_us_);
  ClientSession::Output output = session_.TakeOutput(now_us_);
  ASSERT_EQ(output.messages.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<Ping>(output.messages[0]));
  session_.Receive(From(100, Pong{}), now_us_);
  EXPECT_TRUE(session_.joined());

  now_us_ = session_.NextDeadlineUs();
  session_.Tick(now_us_);
  output = session_.TakeOutput(now_us_);
  ASSERT_EQ(output.messages.size(), 1u);
  now_us_ = session_.NextDeadlineUs();
  session_.Tick(now_us_);
  EXPECT_FALSE(session_.joined());
  now_us_ = session_.NextDeadlineUs();
  session_.Tick(now_us_);
  EXPECT_EQ(CountEvents<RelinkWanted>(), 1);
}

// Only a Pong has the broker's clock, which it needs to check tickets.
TEST_F(SessionTest, AsksForTheClockThoughItIsNeverIdle) {
  Join();
  int pings = 0;
  for (int second = 0; second < 300; ++second) {
    now_us_ += 1'000'000;
    const RequestId id = session_.Submit(OnePut(second), now_us_);
    session_.Tick(now_us_);
    for (const auto& message : session_.TakeOutput(now_us_).messages) {
      pings += std::holds_alternative<Ping>(message);
    }
    session_.Receive(From(100, Reply{id, PutReply{{PutStatus::kStored}}}), now_us_);
  }
  EXPECT_EQ(pings, 5);
}

// Its Ping waits behind a large message that it is sending.
TEST_F(SessionTest, APongThatItDidNotAskForShowsThatTheBrokerKnowsIt) {
  Join();
  now_us_ = session_.NextDeadlineUs();
  session_.Tick(now_us_);
  ASSERT_EQ(session_.TakeOutput(now_us_).messages.size(), 1u);  // a Ping
  now_us_ += kSilenceUs / 4;
  session_.Receive(From(100, Pong{}), now_us_);
  now_us_ += kSilenceUs - 1;
  session_.Tick(now_us_);
  EXPECT_TRUE(session_.joined());
}

// Otherwise the client would try for ever to send what a session that has ended does not say.
TEST_F(SessionTest, ThatFailsWhileAPingIsDueHasNothingToSay) {
  Join();
  now_us_ = session_.NextDeadlineUs();
  session_.Tick(now_us_);
  ASSERT_TRUE(session_.HasOutput());
  session_.ReceiveBad(RequestError{ErrorCode::kForbidden, "the key was revoked"});
  EXPECT_FALSE(session_.HasOutput());
}

// As if nobody read its full channel: the Ping that would detect that cannot be sent.
TEST_F(SessionTest, GivesUpOnABrokerThatTakesNothing) {
  Join();
  now_us_ = session_.NextDeadlineUs();
  session_.Tick(now_us_);  // a Ping is due but does not leave
  ASSERT_TRUE(session_.HasOutput());
  const std::int64_t due_us = now_us_;
  EXPECT_EQ(session_.NextDeadlineUs(), due_us + kSilenceUs);

  now_us_ = due_us + kSilenceUs / 2;  // some earlier output has left
  session_.Moved(now_us_);
  now_us_ = due_us + kSilenceUs;
  session_.Tick(now_us_);
  EXPECT_TRUE(session_.joined()) << "it is only slow";
  session_.Receive(From(100, Pong{}), now_us_);
  EXPECT_EQ(session_.NextDeadlineUs(), now_us_ + kSilenceUs) << "the broker knows it";
  const std::int64_t heard_us = now_us_;
  now_us_ += kSilenceUs / 2;
  session_.Receive(From(0, Pong{}), now_us_);
  EXPECT_EQ(session_.NextDeadlineUs(), heard_us + kSilenceUs) << "it is there, which is not enough";

  now_us_ = session_.NextDeadlineUs();
  session_.Tick(now_us_);
  EXPECT_FALSE(session_.joined());
  session_.Tick(session_.NextDeadlineUs());
  EXPECT_EQ(CountEvents<RelinkWanted>(), 1);
}

TEST_F(SessionTest, APausedProcessDoesNotBlameTheBroker) {
  Join();
  now_us_ += 100 * kSilenceUs;  // it was not polled; it asked for nothing, so no answer is missing
  session_.Tick(now_us_);
  EXPECT_TRUE(session_.joined());
  EXPECT_TRUE(session_.HasOutput());  // a Ping
}

TEST_F(SessionTest, LinksThatBreakAtOnceAreTriedMoreAndMoreSlowly) {
  std::vector<std::int64_t> delays_us;
  for (int i = 0; i < 10; ++i) {
    session_.LinkUp(now_us_);
    session_.LinkDown("refused", now_us_);
    delays_us.push_back(session_.NextDeadlineUs() - now_us_);
    now_us_ = session_.NextDeadlineUs();
    session_.Tick(now_us_);
    EXPECT_EQ(CountEvents<RelinkWanted>(), 1);
  }
  EXPECT_EQ(delays_us.front(), 0);
  EXPECT_EQ(delays_us[1], 10'000);
  EXPECT_EQ(delays_us.back(), 1'000'000);
}

TEST_F(SessionTest, AHelloWithoutAnswerLeadsToANewLink) {
  session_.LinkUp(now_us_);
  TakeHello();
  now_us_ = session_.NextDeadlineUs();
  session_.Tick(now_us_);
  now_us_ = session_.NextDeadlineUs();
  session_.Tick(now_us_);
  EXPECT_EQ(CountEvents<RelinkWanted>(), 1);
}

// Another connection may have the client's id.
TEST_F(SessionTest, HellosThatABrokerIgnoresAreCounted) {
  const auto ignore = [&](bool established) {
    session_.LinkUp(now_us_);
    if (established) session_.LinkEstablished(now_us_);
    TakeHello();
    now_us_ = session_.NextDeadlineUs();
    session_.Tick(now_us_);
  };
  for (int i = 0; i < 10; ++i) ignore(false);
  EXPECT_FALSE(session_.TakeIgnored()) << "nobody was there";
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(session_.TakeIgnored()) << i;
    ignore(true);
  }
  EXPECT_TRUE(session_.TakeIgnored());
  EXPECT_FALSE(session_.TakeIgnored()) << "it counts anew";
  for (int i = 0; i < 3; ++i) ignore(true);
  session_.LinkUp(now_us_);
  session_.LinkEstablished(now_us_);
  TakeHello();
  session_.Receive(From(0, RequestError{ErrorCode::kBusy, "full"}), now_us_);
  ignore(true);
  EXPECT_FALSE(session_.TakeIgnored()) << "that was an answer";
}

// A connection takes a round trip, its handshake with keys up to four, and the Welcome another one.
TEST_F(SessionTest, JoinsOverALinkWithARoundTripOfSeconds) {
  constexpr std::int64_t kRoundTripUs = 1'900'000;
  // Whether the attempt goes on until then.
  const auto lasts_until = [&](std::int64_t until_us) {
    const bool lasts = session_.NextDeadlineUs() > until_us;
    now_us_ = std::min(until_us, session_.NextDeadlineUs());
    session_.Tick(now_us_);
    return lasts;
  };
  for (int attempt = 0; attempt < 10 && !session_.joined(); ++attempt) {
    const std::int64_t begin_us = now_us_;
    session_.LinkUp(begin_us);
    const std::uint64_t nonce = TakeHello();
    if (!lasts_until(begin_us + kRoundTripUs)) continue;
    session_.LinkReached(now_us_);
    if (!lasts_until(begin_us + 5 * kRoundTripUs)) continue;
    session_.LinkEstablished(now_us_);
    if (!lasts_until(begin_us + 6 * kRoundTripUs)) continue;
    session_.Receive(From(0, Welcome{nonce, 100, kSilenceUs, 1 << 20, 1 << 20}), now_us_);
  }
  EXPECT_TRUE(session_.joined());
  EXPECT_FALSE(session_.TakeIgnored()) << "no Welcome was missing where the handshake succeeded";
}

TEST_F(SessionTest, WhereNothingAcceptsTheConnectionItWaitsForFiveSeconds) {
  for (int i = 0; i < 6; ++i) {
    session_.LinkUp(now_us_);
    session_.LinkReached(now_us_);
    TakeHello();
    now_us_ = session_.NextDeadlineUs();
    session_.Tick(now_us_);
  }
  session_.LinkUp(now_us_);
  EXPECT_EQ(session_.NextDeadlineUs() - now_us_, 5'000'000) << "as another place may have a broker";
  session_.LinkReached(now_us_);
  EXPECT_EQ(session_.NextDeadlineUs() - now_us_, 20'000'000);
}

TEST_F(SessionTest, OtherVersionsEndIt) {
  session_.LinkUp(now_us_);
  TakeHello();
  session_.Receive(From(0, RequestError{ErrorCode::kVersion, "2 is not 1"}), now_us_);
  ASSERT_TRUE(session_.failure());
  EXPECT_EQ(session_.failure()->code, ErrorCode::kVersion);
  EXPECT_EQ(session_.NextDeadlineUs(), kForeverUs);
  EXPECT_FALSE(session_.HasOutput());
}

TEST_F(SessionTest, WhatTheBrokerDoesNotTakeIsRefusedHere) {
  session_.LinkUp(now_us_);
  session_.Receive(From(0, Welcome{TakeHello(), 100, kSilenceUs, 10'000, 1'000}), now_us_);
  session_.TakeEvents();
  const RequestId large =
      session_.Submit(Put{{PlainTuple({"a"}, std::string(1'001, 'x'))}}, now_us_);
  const RequestId fits =
      session_.Submit(Put{{PlainTuple({"b"}, std::string(1'000, 'x'))}}, now_us_);
  Put many;
  for (int i = 0; i < 1000; ++i) many.tuples.push_back(PlainTuple({"c", i}, ""));
  const RequestId wide = session_.Submit(many, now_us_);
  EXPECT_THAT(SentIds(), ElementsAre(fits));
  std::map<RequestId, RequestError> errors;
  for (SessionEvent& event : session_.TakeEvents()) {
    const auto& reply = std::get<Reply>(event);
    errors[reply.id] = std::get<RequestError>(reply.body);
  }
  ASSERT_EQ(errors.size(), 2u);
  EXPECT_EQ(errors[large].code, ErrorCode::kTooLarge);
  EXPECT_THAT(errors[large].text, HasSubstr("1001 bytes"));
  EXPECT_EQ(errors[wide].code, ErrorCode::kTooLarge);
  EXPECT_THAT(errors[wide].text, HasSubstr("10000"));
}

TEST_F(SessionTest, KeepsNoMoreThanItsLimit) {
  SessionOptions options;
  options.unanswered_bytes = 10'000;
  ClientSession session(options);
  session.Submit(Put{{PlainTuple({"a"}, std::string(8'000, 'x'))}}, now_us_);
  try {
    session.Submit(Put{{PlainTuple({"b"}, std::string(8'000, 'x'))}}, now_us_);
    FAIL() << "it was kept";
  } catch (const SpaceError& error) {
    EXPECT_EQ(error.code(), ErrorCode::kBusy);
    EXPECT_THAT(error.what(), HasSubstr("unanswered_bytes = 10000"));
  }
  EXPECT_EQ(session.unanswered(), 1u);
  // The limit does not end operations that have begun.
  Read read;
  for (std::int64_t i = 0; i < 500; ++i) read.patterns.push_back(Pattern::Of(Key{"k", i}));
  EXPECT_THROW(session.Submit(read, now_us_), SpaceError);
  session.ReadAgain(std::move(read), now_us_);
  EXPECT_EQ(session.unanswered(), 2u);
}

TEST_F(SessionTest, LateGrantsOfAnAbandonedGetArePutBack) {
  Join();
  const RequestId id = session_.Submit(GetAny("t"), now_us_);
  SentIds();
  session_.Abandon(id, now_us_);
  EXPECT_EQ(session_.unanswered(), 0u);
  std::vector<Request> sent = SentRequests();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(std::get<Cancel>(sent[0].body).request, id);
  Grants grants;
  grants.grants.resize(1);
  grants.grants[0].key = Key{"t", 1};
  grants.grants[0].fence = 9;
  session_.Receive(From(100, Reply{id, grants}), now_us_);
  EXPECT_EQ(CountEvents<Reply>(), 0);
  sent = SentRequests();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(std::get<Release>(sent[0].body).lease.fence, 9u);
}

TEST_F(SessionTest, ARequestAbandonedBeforeItWasSentIsForgotten) {
  Join();
  session_.Abandon(session_.Submit(GetAny("t"), now_us_), now_us_);
  EXPECT_THAT(SentIds(), IsEmpty());
}

TEST_F(SessionTest, AReplacedGetIsClosedWithItsFirstAnswer) {
  Join();
  const RequestId id = session_.Submit(GetAny("t"), now_us_);
  SentIds();
  Get other = GetAny("t");
  other.offer_bytes = 5;
  session_.Replace(id, other, now_us_);
  std::vector<Request> sent = SentRequests();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(sent[0].id, id);
  EXPECT_EQ(std::get<Get>(sent[0].body).offer_bytes, 5u);
  session_.Receive(From(100, Reply{id, Grants{}}), now_us_);
  EXPECT_EQ(CountEvents<Reply>(), 1);
  sent = SentRequests();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_EQ(std::get<Cancel>(sent[0].body).request, id);
  session_.Replace(id, other, now_us_);  // too late: nothing happens
  EXPECT_THAT(SentIds(), IsEmpty());
}

TEST_F(SessionTest, LeavingSaysBye) {
  Join();
  session_.Leave();
  const ClientSession::Output output = session_.TakeOutput(now_us_);
  EXPECT_EQ(output.session, 100u);
  ASSERT_EQ(output.messages.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<Bye>(output.messages[0]));
  EXPECT_FALSE(session_.HasOutput());
}

}  // namespace
}  // namespace tuplespace
