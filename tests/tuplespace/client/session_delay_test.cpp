// What a session does and reports while its broker is busy, slow, silent or missing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "session_fixture.h"

namespace tuplespace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A session whose broker is busy, slow, silent or missing.
class SessionDelayTest : public SessionTest {
 protected:
  // Runs all ticks that are due within `wait_us`; returns the reported delays.
  std::vector<std::string> DelaysWithin(std::int64_t wait_us, bool broker_answers_pings) {
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
};

TEST_F(SessionDelayTest, BusyIsRetriedLaterAndLater) {
  Join();
  const RequestId id = session_.Submit(OnePut(1), now_us_);
  EXPECT_THAT(SentIds(), ElementsAre(id));
  std::vector<std::int64_t> delays_us;
  for (int i = 0; i < 13; ++i) {
    session_.Receive(From(100, Reply{id, Busy()}), now_us_);
    EXPECT_EQ(CountEvents<Reply>(), 0);
    EXPECT_FALSE(session_.HasOutput());
    // Heartbeats have their own deadlines.
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

TEST_F(SessionDelayTest, ABrokerThatIsBusyForLongIsNamedOnce) {
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

// The limit is named, and nobody is told that there is no broker.
TEST_F(SessionDelayTest, ABrokerThatAdmitsNobodyIsNamedTwiceAMinute) {
  session_.LinkUp(now_us_);
  session_.Submit(OnePut(1), now_us_);
  std::vector<std::string> texts;
  const std::int64_t end_us = now_us_ + 45'000'000;
  while (now_us_ < end_us) {
    if (session_.HasOutput()) {
      session_.TakeOutput(now_us_);
      session_.Receive(From(0, Busy()), now_us_);
    }
    now_us_ = session_.NextDeadlineUs();
    session_.Tick(now_us_);
    for (const SessionEvent& event : session_.TakeEvents()) {
      if (const auto* delayed = std::get_if<RequestDelayed>(&event)) texts.push_back(delayed->text);
    }
  }
  EXPECT_THAT(texts, SizeIs(2));
  EXPECT_THAT(
      texts, ::testing::Each(AllOf(HasSubstr("admits no further client"), HasSubstr(Busy().text))));
  EXPECT_FALSE(DelaysWithin(20'000'000, false).empty()) << "then the broker is gone";
}

TEST_F(SessionDelayTest, WithoutABrokerWhoWaitsIsToldOnceWithinTenSeconds) {
  session_.LinkUp(now_us_);
  EXPECT_THAT(DelaysWithin(60'000'000, false), IsEmpty()) << "nobody waits";
  session_.Submit(OnePut(1), now_us_);
  EXPECT_THAT(DelaysWithin(10'000'000, false), ElementsAre(HasSubstr("waiting requests: 1")));
  EXPECT_THAT(DelaysWithin(60'000'000, false), IsEmpty());
}

TEST_F(SessionDelayTest, ALostBrokerIsSpokenOfAgainWithinTenSeconds) {
  Join();
  session_.Submit(OnePut(1), now_us_);
  session_.LinkDown("cut", now_us_);
  EXPECT_THAT(DelaysWithin(10'000'000, false), ElementsAre(HasSubstr("no answer for")));
}

TEST_F(SessionDelayTest, ABrokerThatDoesNotAnswerARequestIsNamedWithinTenSeconds) {
  Join();
  session_.Submit(OnePut(1), now_us_);
  EXPECT_THAT(DelaysWithin(10'000'000, true), ElementsAre(AllOf(HasSubstr("has not answered a Put"),
                                                                HasSubstr("waiting requests: 1"))));
  EXPECT_THAT(DelaysWithin(60'000'000, true), SizeIs(2)) << "twice a minute";
}

// The broker sends nothing at all. Its silence will end the session later.
TEST_F(SessionDelayTest, ASilentBrokerIsNamedBeforeItCountsAsLost) {
  Join();
  session_.Submit(OnePut(1), now_us_);
  EXPECT_THAT(DelaysWithin(10'000'000, false), ElementsAre(HasSubstr("nothing was heard from it")));
}

TEST_F(SessionDelayTest, ASilentBrokerIsNamedAlsoToWhoWaitsForTuples) {
  Join();
  Read forever;
  forever.wait_us = kForeverUs;
  session_.Submit(forever, now_us_);
  EXPECT_THAT(DelaysWithin(10'000'000, false), ElementsAre(HasSubstr("nothing was heard from it")));
}

// A Read is late only after its own waiting time.
TEST_F(SessionDelayTest, ARequestThatWaitsByItselfIsNotLate) {
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

// ---- when a caller gives up on an answer
// ---------------------------------------------------------

TEST_F(SessionDelayTest, AnAnswerIsAwaitedWhilePartsOfMessagesCome) {
  Join();
  const RequestId id = session_.Submit(Read{}, now_us_);
  const std::int64_t deadline_us = now_us_ + 1'000'000;
  const std::int64_t plain_us = session_.GiveUpUs(id, deadline_us);
  EXPECT_GT(plain_us, deadline_us) << "the answer needs time to arrive";
  session_.Heard(deadline_us);
  EXPECT_EQ(session_.GiveUpUs(id, deadline_us), plain_us) << "it is not sent yet";
  SentIds();
  for (now_us_ = deadline_us; now_us_ < deadline_us + 100'000'000; now_us_ += 1'000'000) {
    session_.Heard(now_us_);
    session_.Tick(now_us_);
    session_.TakeOutput(now_us_);
    ASSERT_GT(session_.GiveUpUs(id, deadline_us), now_us_ + 1'000'000);
  }
  const std::int64_t last_us = session_.GiveUpUs(id, deadline_us);
  session_.Receive(From(100, Pong{}), now_us_);
  EXPECT_EQ(session_.GiveUpUs(id, deadline_us), last_us) << "a whole message is not a part";
  EXPECT_LT(last_us, now_us_ + kSilenceUs) << "the broker may be stopped";
  session_.LinkDown("cut", now_us_);
  EXPECT_EQ(session_.GiveUpUs(id, deadline_us), deadline_us);
}

// Large answers to others do not keep a caller whose own request has no room at the broker.
TEST_F(SessionDelayTest, ARequestThatIsNotAtTheBrokerIsNotAwaitedLonger) {
  Join();
  const RequestId id = session_.Submit(OnePut(1), now_us_);
  SentIds();
  session_.Heard(now_us_);
  EXPECT_GT(session_.GiveUpUs(id, now_us_), now_us_ + 1'000'000);
  session_.Receive(From(100, Reply{id, Busy()}), now_us_);
  EXPECT_LT(session_.GiveUpUs(id, now_us_), now_us_ + 1'000'000);
}

}  // namespace
}  // namespace tuplespace
