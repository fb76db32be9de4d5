// ClientSession, the client's half of the protocol, step by step, without sockets or clock.
#include "client_session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "session_messages.h"
#include "tuplespace/client.h"
#include "wire.h"

namespace tuplespace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A session that a test drives by hand.
class SessionTest : public ::testing::Test {
 protected:
  std::uint64_t TakeHello() {
    const ClientSession::Output output = session_.TakeOutput(now_us_);
    EXPECT_EQ(output.session, 0u);
    EXPECT_EQ(output.messages.size(), 1u);
    return std::get<Hello>(output.messages.at(0)).nonce;
  }
  void WelcomeIt(std::uint64_t session = 100) {
    session_.Receive(
        From(0, Welcome{TakeHello(), session, kSilenceUs, 64u << 20, std::uint64_t{1} << 30}),
        now_us_);
    EXPECT_TRUE(session_.joined());
    session_.TakeEvents();
  }
  void Join() {
    session_.Tick(now_us_);
    session_.TakeEvents();
    session_.LinkUp(now_us_);
    WelcomeIt();
  }
  // The ids of the requests in the next output.
  std::vector<RequestId> SentIds() {
    std::vector<RequestId> ids;
    for (const auto& message : session_.TakeOutput(now_us_).messages) {
      if (const auto* request = std::get_if<const Request*>(&message))
        ids.push_back((*request)->id);
    }
    return ids;
  }
  std::vector<Request> SentRequests() {
    std::vector<Request> requests;
    for (const auto& message : session_.TakeOutput(now_us_).messages) {
      if (const auto* request = std::get_if<const Request*>(&message))
        requests.push_back(**request);
    }
    return requests;
  }
  template <typename Event>
  int CountEvents() {
    int count = 0;
    for (const SessionEvent& event : session_.TakeEvents()) {
      count += std::holds_alternative<Event>(event);
    }
    return count;
  }

  std::vector<std::string> DelaysWithin(std::int64_t wait_us, bool broker_answers_pings);

  std::int64_t now_us_ = 1'000'000;
  ClientSession session_{SessionOptions{}};
};

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

// `Done` is an answer of its own kind to each.
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
  session_.Receive(From(99, HelloRequired()), now_us_);  // on an older session
  EXPECT_TRUE(session_.joined());
  session_.Receive(From(100, HelloRequired()), now_us_);
  EXPECT_FALSE(session_.joined());
  session_.Receive(From(100, HelloRequired()), now_us_);  // to another message: one Hello is enough
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

TEST_F(SessionTest, BusyIsRetriedLaterAndLater) {
  Join();
  const RequestId id = session_.Submit(OnePut(1), now_us_);
  EXPECT_THAT(SentIds(), ElementsAre(id));
  std::vector<std::int64_t> delays_us;
  for (int i = 0; i < 13; ++i) {
    session_.Receive(From(100, Reply{id, Busy()}), now_us_);
    EXPECT_EQ(CountEvents<Reply>(), 0);
    EXPECT_FALSE(session_.HasOutput());
    // Heartbeats have deadlines of their own.
    const std::int64_t begin_us = now_us_;
    while (true) {
      now_us_ = session_.NextDeadlineUs();
      session_.Tick(now_us_);
      const auto ids = SentIds();
      session_.Receive(From(100, Pong{}), now_us_);
      if (!ids.empty()) break;
    }
    delays_us.push_back(now_us_ - begin_us);
  }
  EXPECT_THAT(delays_us, ElementsAre(1'000, 2'000, 4'000, 8'000, 16'000, 32'000, 64'000, 128'000,
                                     256'000, 512'000, 1'000'000, 1'000'000, 1'000'000));
  session_.Receive(From(100, Reply{id, PutReply{{PutStatus::kStored}}}), now_us_);
  EXPECT_EQ(CountEvents<Reply>(), 1);
}

TEST_F(SessionTest, ABrokerThatIsBusyForLongIsNamedOnce) {
  Join();
  const RequestId id = session_.Submit(OnePut(1), now_us_);
  SentIds();
  int said = 0;
  for (int i = 0; i < 14; ++i) {
    session_.Receive(From(100, Reply{id, Busy()}), now_us_);
    for (const SessionEvent& event : session_.TakeEvents()) {
      const auto* delayed = std::get_if<RequestDelayed>(&event);
      if (delayed == nullptr) continue;
      EXPECT_GT(i, 10) << "not before it was asked for a second";
      EXPECT_THAT(delayed->text, ::testing::EndsWith(Busy().text));
      ++said;
    }
    while (SentIds().empty()) {
      now_us_ = session_.NextDeadlineUs();
      session_.Tick(now_us_);
      session_.Receive(From(100, Pong{}), now_us_);
    }
  }
  EXPECT_EQ(said, 1);
}

// Ticks when they are due for so long; what was said of delays.
std::vector<std::string> SessionTest::DelaysWithin(std::int64_t wait_us,
                                                   bool broker_answers_pings) {
  std::vector<std::string> texts;
  const std::int64_t end_us = now_us_ + wait_us;
  while (now_us_ < end_us) {
    now_us_ = std::min(end_us, session_.NextDeadlineUs());
    session_.Tick(now_us_);
    const bool sent = session_.HasOutput();
    session_.TakeOutput(now_us_);
    if (sent && broker_answers_pings) session_.Receive(From(100, Pong{}), now_us_);
    for (const SessionEvent& event : session_.TakeEvents()) {
      if (std::holds_alternative<RelinkWanted>(event)) session_.LinkUp(now_us_);
      const auto* delayed = std::get_if<RequestDelayed>(&event);
      if (delayed != nullptr) texts.push_back(delayed->text);
    }
  }
  return texts;
}

TEST_F(SessionTest, WithoutABrokerWhoWaitsIsToldOnceWithinTenSeconds) {
  session_.LinkUp(now_us_);
  EXPECT_THAT(DelaysWithin(60'000'000, false), IsEmpty()) << "nobody waits";
  session_.Submit(OnePut(1), now_us_);
  EXPECT_THAT(DelaysWithin(10'000'000, false), ElementsAre(HasSubstr("requests that wait: 1")));
  EXPECT_THAT(DelaysWithin(60'000'000, false), IsEmpty());
}

TEST_F(SessionTest, ALostBrokerIsSpokenOfAgainWithinTenSeconds) {
  Join();
  session_.Submit(OnePut(1), now_us_);
  session_.LinkDown("cut", now_us_);
  EXPECT_THAT(DelaysWithin(10'000'000, false), ElementsAre(HasSubstr("no answer for")));
}

TEST_F(SessionTest, ABrokerThatDoesNotAnswerARequestIsNamedWithinTenSeconds) {
  Join();
  session_.Submit(OnePut(1), now_us_);
  EXPECT_THAT(
      DelaysWithin(10'000'000, true),
      ElementsAre(AllOf(HasSubstr("has not answered a Put"), HasSubstr("requests that wait: 1"))));
  EXPECT_THAT(DelaysWithin(60'000'000, true), SizeIs(2)) << "twice a minute";
}

// The broker sends nothing at all, which its silence will end some time later.
TEST_F(SessionTest, ASilentBrokerIsNamedBeforeItCountsAsLost) {
  Join();
  session_.Submit(OnePut(1), now_us_);
  EXPECT_THAT(DelaysWithin(10'000'000, false), ElementsAre(HasSubstr("nothing was heard of it")));
}

TEST_F(SessionTest, ASilentBrokerIsNamedAlsoToWhoWaitsForTuples) {
  Join();
  Read forever;
  forever.wait_us = kForeverUs;
  session_.Submit(forever, now_us_);
  EXPECT_THAT(DelaysWithin(10'000'000, false), ElementsAre(HasSubstr("nothing was heard of it")));
}

// Of a Read only what is beyond its own wait.
TEST_F(SessionTest, ARequestThatWaitsByItselfIsNotLate) {
  Join();
  Read forever;
  forever.wait_us = kForeverUs;
  session_.Submit(forever, now_us_);
  Read waits;
  waits.wait_us = 20'000'000;
  session_.Submit(waits, now_us_);
  EXPECT_THAT(DelaysWithin(25'000'000, true), IsEmpty());
  EXPECT_THAT(DelaysWithin(5'000'000, true), ElementsAre(HasSubstr("has not answered a Read")));
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

TEST_F(SessionTest, APausedProcessDoesNotBlameTheBroker) {
  Join();
  now_us_ += 100 * kSilenceUs;  // it was not polled; nothing was asked, so nothing is missing
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

Found DamagedFound() {
  Found found;
  found.tuples.resize(1);
  found.tuples[0].key = Key{"r", 7};
  found.tuples[0].put_by = "w1";
  found.tuples[0].damaged = true;
  return found;
}

TEST_F(SessionTest, WhatCameDamagedIsAskedForAgain) {
  Join();
  const RequestId id = session_.Submit(Read{{Pattern::Of(Key{"r", 7})}}, now_us_);
  EXPECT_EQ(SentIds(), std::vector{id});
  session_.Receive(From(100, Reply{id, DamagedFound()}), now_us_);
  const auto events = session_.TakeEvents();
  ASSERT_EQ(events.size(), 1u);
  const std::string text = std::get<PayloadDamaged>(events[0]).text;
  EXPECT_THAT(text, HasSubstr("(\"r\", 7)"));
  EXPECT_THAT(text, HasSubstr("\"w1\""));
  EXPECT_EQ(SentIds(), std::vector{id});
  Found whole = DamagedFound();
  whole.tuples[0].damaged = false;
  session_.Receive(From(100, Reply{id, whole}), now_us_);
  EXPECT_EQ(CountEvents<Reply>(), 1);
  EXPECT_EQ(session_.unanswered(), 0u);
}

TEST_F(SessionTest, WhatIsDamagedAtItsSourceBecomesAnError) {
  Join();
  const RequestId id = session_.Submit(Read{{Pattern::Of(Key{"r", 7})}}, now_us_);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(SentIds(), std::vector{id});
    session_.Receive(From(100, Reply{id, DamagedFound()}), now_us_);
  }
  EXPECT_TRUE(SentIds().empty());
  for (const SessionEvent& event : session_.TakeEvents()) {
    const auto* reply = std::get_if<Reply>(&event);
    if (reply != nullptr) {
      EXPECT_EQ(std::get<RequestError>(reply->body).code, ErrorCode::kDamaged);
    }
  }
  EXPECT_EQ(session_.unanswered(), 0u);
}

TEST_F(SessionTest, ATaskThatCameDamagedIsGivenBackAndItsInputsAreFetched) {
  Join();
  const RequestId id = session_.Submit(GetAny("t"), now_us_);
  SentIds();
  Grants grants;
  grants.grants.resize(1);
  grants.grants[0].key = Key{"t", 1};
  grants.grants[0].fence = 9;
  grants.grants[0].damaged = true;
  session_.Receive(From(100, Reply{id, grants}), now_us_);
  std::vector<Request> sent = SentRequests();
  ASSERT_EQ(sent.size(), 2u);
  const auto* release = std::get_if<Release>(&sent[0].body);
  ASSERT_NE(release, nullptr);
  EXPECT_EQ(release->lease.fence, 9u);
  EXPECT_EQ(sent[1].id, id);
  EXPECT_EQ(CountEvents<PayloadDamaged>(), 1);

  grants.grants[0].damaged = false;
  grants.grants[0].inputs = DamagedFound().tuples;
  grants.grants[0].input_sent = {true};
  session_.Receive(From(100, Reply{id, grants}), now_us_);
  for (const SessionEvent& event : session_.TakeEvents()) {
    const auto* reply = std::get_if<Reply>(&event);
    if (reply == nullptr) continue;
    EXPECT_EQ(std::get<Grants>(reply->body).grants[0].input_sent, std::vector{false});
  }
  EXPECT_EQ(session_.unanswered(), 0u);
}

TEST_F(SessionTest, WhatArrivedDamagedAtTheBrokerIsPutAgain) {
  Join();
  const RequestId id = session_.Submit(OnePut(1), now_us_);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(SentIds(), std::vector{id}) << i;
    session_.Receive(From(100, Reply{id, RequestError{ErrorCode::kDamaged, "flipped"}}), now_us_);
    now_us_ += 1'000'000;
    session_.Tick(now_us_);
  }
  EXPECT_TRUE(SentIds().empty());
  EXPECT_EQ(CountEvents<Reply>(), 1);  // the third time it is told
}

}  // namespace
}  // namespace tuplespace
