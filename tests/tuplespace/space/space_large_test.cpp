// Large requests: no client has to wait for another one's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <variant>

#include "space_driver.h"

namespace tuplespace {
namespace {

using testing::Every;
using ::testing::HasSubstr;
using testing::Plain;
using testing::SpaceDriver;

const Pattern kEverything{{FieldPattern::Any()}, true};

SpaceLimits LimitsOfTurns() {
  SpaceLimits limits;
  limits.examined_at_once = 10;
  limits.examined_by_slice = 4;
  limits.examined_by_read = 20;
  limits.read_patterns = 3;
  return limits;
}

class LargeTest : public ::testing::Test {
 protected:
  static constexpr int kTuples = 50;

  LargeTest() : d(LimitsOfTurns()) {
    for (const char* client : {"m", "a", "b"}) d.Join(client);
    for (int i = 0; i < kTuples; ++i) d.PutOne("m", Plain(Key{"k", i}, "x"));
  }
  void JoinSmall() {
    ClientLimits limits;
    limits.open_requests = 2;
    limits.per_request = 5;
    d.Step(ClientJoined{"small", "key", limits});
  }
  // Ticks until the request is answered; sets the number of ticks.
  template <typename T>
  T After(const ClientId& client, RequestId id, int* ticks) {
    for (*ticks = 0;; ++*ticks) {
      if (auto reply = d.ReplyTo(client, id)) return std::get<T>(*reply);
      if (*ticks > 1000) {
        ADD_FAILURE() << "never answered";
        return {};
      }
      EXPECT_LE(d.space.NextDeadlineUs(), d.now_us) << "there is work to do";
      d.Advance(0);
    }
  }

  SpaceDriver d;
};

TEST_F(LargeTest, ACountGoesOnByTurns) {
  const RequestId first = d.Send("a", Count{kEverything});
  const RequestId again = d.Send("a", Count{kEverything});
  const RequestId other = d.Send("b", Count{kEverything});
  EXPECT_FALSE(d.ReplyTo("a", first));
  EXPECT_EQ(d.CountOf("m", Pattern::Of(Key{"k", 1})), 1u) << "a small one is answered at once";
  int ticks = 0;
  EXPECT_EQ(After<CountReply>("b", other, &ticks).count, 50u);
  EXPECT_EQ(ticks, 20) << "ten slices of its own, ten of the other's";
  EXPECT_TRUE(d.ReplyTo("a", first));
  EXPECT_FALSE(d.ReplyTo("a", again)) << "who asks twice gets no more turns";
  EXPECT_EQ(After<CountReply>("a", again, &ticks).count, 50u);
  EXPECT_EQ(d.space.NextDeadlineUs(), kForeverUs);
}

TEST_F(LargeTest, AListGoesOnByTurnsWhileTuplesComeAndGo) {
  const RequestId id = d.Send("a", List{kEverything, 1000, false});
  d.Advance(0);
  d.Ask<RetireReply>("m", Retire{Pattern::Of(Key{"k", 20}), false});
  d.Ask<RetireReply>("m", Retire{Pattern::Of(Key{"k", 14}), false});  // where the List continues
  d.PutOne("m", Plain(Key{"k", 1000}, "x"));
  d.PutOne("m", Plain(Key{"a", 0}, "x"));  // before that place
  int ticks = 0;
  const Found found = After<Found>("a", id, &ticks);
  EXPECT_EQ(found.tuples.size(), 49u);
  EXPECT_FALSE(found.truncated);
  for (std::size_t i = 1; i < found.tuples.size(); ++i) {
    EXPECT_LT(found.tuples[i - 1].key, found.tuples[i].key);
  }
}

TEST_F(LargeTest, AListEndsAtItsLimit) {
  const RequestId id = d.Send("a", List{kEverything, 25, false});
  int ticks = 0;
  const Found found = After<Found>("a", id, &ticks);
  EXPECT_EQ(found.tuples.size(), 25u);
  EXPECT_TRUE(found.truncated);
}

TEST_F(LargeTest, AListEndsAtTheLimitOfItsRole) {
  JoinSmall();
  const Found found = d.Ask<Found>("small", List{kEverything, 1000, true});
  EXPECT_EQ(found.tuples.size(), 5u);
  EXPECT_TRUE(found.truncated);
}

// However many clients list at the same time.
TEST_F(LargeTest, UnfinishedListsOfAllClientsOfAKeyAreLimitedTogether) {
  ClientLimits limits;
  limits.listed_bytes_of_key = sizeof(FoundTuple) * kTuples * 2;
  for (const char* client : {"k/1", "k/2"}) d.Step(ClientJoined{client, "k", limits});
  d.Step(ClientJoined{"other/1", "other", limits});
  const List all{kEverything, 1000, true};
  const auto list = [&](const ClientId& client) { return d.Send(client, all); };
  const RequestId first = list("k/1");
  const RequestId second = list("k/2");
  const RequestId of_other = list("other/1");
  int ticks = 0;
  const auto busy = After<RequestError>("k/1", first, &ticks);
  EXPECT_EQ(busy.code, ErrorCode::kBusy);
  EXPECT_THAT(busy.text, HasSubstr("limits.listed_bytes_of_key"));
  EXPECT_EQ(After<Found>("k/2", second, &ticks).tuples.size(), 50u);
  EXPECT_EQ(After<Found>("other/1", of_other, &ticks).tuples.size(), 50u)
      << "another key has its own";
  EXPECT_EQ(After<Found>("k/1", list("k/1"), &ticks).tuples.size(), 50u) << "there is room again";
  list("k/1");
  d.Advance(0);
  d.Lose("k/1");
  EXPECT_EQ(After<Found>("k/2", list("k/2"), &ticks).tuples.size(), 50u)
      << "who is lost takes no room any more";
}

// Such a List would never come to its end.
TEST_F(LargeTest, AListThatNeverHasRoomIsRefusedForGood) {
  ClientLimits limits;
  limits.listed_bytes_of_key = sizeof(FoundTuple) * kTuples / 2;
  d.Step(ClientJoined{"k/1", "k", limits});
  int ticks = 0;
  const RequestId id = d.Send("k/1", List{kEverything, 1000, true});
  EXPECT_EQ(After<RequestError>("k/1", id, &ticks).code, ErrorCode::kTooLarge);
}

TEST_F(LargeTest, ListsAndCountsAreOpenRequests) {
  JoinSmall();
  d.Send("small", Count{kEverything});
  d.Send("small", List{kEverything});
  EXPECT_THAT(d.Ask<RequestError>("small", Count{kEverything}).text, HasSubstr("open_requests"));
  d.Lose("small");
  EXPECT_EQ(d.space.NextDeadlineUs(), kForeverUs) << "nobody waits for them";
}

TEST_F(LargeTest, AReadThatIsTooBroadIsRefused) {
  Read read{{{{FieldPattern::Any(), FieldPattern::AtLeast(40)}, false}}};
  read.wait_us = kForeverUs;
  const RequestError error = d.Ask<RequestError>("a", read);
  EXPECT_EQ(error.code, ErrorCode::kTooLarge);
  EXPECT_THAT(error.text, HasSubstr("examined_by_read"));
  read.patterns = {{{FieldPattern::Exact("k"), FieldPattern::AtLeast(40)}, false}};
  EXPECT_EQ(d.Ask<Found>("a", read).tuples.size(), 1u) << "this one says where it is";
}

TEST_F(LargeTest, AnOpenReadThatBecomesTooBroadIsRefused) {
  Read read{
      {{{FieldPattern::Exact("z"), FieldPattern::Any(), FieldPattern::Exact("here")}, false}}};
  read.wait_us = kForeverUs;
  const RequestId id = d.Send("a", read);
  for (int i = 0; i < 25; ++i) d.PutOne("m", Plain(Key{"z", i, "elsewhere"}));
  EXPECT_FALSE(d.ReplyTo("a", id));
  d.PutOne("m", Plain(Key{"z", 99, "here"}));
  EXPECT_EQ(d.Expect<RequestError>("a", id).code, ErrorCode::kTooLarge);
  EXPECT_EQ(d.space.GetStatistics().open_reads, 0u);
}

TEST_F(LargeTest, DifferentPatternsOfOpenReadsAreLimited) {
  for (int i = 0; i < 4; ++i) {
    Read read{{Every("none" + std::to_string(i))}};
    read.wait_us = kForeverUs;
    if (i < 3) {
      d.Send("a", read);
    } else {
      EXPECT_THAT(d.Ask<RequestError>("a", read).text, HasSubstr("read_patterns"));
    }
  }
}

}  // namespace
}  // namespace tuplespace
