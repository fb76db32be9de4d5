// Borrowed tuples: clients of one key queue for a lock.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "space_driver.h"

namespace tuplespace {
namespace {

using testing::Every;
using testing::GetOf;
using ::testing::HasSubstr;
using testing::Plain;
using testing::SpaceDriver;
using testing::Task;

constexpr std::int64_t kBorrowUs = 5'000'000;
constexpr std::int64_t kHourUs = 3'600'000'000;

class BorrowTest : public ::testing::Test {
 protected:
  BorrowTest() {
    d.Join("m");
    ClientLimits limits;
    limits.borrow_us = kBorrowUs;
    for (const char* client : {"a", "b", "c"}) d.Step(ClientJoined{client, "key", limits});
    d.PutOne("m", Plain(lock_));
  }
  Get Wanted() const {
    Get get = GetOf(Pattern::Of(lock_), 0);
    get.lease_us = kHourUs;
    return get;
  }
  LeaseRef Take(const ClientId& client) { return d.Granted(client, d.Send(client, Wanted())); }
  LeaseStatus End(const ClientId& client, const LeaseRef& lease) {
    return d.Ask<LeaseReply>(client, Release{lease}).lease;
  }

  const Key lock_{"lock"};
  SpaceDriver d;
};

TEST_F(BorrowTest, TheLeaseEndsHoweverItIsExtended) {
  const LeaseRef lease = Take("a");
  const RequestId next = d.Send("b", Wanted());
  d.Advance(kBorrowUs - 1);
  EXPECT_EQ(d.Ask<LeaseReply>("a", Extend{lease, kHourUs}).lease, LeaseStatus::kOk);
  d.Step(ClientSends{"a"});
  EXPECT_FALSE(d.ReplyTo("b", next));
  d.Advance(1);
  d.Granted("b", next);
  EXPECT_EQ(End("a", lease), LeaseStatus::kStale);
}

TEST_F(BorrowTest, WhoGivesItBackQueuesBehindTheOthers) {
  const LeaseRef of_a = Take("a");
  EXPECT_THAT(d.Ask<RequestError>("a", Wanted()).text, HasSubstr("has borrowed"));
  const RequestId b = d.Send("b", Wanted());
  EXPECT_THAT(d.Ask<RequestError>("b", Wanted()).text, HasSubstr("waits for"));
  const RequestId c = d.Send("c", Wanted());
  EXPECT_EQ(End("a", of_a), LeaseStatus::kOk);
  const RequestId a = d.Send("a", Wanted());
  EXPECT_EQ(End("b", d.Granted("b", b)), LeaseStatus::kOk);
  EXPECT_FALSE(d.ReplyTo("a", a));
  EXPECT_EQ(End("c", d.Granted("c", c)), LeaseStatus::kOk);
  d.Granted("a", a);
}

TEST_F(BorrowTest, ItCannotBeTakenForGood) {
  const LeaseRef lease = Take("a");
  EXPECT_EQ(d.Ask<RequestError>("a", Complete{lease, {}}).code, ErrorCode::kForbidden);
  EXPECT_EQ(d.Ask<RequestError>("a", Complete{lease, {Plain(Key{"k"})}}).code,
            ErrorCode::kForbidden);
  EXPECT_EQ(End("a", lease), LeaseStatus::kOk);
  Take("b");
}

// It would give the others back at once and get them again, as they precede most tasks.
TEST_F(BorrowTest, OnlyAWholeKeyBringsATupleThatIsNoTask) {
  d.PutOne("m", Plain(Key{"t", 1}));
  d.PutOne("m", Task(Key{"t", 2}));
  const auto grants = d.GetNow("a", Every("t"), UINT64_MAX, 5);
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].key, (Key{"t", 2}));
  const RequestId open = d.Send("b", GetOf(Every("t")));
  d.PutOne("m", Plain(Key{"t", 3}));
  EXPECT_FALSE(d.ReplyTo("b", open));
  EXPECT_EQ(d.GetNow("c", Pattern::Of(Key{"t", 3})).size(), 1u);
  // Who may take everything does so with the same pattern.
  EXPECT_EQ(d.GetNow("m", Every("t"), UINT64_MAX, 5).size(), 1u);
  d.PutOne("m", Task(Key{"t", 4}));
  EXPECT_EQ(d.Granted("b", open).key, (Key{"t", 4}));
}

TEST_F(BorrowTest, AClientThatIsLostGivesItBack) {
  Take("a");
  const RequestId next = d.Send("b", Wanted());
  d.Lose("a");
  d.Granted("b", next);
}

TEST_F(BorrowTest, OtherClientsKeepLocksAsLongAsTheyExtendThem) {
  const LeaseRef lease = Take("m");
  d.Advance(kHourUs - 1);
  EXPECT_EQ(d.Ask<LeaseReply>("m", Extend{lease, kHourUs}).lease, LeaseStatus::kOk);
  d.Advance(kHourUs - 1);
  EXPECT_EQ(d.Done("m", lease).lease, LeaseStatus::kOk);
}

}  // namespace
}  // namespace tuplespace
