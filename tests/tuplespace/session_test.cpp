// Session and BrokerCore without sockets or clock: single steps first, then both halves together
// over a link that loses, breaks and restarts.
#include "session.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>

#include "broker_core.h"
#include "tuplespace/client.h"
#include "wire.h"

namespace tuplespace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::int64_t kSilenceUs = 10'000'000;

Tuple PlainTuple(const Key& key, const std::string& text) {
  Tuple tuple;
  tuple.key = key;
  tuple.payload = Payload::Copy(text);
  return tuple;
}

Put OnePut(std::int64_t n) {
  return Put{{PlainTuple({"n", n}, "x")}};
}

Get GetAny(const std::string& first) {
  Get get;
  get.pattern.fields = {FieldPattern::Exact(first)};
  get.pattern.open = true;
  return get;
}

template <typename Message>
ToClient From(std::uint64_t session, Message message) {
  ToClient envelope;
  envelope.session = session;
  envelope.messages.emplace_back(std::move(message));
  return envelope;
}

Error HelloRequired() {
  return {ErrorCode::kHelloRequired, "join again"};
}
Error Busy() {
  return {ErrorCode::kBusy, "limits.tuples"};
}

// A session that a test drives by hand.
class SessionTest : public ::testing::Test {
 protected:
  std::uint64_t TakeHello() {
    const Session::Output output = session_.TakeOutput(now_us_);
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

  std::int64_t now_us_ = 1'000'000;
  Session session_{SessionOptions{}};
};

TEST_F(SessionTest, JoinsBeforeItSendsAnything) {
  const RequestId id = session_.Submit(OnePut(1), now_us_);
  EXPECT_FALSE(session_.HasOutput());
  session_.Tick(now_us_);
  EXPECT_EQ(CountEvents<RelinkWanted>(), 1);
  session_.LinkUp(now_us_);
  WelcomeIt(55);
  const Session::Output output = session_.TakeOutput(now_us_);
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
  Session::Output output = session_.TakeOutput(now_us_);
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
  session_.Receive(From(0, Error{ErrorCode::kVersion, "2 is not 1"}), now_us_);
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
  std::map<RequestId, Error> errors;
  for (SessionEvent& event : session_.TakeEvents()) {
    const auto& reply = std::get<Reply>(event);
    errors[reply.id] = std::get<Error>(reply.body);
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
  Session session(options);
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
  EXPECT_EQ(std::get<Store>(sent[0].body).lease.fence, 9u);
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
  const Session::Output output = session_.TakeOutput(now_us_);
  EXPECT_EQ(output.session, 100u);
  ASSERT_EQ(output.messages.size(), 1u);
  EXPECT_TRUE(std::holds_alternative<Bye>(output.messages[0]));
  EXPECT_FALSE(session_.HasOutput());
}

// ---- the broker's half
// ---------------------------------------------------------------------------

ToBroker To(std::uint64_t session, ClientMessage message) {
  ToBroker envelope;
  envelope.session = session;
  envelope.messages.push_back(std::move(message));
  return envelope;
}

std::uint64_t JoinCore(BrokerCore& core, const ClientId& client, std::int64_t now_us,
                       std::uint64_t nonce = 1) {
  core.Receive(client, To(0, Hello{nonce, "n"}), now_us);
  for (const auto& delivery : core.TakeOutput()) {
    if (delivery.client != client) continue;
    for (const BrokerMessage& message : delivery.envelope.messages) {
      if (const auto* welcome = std::get_if<Welcome>(&message)) return welcome->session;
    }
  }
  return 0;
}

TEST(BrokerCoreTest, OneHelloTwiceIsOneSession) {
  BrokerCore core{BrokerCoreOptions{}};
  const std::uint64_t session = JoinCore(core, "a", 0);
  EXPECT_NE(session, 0u);
  EXPECT_EQ(JoinCore(core, "a", 1), session);
  EXPECT_NE(JoinCore(core, "a", 2, /*nonce=*/2), session);
  EXPECT_EQ(core.GetStatistics().clients, 1u);
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
  EXPECT_EQ(std::get<Error>(output[0].envelope.messages[0]).code, ErrorCode::kHelloRequired);
  EXPECT_EQ(core.GetStatistics().tuples, 0u);
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

TEST(BrokerCoreTest, ClientsAreLimited) {
  BrokerCoreOptions options;
  options.limits.clients = 2;
  BrokerCore core(options);
  EXPECT_NE(JoinCore(core, "a", 0), 0u);
  EXPECT_NE(JoinCore(core, "b", 0), 0u);
  core.Receive("c", To(0, Hello{1, ""}), 0);
  const auto output = core.TakeOutput();
  ASSERT_EQ(output.size(), 1u);
  const auto& error = std::get<Error>(output[0].envelope.messages.at(0));
  EXPECT_EQ(error.code, ErrorCode::kBusy);
  EXPECT_THAT(error.text, HasSubstr("clients = 2"));
  core.Lost("a", "test", 0);
  EXPECT_NE(JoinCore(core, "c", 0), 0u);
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
                  std::get<Error>(reply->body).code == ErrorCode::kBadRequest;
    }
  }
  EXPECT_TRUE(answered);
}

// ---- both halves, over a bad link
// ------------------------------------------------------------------

// One world with one time: a broker that is restarted, workers whose links break, in-order links
// that lose everything in flight when they do. The seed decides everything.
class World {
 public:
  explicit World(std::uint64_t seed) : random_(seed) {
    StartBroker();
    for (int i = 0; i < 3; ++i) {
      auto worker = std::make_unique<Worker>();
      worker->id = "w" + std::to_string(i);
      SessionOptions options;
      options.first_nonce = random_();
      worker->session = std::make_unique<Session>(options);
      workers_.push_back(std::move(worker));
    }
  }

  // Every worker puts `puts` tuples, each worker's own, and all have to be answered.
  void Run(int puts) {
    for (auto& worker : workers_) {
      for (int i = 0; i < puts; ++i) worker->to_put.push_back(i);
    }
    for (int step = 0; step < 1'000'000 && !Done(puts); ++step) {
      const bool calm = step > 20'000;  // faults end, so everything has to end well
      now_us_ += static_cast<std::int64_t>(random_() % 3'000);
      Worker& worker = *workers_[random_() % workers_.size()];
      if (!calm && random_() % 300 == 0) BreakLink(worker);
      if (!calm && random_() % 4'000 == 0) StartBroker();
      Drive(worker);
      core_->Tick(now_us_);
      Route();
    }
    ASSERT_TRUE(Done(puts));
    for (auto& worker : workers_) {
      EXPECT_TRUE(worker->answered_twice.empty());
      EXPECT_EQ(worker->session->unanswered_bytes(), 0u);
    }
    EXPECT_GT(restarts_, 1);
    EXPECT_GT(breaks_, 1);
  }

 private:
  struct Worker {
    ClientId id;
    std::unique_ptr<Session> session;
    bool linked = false;
    std::deque<ToBroker> up;
    std::deque<ToClient> down;
    std::deque<int> to_put;
    std::set<RequestId> open;
    std::set<RequestId> answered;
    std::set<RequestId> answered_twice;
  };

  bool Done(int puts) const {
    for (const auto& worker : workers_) {
      if (worker->answered.size() != static_cast<std::size_t>(puts)) return false;
    }
    return true;
  }

  void StartBroker() {
    ++restarts_;
    BrokerCoreOptions options;
    options.first_session = random_();
    core_ = std::make_unique<BrokerCore>(options);
    for (auto& worker : workers_) BreakLink(*worker);
  }

  void BreakLink(Worker& worker) {
    ++breaks_;
    worker.up.clear();
    worker.down.clear();
    worker.linked = false;
    worker.session->LinkDown("fault", now_us_);
    // Sometimes the broker notices, sometimes it has to find out.
    if (random_() % 2 == 0) core_->Lost(worker.id, "fault", now_us_);
  }

  void Drive(Worker& worker) {
    if (!worker.to_put.empty() && random_() % 2 == 0) {
      worker.open.insert(worker.session->Submit(
          Put{{PlainTuple({worker.id, worker.to_put.front()}, "x")}}, now_us_));
      worker.to_put.pop_front();
    }
    while (!worker.down.empty() && random_() % 4 != 0) {
      worker.session->Receive(std::move(worker.down.front()), now_us_);
      worker.down.pop_front();
    }
    worker.session->Tick(now_us_);
    for (const SessionEvent& event : worker.session->TakeEvents()) {
      if (const auto* reply = std::get_if<Reply>(&event)) {
        EXPECT_TRUE(worker.open.contains(reply->id));
        if (!worker.answered.insert(reply->id).second) worker.answered_twice.insert(reply->id);
        ASSERT_TRUE(std::holds_alternative<PutReply>(reply->body));
      } else if (std::holds_alternative<RelinkWanted>(event)) {
        worker.linked = true;
        worker.session->LinkUp(now_us_);
      }
    }
    if (!worker.linked || !worker.session->HasOutput()) return;
    const Session::Output output = worker.session->TakeOutput(now_us_);
    ToBroker envelope;
    envelope.session = output.session;
    for (const auto& message : output.messages) {
      if (const auto* request = std::get_if<const Request*>(&message)) {
        envelope.messages.emplace_back(**request);
      } else if (const auto* hello = std::get_if<Hello>(&message)) {
        envelope.messages.emplace_back(*hello);
      } else {
        envelope.messages.emplace_back(Ping{});
      }
    }
    worker.up.push_back(std::move(envelope));
  }

  void Route() {
    for (auto& worker : workers_) {
      while (!worker->up.empty() && random_() % 3 != 0) {
        core_->Receive(worker->id, std::move(worker->up.front()), now_us_);
        worker->up.pop_front();
      }
    }
    for (auto& delivery : core_->TakeOutput()) {
      for (auto& worker : workers_) {
        if (worker->id == delivery.client && worker->linked) {
          worker->down.push_back(std::move(delivery.envelope));
        }
      }
    }
    core_->TakeLog();
  }

  std::mt19937_64 random_;
  std::int64_t now_us_ = 1;
  std::unique_ptr<BrokerCore> core_;
  std::vector<std::unique_ptr<Worker>> workers_;
  int restarts_ = 0;
  int breaks_ = 0;
};

TEST(SessionAndBroker, EveryRequestIsAnsweredOnceWhateverBreaks) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    World(seed).Run(/*puts=*/3'000);
  }
}

}  // namespace
}  // namespace tuplespace
