// What a session does when something at the other end refuses its key, which anybody can do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "session_fixture.h"

namespace tuplespace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SessionRefusedTest : public SessionTest {
 protected:
  // Connects once a second and is refused each time.
  void RefuseTimes(int times) {
    for (int i = 0; i < times; ++i) {
      now_us_ += 1'000'000;
      session_.LinkUp(now_us_);
      session_.LinkRefused("it refused the key", false, now_us_);
    }
  }
};

TEST_F(SessionRefusedTest, ThatHadJoinedTriesForEver) {
  Join();
  const RequestId id = session_.Submit(Count{}, now_us_);
  session_.LinkRefused("it refused the key", false, now_us_);
  EXPECT_EQ(CountEvents<ConnectionChanged>(), 1);
  RefuseTimes(10'000);
  EXPECT_FALSE(session_.failure());
  session_.LinkUp(now_us_);
  WelcomeIt(101);
  EXPECT_THAT(SentIds(), ElementsAre(id));
}

TEST_F(SessionRefusedTest, ThatHadJoinedFailsIfItsKeyHasExpired) {
  Join();
  session_.LinkRefused("it refused the key", true, now_us_);
  ASSERT_TRUE(session_.failure());
  EXPECT_EQ(session_.failure()->code, ErrorCode::kForbidden);
}

TEST_F(SessionRefusedTest, ThatNeverJoinedFailsAfterHalfAMinute) {
  RefuseTimes(30);
  EXPECT_FALSE(session_.failure()) << "the first and the last refusal are 29 s apart";
  RefuseTimes(1);
  ASSERT_TRUE(session_.failure());
  EXPECT_EQ(session_.failure()->code, ErrorCode::kForbidden);
  EXPECT_THAT(session_.failure()->text, HasSubstr("it refused the key; this has gone on for 30 s"));
}

TEST_F(SessionRefusedTest, IsAskedForANewLink) {
  session_.LinkUp(now_us_);
  session_.TakeEvents();
  session_.LinkRefused("it refused the key", false, now_us_);
  session_.Tick(session_.NextDeadlineUs());
  EXPECT_EQ(CountEvents<RelinkWanted>(), 1);
}

TEST_F(SessionRefusedTest, AHandshakeThatSucceedsEndsARowOfRefusals) {
  RefuseTimes(30);
  session_.LinkUp(now_us_);
  session_.LinkEstablished(now_us_);
  session_.LinkDown("the connection ended", now_us_);
  RefuseTimes(30);
  EXPECT_FALSE(session_.failure());
}

TEST_F(SessionRefusedTest, SingleRefusalsAreNoRow) {
  for (int i = 0; i < 100; ++i) {
    RefuseTimes(1);
    now_us_ += 60'000'000;
  }
  EXPECT_FALSE(session_.failure());
}

TEST_F(SessionRefusedTest, WithoutPatienceFailsAtOnce) {
  SessionOptions options;
  options.refusal_patience_us = 0;
  ClientSession session(options);
  session.LinkUp(now_us_);
  session.LinkRefused("it refused the key", false, now_us_);
  ASSERT_TRUE(session.failure());
  EXPECT_EQ(session.failure()->text, "it refused the key");
}

}  // namespace
}  // namespace tuplespace
