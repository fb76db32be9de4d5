// How a session handles bytes that arrived damaged.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "session_fixture.h"

namespace tuplespace {
namespace {

using ::testing::HasSubstr;

using SessionDamageTest = SessionTest;

Found DamagedFound() {
  Found found;
  found.tuples.resize(1);
  found.tuples[0].key = Key{"r", 7};
  found.tuples[0].put_by = "w1";
  found.tuples[0].damaged = true;
  return found;
}

TEST_F(SessionDamageTest, WhatCameDamagedIsAskedForAgain) {
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

TEST_F(SessionDamageTest, WhatIsDamagedAtItsSourceBecomesAnError) {
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

TEST_F(SessionDamageTest, ATaskThatCameDamagedIsGivenBackAndItsInputsAreFetched) {
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

TEST_F(SessionDamageTest, WhatArrivedDamagedAtTheBrokerIsPutAgain) {
  Join();
  const RequestId id = session_.Submit(OnePut(1), now_us_);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(SentIds(), std::vector{id}) << i;
    session_.Receive(From(100, Reply{id, RequestError{ErrorCode::kDamaged, "flipped"}}), now_us_);
    now_us_ += 1'000'000;
    session_.Tick(now_us_);
  }
  EXPECT_TRUE(SentIds().empty());
  EXPECT_EQ(CountEvents<Reply>(), 1);  // the third error is reported
}

}  // namespace
}  // namespace tuplespace
