// Puts, reads, limits, retiring.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "space_driver.h"

namespace tuplespace {
namespace {

using testing::Every;
using testing::Plain;
using testing::SpaceDriver;
using testing::Task;
using testing::UpTo;

class PutReadTest : public ::testing::Test {
 protected:
  void SetUp() override { Begin({}); }
  void Begin(SpaceLimits limits) {
    d = std::make_unique<SpaceDriver>(limits);
    d->Join("a");
    d->Join("b");
  }
  std::unique_ptr<SpaceDriver> d;
};

TEST_F(PutReadTest, WhoHasNotJoinedIsToldSo) {
  const RequestError error = d->Ask<RequestError>("stranger", Put{{Plain(Key{"k", 1})}});
  EXPECT_EQ(error.code, ErrorCode::kHelloRequired);
  EXPECT_NE(error.text.find("stranger"), std::string::npos);
  EXPECT_EQ(d->space.GetStatistics().tuples, 0u);
}

TEST_F(PutReadTest, FirstPutWins) {
  EXPECT_EQ(d->PutOne("a", Plain(Key{"k", 1}, "first")), PutStatus::kStored);
  EXPECT_EQ(d->PutOne("b", Plain(Key{"k", 1}, "first")), PutStatus::kDuplicate);
  EXPECT_TRUE(d->notices.empty());
  EXPECT_EQ(d->PutOne("b", Plain(Key{"k", 1}, "other")), PutStatus::kConflict);
  EXPECT_EQ(d->PutOne("b", Plain(Key{"k", 1}, "longer one")), PutStatus::kConflict);
  const Found found = d->Ask<Found>("b", Read{{Every("k")}});
  ASSERT_EQ(found.tuples.size(), 1u);
  EXPECT_EQ(found.tuples[0].payload.text(), "first");
  EXPECT_EQ(found.tuples[0].put_by, "a");
  EXPECT_EQ(d->counters().duplicates, 1u);
  EXPECT_EQ(d->counters().conflicts, 2u);
  ASSERT_EQ(d->notices["a"].size(), 2u);
  EXPECT_EQ(d->notices["a"][0].kind, Notice::Kind::kConflict);
  EXPECT_EQ(d->notices["a"][0].by, "b");
  EXPECT_EQ(d->notices["a"][0].key, (Key{"k", 1}));
}

TEST_F(PutReadTest, TwoPutsAreComparedByTheirHashes) {
  const auto put = [&](const std::string& bytes, PayloadHash hash) {
    Tuple tuple = Plain(Key{"r", 1});
    tuple.payload = Payload::Copy(bytes).WithHash(hash);
    return d->PutOne("a", tuple);
  };
  EXPECT_EQ(put("one", {1, 2}), PutStatus::kStored);
  EXPECT_EQ(put("one", {1, 2}), PutStatus::kDuplicate);
  EXPECT_EQ(put("one", {1, 3}), PutStatus::kConflict);
  EXPECT_EQ(d->PutOne("a", Plain(Key{"r", 1}, "one")), PutStatus::kDuplicate);  // by its bytes
  EXPECT_EQ(d->PutOne("a", Plain(Key{"r", 1}, "two")), PutStatus::kConflict);
}

TEST_F(PutReadTest, ConflictOfATaskResultIsToldToTheTasksOwnerToo) {
  d->Join("owner");
  d->PutOne("owner", testing::Making(Task(Key{"task", 1}), {Key{"result", 1}}));
  const LeaseRef lease = d->TakeNow("b", Every("task"));
  d->PutOne("a", Plain(Key{"result", 1}, "x"));
  const auto reply = d->Done("b", lease, {Plain(Key{"result", 1}, "y")});
  EXPECT_EQ(reply.results, std::vector{PutStatus::kConflict});
  EXPECT_EQ(d->notices["a"].size(), 1u);
  EXPECT_EQ(d->notices["owner"].size(), 1u);
  EXPECT_EQ(d->notices["b"].size(), 0u);
}

TEST_F(PutReadTest, ABatchIsAnsweredInOrder) {
  const auto reply = d->Ask<PutReply>("a", Put{{Plain(Key{"k", 1}, "x"), Plain(Key{"k", 1}, "x"),
                                                Plain(Key{"k", 2}, "x"), Plain(Key{"k", 1}, "y")}});
  EXPECT_EQ(reply.status, (std::vector{PutStatus::kStored, PutStatus::kDuplicate,
                                       PutStatus::kStored, PutStatus::kConflict}));
}

TEST_F(PutReadTest, ListIsInKeyOrderAndLimited) {
  for (const int i : {5, -1, 3, 400, 2}) d->PutOne("a", Plain(Key{"k", i}, "xy"));
  d->PutOne("a", Plain(Key{"other", 1}));
  Found found = d->Ask<Found>("b", List{Every("k"), 1000, true});
  std::vector<Key> keys;
  for (const FoundTuple& tuple : found.tuples) {
    keys.push_back(tuple.key);
    EXPECT_TRUE(tuple.payload.empty());
    EXPECT_EQ(tuple.payload_bytes, 2u);
  }
  EXPECT_EQ(keys,
            (std::vector{Key{"k", -1}, Key{"k", 2}, Key{"k", 3}, Key{"k", 5}, Key{"k", 400}}));
  EXPECT_FALSE(found.truncated);
  found = d->Ask<Found>("b", List{Every("k"), 2, false});
  EXPECT_TRUE(found.truncated);
  ASSERT_EQ(found.tuples.size(), 2u);
  EXPECT_EQ(found.tuples[1].key, (Key{"k", 2}));
  EXPECT_EQ(found.tuples[1].payload.text(), "xy");
  EXPECT_EQ(d->CountOf("b", Every("k")), 5u);
  EXPECT_EQ(d->CountOf("b", UpTo("k", 3)), 3u);
  EXPECT_EQ(d->CountOf("b", {{FieldPattern::Exact("k"), FieldPattern::AtLeast(3)}, false}), 3u);
  EXPECT_EQ(d->CountOf("b", {{}, true}), 6u);
  EXPECT_EQ(d->CountOf("b", {{FieldPattern::Prefix("o"), FieldPattern::Any()}, false}), 1u);
  EXPECT_EQ(d->CountOf("b", {{FieldPattern::Exact("k")}, true}), 5u);
  EXPECT_EQ(d->CountOf("b", {{FieldPattern::Exact("k")}, false}), 0u);
}

TEST_F(PutReadTest, AListReplyIsLimitedInBytes) {
  SpaceLimits limits;
  limits.message_bytes = 10;
  Begin(limits);
  for (int i = 0; i < 4; ++i) d->PutOne("a", Plain(Key{"k", i}, "12345"));
  const Found found = d->Ask<Found>("b", List{Every("k")});
  EXPECT_EQ(found.tuples.size(), 2u);
  EXPECT_TRUE(found.truncated);
  EXPECT_EQ(d->Ask<Found>("b", List{Every("k"), 1000, true}).tuples.size(), 4u);
}

TEST_F(PutReadTest, AReadCopiesTheFirstMatchInKeyOrder) {
  d->PutOne("a", Plain(Key{"k", 2}, "two"));
  d->PutOne("a", Plain(Key{"k", 1}, "one"));
  const Found found = d->Ask<Found>("b", Read{{Every("k"), Pattern::Of(Key{"k", 2})}});
  ASSERT_EQ(found.tuples.size(), 2u);
  EXPECT_EQ(found.tuples[0].payload.text(), "one");
  EXPECT_EQ(found.tuples[1].payload.text(), "two");
  EXPECT_EQ(d->CountOf("b", Every("k")), 2u);
}

TEST_F(PutReadTest, AReadWaitsForAllOfItsPatterns) {
  Read read{{Every("x"), Pattern::Of(Key{"y", 1}), Every("z")}, true, false, kForeverUs};
  const RequestId id = d->Send("b", read);
  d->PutOne("a", Plain(Key{"x", 1}));
  d->PutOne("a", Plain(Key{"y", 1}));
  EXPECT_FALSE(d->ReplyTo("b", id));
  // All tuples must be there at the same time.
  d->Ask<RetireReply>("a", Retire{Every("x"), false});
  d->PutOne("a", Plain(Key{"z", 1}));
  EXPECT_FALSE(d->ReplyTo("b", id));
  d->PutOne("a", Plain(Key{"x", 7}, "late"));
  const Found found = d->Expect<Found>("b", id);
  ASSERT_EQ(found.tuples.size(), 3u);
  EXPECT_EQ(found.tuples[0].payload.text(), "late");
  EXPECT_FALSE(found.timed_out);
  EXPECT_EQ(d->space.GetStatistics().open_reads, 0u);
}

TEST_F(PutReadTest, AReadOfAnyIsSatisfiedByOne) {
  const RequestId id =
      d->Send("b", Read{{Every("x"), Pattern::Of(Key{"y", 1})}, false, true, kForeverUs});
  EXPECT_FALSE(d->ReplyTo("b", id));
  d->PutOne("a", Plain(Key{"y", 1}, "12"));
  const Found found = d->Expect<Found>("b", id);
  ASSERT_EQ(found.tuples.size(), 1u);
  EXPECT_EQ(found.tuples[0].payload_bytes, 2u);
  EXPECT_TRUE(found.tuples[0].payload.empty());
}

TEST_F(PutReadTest, OneReplyEvenIfABatchMatchesTwice) {
  const RequestId id = d->Send("b", Read{{Every("x"), Every("y")}, false, false, kForeverUs});
  d->Ask<PutReply>("a", Put{{Plain(Key{"x", 1}), Plain(Key{"y", 1}), Plain(Key{"x", 2})}});
  EXPECT_EQ(d->Expect<Found>("b", id).tuples.size(), 2u);
  EXPECT_TRUE(d->replies["b"].empty());
}

TEST_F(PutReadTest, AReadWhoseWaitIsOverAnswersWithWhatIsThere) {
  d->PutOne("a", Plain(Key{"x", 1}));
  const RequestId id = d->Send("b", Read{{Every("x"), Every("y")}, true, false, 100});
  EXPECT_EQ(d->space.NextDeadlineUs(), 100);
  d->Advance(99);
  EXPECT_FALSE(d->ReplyTo("b", id));
  d->Advance(1);
  const Found found = d->Expect<Found>("b", id);
  EXPECT_TRUE(found.timed_out);
  EXPECT_EQ(found.tuples.size(), 1u);
  EXPECT_EQ(d->space.NextDeadlineUs(), kForeverUs);

  const Found at_once = d->Ask<Found>("b", Read{{Every("x"), Every("y")}});
  EXPECT_TRUE(at_once.timed_out);
  EXPECT_EQ(at_once.tuples.size(), 1u);
}

TEST_F(PutReadTest, ACancelledReadIsAnsweredAsTimedOut) {
  const RequestId id = d->Send("b", Read{{Every("x")}, true, false, kForeverUs});
  d->Ask<Ok>("b", Cancel{id});
  EXPECT_TRUE(d->Expect<Found>("b", id).timed_out);
  d->Ask<Ok>("b", Cancel{id});  // again: nothing to do
  EXPECT_EQ(d->space.GetStatistics().open_reads, 0u);
}

TEST_F(PutReadTest, BadRequestsChangeNothingAndSayWhy) {
  const auto refused = [&](RequestBody body) {
    const RequestError error = d->Ask<RequestError>("a", std::move(body));
    EXPECT_EQ(error.code, ErrorCode::kBadRequest) << error.text;
    EXPECT_FALSE(error.text.empty());
    return error.text;
  };
  EXPECT_NE(refused(Put{{Plain(Key{"k", 1}), Plain(Key())}}).find("tuple 1 of 2"),
            std::string::npos);
  EXPECT_EQ(d->space.GetStatistics().tuples, 0u);
  refused(Put{{Task(Key{"t", 1}, {Key()})}});
  refused(Put{{Task(Key{"t", 1}, {Key{"t", 1}})}});
  refused(Put{{Task(Key{"t", 1}, {Key{"x", 1}}, 0, 1)}});
  refused(Put{{Task(Key{"t", 1}, {Key{"x", 1}}, 0, -2)}});
  Tuple negative = Task(Key{"t", 1});
  negative.task->lease_us = -1;
  refused(Put{{negative}});
  refused(Read{});
  refused(Read{{Pattern{}}});
  refused(Read{{Every("x")}, true, false, -1});
  refused(List{Pattern{}});
  refused(Count{Pattern{}});
  refused(Retire{Every("x"), true});
  refused(Retire{{{FieldPattern::AtMost(1), FieldPattern::AtMost(1)}, false}, true});
  Get get = testing::GetOf(Every("x"));
  get.max_count = 0;
  refused(get);
  get.max_count = 1;
  get.lease_us = -1;
  refused(get);
  refused(testing::GetOf(Pattern{}));
  refused(Extend{{Key{"x", 1}, 1}, -1});
  EXPECT_EQ(d->counters().bad_requests, 17u);

  const RequestId open = d->Send("a", Read{{Every("x")}, true, false, kForeverUs});
  d->Step(Incoming{"a", {open, testing::GetOf(Every("x"))}});
  EXPECT_EQ(d->Expect<RequestError>("a", open).code, ErrorCode::kBadRequest);
}

TEST_F(PutReadTest, WhatIsTooLargeIsRefusedForGood) {
  SpaceLimits limits;
  limits.message_bytes = 8;
  limits.payload_bytes = 12;
  limits.tuples_per_request = 3;
  limits.task_inputs = 1;
  limits.tuples = 2;
  Begin(limits);
  const auto too_large = [&](RequestBody body, const std::string& limit) {
    const RequestError error = d->Ask<RequestError>("a", std::move(body));
    EXPECT_EQ(error.code, ErrorCode::kTooLarge) << error.text;
    EXPECT_NE(error.text.find("limits." + limit), std::string::npos) << error.text;
  };
  too_large(Put{{Plain(Key{"k", 1}, "123456789")}}, "message_bytes");
  too_large(Put{{Plain(Key{"k", 1}, "1234567"), Plain(Key{"k", 2}, "1234567")}}, "payload_bytes");
  too_large(Put{std::vector(4, Plain(Key{"k", 1}))}, "tuples_per_request");
  too_large(Put{{Plain(Key{"k", 1}), Plain(Key{"k", 2}), Plain(Key{"k", 3})}}, "tuples");
  too_large(Put{{Task(Key{"t", 1}, {Key{"x", 1}, Key{"x", 2}})}}, "task_inputs");
  too_large(Read{std::vector(4, Every("k"))}, "tuples_per_request");
  EXPECT_EQ(d->space.GetStatistics().tuples, 0u);
}

TEST_F(PutReadTest, AFullSpaceIsBusyButAcknowledgesWhatItHas) {
  SpaceLimits limits;
  limits.payload_bytes = 10;
  limits.tuples = 3;
  Begin(limits);
  d->PutOne("a", Plain(Key{"k", 1}, "123456789"));
  EXPECT_EQ(d->Ask<RequestError>("a", Put{{Plain(Key{"k", 2}, "12")}}).code, ErrorCode::kBusy);
  EXPECT_EQ(d->PutOne("b", Plain(Key{"k", 1}, "123456789")), PutStatus::kDuplicate);
  EXPECT_EQ(d->PutOne("a", Plain(Key{"k", 2}, "1")), PutStatus::kStored);
  EXPECT_EQ(d->Ask<RequestError>("a", Put{{Task(Key{"t", 1}, {Key{"x", 1}})}}).code,
            ErrorCode::kBusy);
  EXPECT_EQ(d->PutOne("a", Plain(Key{"k", 3})), PutStatus::kStored);
  const RequestError busy = d->Ask<RequestError>("a", Put{{Plain(Key{"k", 4})}});
  EXPECT_EQ(busy.code, ErrorCode::kBusy);
  EXPECT_NE(busy.text.find("limits.tuples"), std::string::npos);
  EXPECT_EQ(d->Ask<RequestError>("a", Read{{Every("x")}, true, false, kForeverUs}).code,
            ErrorCode::kBusy);
  EXPECT_GE(d->counters().busy, 3u);
  EXPECT_EQ(d->counters().no_payload_room, 2u);
  EXPECT_EQ(d->counters().no_tuple_room, 1u);
  EXPECT_EQ(d->Ask<RetireReply>("a", Retire{Every("k"), false}).removed, 3u);
  EXPECT_EQ(d->PutOne("a", Plain(Key{"k", 4}, "1234567890")), PutStatus::kStored);
}

TEST_F(PutReadTest, ClientsAndTheirOpenRequestsAreLimited) {
  SpaceLimits limits;
  limits.clients = 2;
  limits.open_requests_per_client = 2;
  Begin(limits);
  d->Join("c");
  EXPECT_EQ(d->Expect<RequestError>("c", 0).code, ErrorCode::kBusy);
  EXPECT_EQ(d->Ask<RequestError>("c", GetStats{}).code, ErrorCode::kHelloRequired);
  d->Send("a", Read{{Every("x")}, true, false, kForeverUs});
  d->Send("a", testing::GetOf(Every("x")));
  EXPECT_EQ(d->Ask<RequestError>("a", Read{{Every("x")}, true, false, kForeverUs}).code,
            ErrorCode::kBusy);
  EXPECT_EQ(d->Ask<RequestError>("a", testing::GetOf(Every("x"))).code, ErrorCode::kBusy);
  d->Ask<Found>("a", Read{{Every("x")}});  // one that does not wait is accepted
  d->Lose("b");
  d->Join("c");
  d->Ask<Stats>("c", GetStats{});
  d->Join(std::string(65, 'x'));
  EXPECT_EQ(d->Expect<RequestError>(std::string(65, 'x'), 0).code, ErrorCode::kBadRequest);
}

TEST_F(PutReadTest, AWatermarkKeepsRetiredKeysAway) {
  for (int i = 0; i < 10; ++i) d->PutOne("a", Plain(Key{"k", i}));
  EXPECT_EQ(d->Ask<RetireReply>("a", Retire{UpTo("k", 4)}).removed, 5u);
  EXPECT_EQ(d->CountOf("a", Every("k")), 5u);
  EXPECT_EQ(d->PutOne("a", Plain(Key{"k", 4})), PutStatus::kRetired);
  EXPECT_EQ(d->PutOne("a", Plain(Key{"k", -100})), PutStatus::kRetired);
  EXPECT_EQ(d->PutOne("a", Plain(Key{"k", 5})), PutStatus::kDuplicate);
  EXPECT_EQ(d->PutOne("a", Plain(Key{"other", 4})), PutStatus::kStored);
  EXPECT_EQ(d->counters().retired_puts, 2u);
  // Watermarks only rise.
  EXPECT_EQ(d->Ask<RetireReply>("a", Retire{UpTo("k", 2)}).removed, 0u);
  EXPECT_EQ(d->PutOne("a", Plain(Key{"k", 4})), PutStatus::kRetired);
  EXPECT_EQ(d->Ask<RetireReply>("a", Retire{UpTo("k", 5)}).removed, 1u);
  EXPECT_EQ(d->PutOne("a", Plain(Key{"k", 5})), PutStatus::kRetired);
}

TEST_F(PutReadTest, RetiringWithoutAWatermarkLeavesTheKeyFree) {
  d->PutOne("a", Plain(Key{"k", 1}, "x"));
  EXPECT_EQ(d->Ask<RetireReply>("a", Retire{Every("k"), false}).removed, 1u);
  EXPECT_EQ(d->PutOne("a", Plain(Key{"k", 1}, "y")), PutStatus::kStored);
}

TEST_F(PutReadTest, WatermarksOfManyShapesAreKeptApart) {
  using P = FieldPattern;
  d->Ask<RetireReply>("a", Retire{{{P::Exact("j"), P::Any(), P::AtMost(3)}, false}});
  d->Ask<RetireReply>("a", Retire{{{P::Exact("j"), P::Exact("t"), P::AtMost(5)}, true}});
  d->Ask<RetireReply>("a", Retire{{{P::Prefix("pre"), P::AtMost(7)}, false}});
  EXPECT_EQ(d->PutOne("a", Plain(Key{"j", "x", 3})), PutStatus::kRetired);
  EXPECT_EQ(d->PutOne("a", Plain(Key{"j", "x", 4})), PutStatus::kStored);
  EXPECT_EQ(d->PutOne("a", Plain(Key{"j", "x", 3, 1})), PutStatus::kStored);
  EXPECT_EQ(d->PutOne("a", Plain(Key{"j", "t", 5, 1})), PutStatus::kRetired);
  EXPECT_EQ(d->PutOne("a", Plain(Key{"j", "t", 6, 1})), PutStatus::kStored);
  EXPECT_EQ(d->PutOne("a", Plain(Key{"prefix", 7})), PutStatus::kRetired);
  EXPECT_EQ(d->PutOne("a", Plain(Key{"prefix", 8})), PutStatus::kStored);
  EXPECT_EQ(d->PutOne("a", Plain(Key{"prefix", "7"})), PutStatus::kStored);
}

TEST_F(PutReadTest, OfTooManyWatermarksTheOneGoesThatWasRaisedLongestAgo) {
  SpaceLimits limits;
  limits.watermarks = 2;
  Begin(limits);
  d->Ask<RetireReply>("a", Retire{UpTo("k", 1)});
  d->Ask<RetireReply>("a", Retire{UpTo("old", 1)});
  d->Ask<RetireReply>("a", Retire{UpTo("k", 2)});
  d->Ask<RetireReply>("a", Retire{UpTo("new", 1)});
  EXPECT_EQ(d->PutOne("a", Plain(Key{"k", 2})), PutStatus::kRetired);
  EXPECT_EQ(d->PutOne("a", Plain(Key{"new", 1})), PutStatus::kRetired);
  EXPECT_EQ(d->PutOne("a", Plain(Key{"old", 1})), PutStatus::kStored);
}

TEST_F(PutReadTest, AnInputThatManyTasksLackTakesOneRecord) {
  SpaceLimits limits;
  limits.tuples = 4;
  Begin(limits);
  Put put;
  for (int i = 0; i < 3; ++i) put.tuples.push_back(Task(Key{"t", i}, {Key{"x", 1}}));
  const auto reply = d->Ask<PutReply>("a", put);
  EXPECT_EQ(reply.status, std::vector(3, PutStatus::kStored));
}

TEST_F(PutReadTest, EphemeralTuplesGoWithTheirClient) {
  Tuple ephemeral = Plain(Key{"capacity", 1});
  ephemeral.ephemeral = true;
  d->PutOne("a", ephemeral);
  d->PutOne("a", Plain(Key{"k", 1}));
  d->Join("a");  // it joins again: the tuples are still there
  EXPECT_EQ(d->CountOf("b", Every("capacity")), 1u);
  d->Lose("a");
  EXPECT_EQ(d->CountOf("b", Every("capacity")), 0u);
  EXPECT_EQ(d->CountOf("b", Every("k")), 1u);
}

TEST_F(PutReadTest, StatisticsCountWhatIsThere) {
  d->PutOne("a", Plain(Key{"k", 1}, "12345"));
  d->PutOne("a", Task(Key{"t", 1}, {Key{"x", 1}}));
  d->PutOne("a", Task(Key{"t", 2}));
  d->Ask<Ok>("b", Hold{{Key{"k", 1}, Key{"nowhere", 1}}, {}});
  d->Send("b", Read{{Every("y")}, true, false, kForeverUs});
  d->Send("b", testing::GetOf(Every("z")));
  const Stats stats = d->Ask<Stats>("a", GetStats{});
  EXPECT_EQ(stats.tuples, 3u);
  EXPECT_EQ(stats.payload_bytes, 13u);
  EXPECT_EQ(stats.tasks_waiting, 1u);
  EXPECT_EQ(stats.tasks_ready, 1u);
  EXPECT_EQ(stats.clients, 2u);
  EXPECT_EQ(stats.held_keys, 1u);
  EXPECT_EQ(stats.open_reads, 1u);
  EXPECT_EQ(stats.open_gets, 1u);
  EXPECT_EQ(stats.counters.puts, 3u);
  EXPECT_EQ(stats.counters.bytes_in, 13u);
}

TEST_F(PutReadTest, ALostClientLeavesNoOpenRequests) {
  d->Send("a", Read{{Every("x"), Pattern::Of(Key{"y", 1})}, false, false, 1000});
  d->Send("a", testing::GetOf(Every("x"), 0, 1000));
  d->Lose("a");
  EXPECT_EQ(d->space.NextDeadlineUs(), kForeverUs);
  d->PutOne("b", Plain(Key{"x", 1}));
  EXPECT_TRUE(d->replies["a"].empty());
  EXPECT_EQ(d->GetNow("b", Every("x")).size(), 1u);
}

}  // namespace
}  // namespace tuplespace
