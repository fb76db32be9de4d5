// Makers that do not supply their resident payloads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>

#include "space_resident.h"

namespace tuplespace {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using testing::Every;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kResidentTile;
using testing::Making;
using testing::Plain;
using testing::ReadOf;
using testing::Resident;
using testing::ResidentTest;
using ::testing::SizeIs;
using testing::Task;

TEST_F(ResidentTest, WhoSuppliesNothingForTooLongHasLostIt) {
  SpaceLimits limits;
  limits.supply_us = 1'000;
  Begin(limits);
  Make(kResidentTile, 1);
  Make(Key{"tile", 2}, 2);
  d->Advance(5'000);
  EXPECT_THAT(d->notices["owner"], IsEmpty()) << "nobody asked";
  d->Send("other", ReadOf(kResidentTile));
  d->Advance(900);
  SupplyOne("gpu", Plain(Key{"tile", 2}, "bytes"));
  d->Advance(900);
  EXPECT_THAT(d->notices["owner"], IsEmpty()) << "it is busy with others";
  d->Advance(100);
  EXPECT_THAT(Kinds("owner"), ElementsAre(Notice::Kind::kLost));
  EXPECT_THAT(Kinds("gpu"), ElementsAre(Notice::Kind::kWanted, Notice::Kind::kReleased));
  EXPECT_EQ(d->CountOf("other", Pattern::Of(kResidentTile)), 0u);
}

TEST_F(ResidentTest, SuppliesOfWhatDoesNotStayWithItDoNotCount) {
  SpaceLimits limits;
  limits.supply_us = 1'000;
  Begin(limits);
  Make(kResidentTile);
  d->PutOne("other", Plain(Key{"tile", 2}));
  d->Send("other", ReadOf(kResidentTile));
  d->Advance(900);
  EXPECT_EQ(SupplyOne("gpu", Plain(Key{"tile", 2}, "bytes")), PutStatus::kDuplicate);
  EXPECT_EQ(SupplyOne("gpu", Plain(Key{"tile", 3}, "bytes")), PutStatus::kRetired);
  d->Ask<PutReply>("gpu", Supply{});
  d->Advance(100);
  EXPECT_THAT(Kinds("owner"), ElementsAre(Notice::Kind::kLost));
}

TEST_F(ResidentTest, APayloadThatIsArrivingIsNotLost) {
  SpaceLimits limits;
  limits.supply_us = 1'000;
  Begin(limits);
  Make(kResidentTile);
  const RequestId read = d->Send("other", ReadOf(kResidentTile));
  for (int i = 0; i < 8; ++i) {
    d->Advance(900);
    d->Step(ClientSends{"gpu"});
  }
  EXPECT_THAT(d->notices["owner"], IsEmpty());
  EXPECT_EQ(SupplyOne("gpu", Plain(kResidentTile, "bytes")), PutStatus::kStored);
  EXPECT_THAT(d->Expect<Found>("other", read).tuples, SizeIs(1));
}

TEST_F(ResidentTest, APayloadThatArrivesForEverIsLost) {
  SpaceLimits limits;
  limits.supply_us = 1'000;
  Begin(limits);
  Make(kResidentTile);
  d->Send("other", ReadOf(kResidentTile));
  std::int64_t waited_us = 0;
  for (; waited_us < 20'000 && d->notices["owner"].empty(); waited_us += 500) {
    d->Advance(500);
    d->Step(ClientSends{"gpu"});
  }
  EXPECT_THAT(Kinds("owner"), ElementsAre(Notice::Kind::kLost));
  EXPECT_EQ(waited_us, 10'000);
}

// Of a role that may read any whole key.
ClientLimits OfHandlers() {
  ClientLimits limits;
  limits.leaves_nothing = true;
  return limits;
}

TEST_F(ResidentTest, AReadOfAClientWithoutATaskStartsNoClock) {
  SpaceLimits limits;
  limits.supply_us = 1'000;
  Begin(limits);
  d->Step(ClientJoined{"evil/1", "evil", OfHandlers()});
  Make(kResidentTile, 1);
  Make(Key{"tile", 2}, 2);
  d->Ask<Found>("evil/1", Read{{Pattern::Of(kResidentTile), Pattern::Of(Key{"tile", 2})}});
  EXPECT_THAT(Kinds("gpu"), ElementsAre(Notice::Kind::kWanted, Notice::Kind::kWanted));
  d->Advance(100 * limits.supply_us);
  EXPECT_THAT(d->notices["owner"], IsEmpty());
  EXPECT_EQ(SupplyOne("gpu", Plain(Key{"tile", 2}, "bytes")), PutStatus::kStored);
  d->Advance(limits.supply_us);
  d->Send("other", ReadOf(kResidentTile));
  EXPECT_THAT(Kinds("gpu"), SizeIs(2)) << "it was asked before";
  d->Advance(limits.supply_us - 1);
  EXPECT_THAT(d->notices["owner"], IsEmpty());
  d->Advance(1);
  EXPECT_THAT(Kinds("owner"), ElementsAre(Notice::Kind::kLost));
}

TEST_F(ResidentTest, AReadForATaskStartsTheClock) {
  SpaceLimits limits;
  limits.supply_us = 1'000;
  Begin(limits);
  d->Step(ClientJoined{"key/1", "key", OfHandlers()});
  Make(kResidentTile);
  d->PutOne("owner", Task(Key{"task", 2}, {kResidentTile}));
  d->TakeNow("key/1", Every("task"));
  d->Send("key/1", ReadOf(kResidentTile));
  d->Advance(limits.supply_us);
  EXPECT_THAT(Kinds("owner"), Contains(Notice::Kind::kLost));
}

// Otherwise what is needed would have to wait for what one client reads ahead.
TEST_F(ResidentTest, LittleIsAskedForAhead) {
  SpaceLimits limits;
  limits.asked_ahead_bytes = 8;
  Begin(limits);
  d->Step(ClientJoined{"key/1", "key", OfHandlers()});
  for (std::int64_t i = 1; i <= 3; ++i) {
    Make(Key{"tile", i}, i);
    d->Send("key/1", ReadOf(Key{"tile", i}));
  }
  EXPECT_THAT(d->notices["gpu"], SizeIs(2));
  d->Send("other", ReadOf(Key{"tile", 3}));
  EXPECT_THAT(d->notices["gpu"], SizeIs(3)) << "others do not wait for that";
  EXPECT_EQ(SupplyOne("gpu", Plain(Key{"tile", 1}, "bytes")), PutStatus::kStored);
  Make(Key{"tile", 4}, 4);
  d->Send("key/1", ReadOf(Key{"tile", 4}));
  EXPECT_THAT(d->notices["gpu"], SizeIs(4));
}

// Their lengths are limited, and others could do the task meanwhile.
TEST_F(ResidentTest, TasksAreNotKeptByAMessageThatIsArriving) {
  Tuple task = Task(Key{"task", 1});
  task.task->lease_us = 1'000;
  d->PutOne("owner", task);
  d->PutOne("owner", Plain(Key{"lock", 1}));
  d->TakeNow("gpu", Every("task"));
  Get lock = testing::GetOf(Every("lock"));
  lock.lease_us = 1'000;
  d->Ask<Grants>("gpu", lock);
  d->Advance(900);
  d->Step(ClientSends{"gpu"});
  d->Advance(100);
  EXPECT_EQ(d->counters().leases_expired, 1u) << "that of the task";
  EXPECT_THAT(d->GetNow("other", Every("task")), SizeIs(1));
  EXPECT_THAT(d->GetNow("other", Every("lock")), IsEmpty());
  d->Advance(900);
  EXPECT_THAT(d->GetNow("other", Every("lock")), SizeIs(1)) << "nothing came for a whole lease";
}

TEST_F(ResidentTest, SuppliesOfOthersDoNotKeepItForEver) {
  SpaceLimits limits;
  limits.supply_us = 1'000;
  Begin(limits);
  constexpr std::int64_t kOthers = 20;
  for (std::int64_t i = 0; i <= kOthers; ++i) Make(Key{"tile", i}, i);
  d->Send("other", ReadOf(Key{"tile", 0}));
  std::int64_t waited_us = 0;
  for (std::int64_t i = 1; i <= kOthers && d->notices["owner"].empty(); ++i) {
    d->Advance(900);
    waited_us += 900;
    SupplyOne("gpu", Plain(Key{"tile", i}, "bytes"));
  }
  EXPECT_THAT(Kinds("owner"), ElementsAre(Notice::Kind::kLost));
  EXPECT_GE(waited_us, 10'000);
}

TEST_F(ResidentTest, WhoDoesNotSupplyGetsNoTasksAndIsWaitedForHalfAsLongNextTime) {
  SpaceLimits limits;
  limits.supply_us = 1'000;
  limits.first_bench_us = 100;
  Begin(limits);
  EXPECT_THAT(d->GetNow("other", Every("task")), IsEmpty());  // so it could do the tasks
  std::int64_t patience_us = limits.supply_us;
  for (std::int64_t i = 0; i < 4; ++i) {
    Make(Key{"tile", i}, i);
    d->Send("other", ReadOf(Key{"tile", i}));
    d->Advance(patience_us - 1);
    EXPECT_THAT(d->notices["owner"], IsEmpty()) << i;
    d->Advance(1);
    EXPECT_THAT(Kinds("owner"), ElementsAre(Notice::Kind::kLost, Notice::Kind::kMistrusted));
    EXPECT_THAT(d->notices["owner"].back().text, HasSubstr("receives no tasks for the next 1 ms"))
        << i;
    d->notices["owner"].clear();
    d->PutOne("owner", Task(Key{"task", 100 + i}));
    EXPECT_THAT(d->GetNow("gpu", Every("task")), IsEmpty()) << i;
    d->Done("other", d->TakeNow("other", Every("task")));
    d->Advance(limits.supply_us);  // as long as the bench, whose doublings are shorter
    patience_us /= 2;
  }
}

TEST_F(ResidentTest, ANewClientOfAKeyThatDidNotSupplyIsWaitedForHalfAsLong) {
  SpaceLimits limits;
  limits.supply_us = 1'000;
  limits.first_bench_us = 100;
  Begin(limits);
  EXPECT_THAT(d->GetNow("other", Every("task")), IsEmpty());  // so it could do the tasks
  std::int64_t patience_us = limits.supply_us;
  for (std::int64_t i = 0; i < 4; ++i) {
    const ClientId client = "evil/" + std::to_string(i);
    d->Step(ClientJoined{client, "evil", {}});
    Make(Key{"tile", i}, i, client);
    d->Send("other", ReadOf(Key{"tile", i}));
    d->Advance(patience_us - 1);
    EXPECT_THAT(d->notices["owner"], IsEmpty()) << i;
    d->Advance(1);
    EXPECT_THAT(Kinds("owner"), ElementsAre(Notice::Kind::kLost, Notice::Kind::kMistrusted));
    d->notices["owner"].clear();
    d->Advance(2 * limits.supply_us);  // longer than the bench
    patience_us /= 2;
  }
}

TEST_F(ResidentTest, WhoIsAloneIsNotBenchedForWhatItDoesNotSupply) {
  SpaceLimits limits;
  limits.supply_us = 1'000;
  Begin(limits);
  Make(kResidentTile);
  d->Send("other", ReadOf(kResidentTile));
  d->Advance(1'000);
  EXPECT_THAT(Kinds("owner"), ElementsAre(Notice::Kind::kLost));
  d->PutOne("owner", Task(Key{"task", 2}));
  EXPECT_THAT(d->GetNow("gpu", Every("task")), SizeIs(1));
}

TEST_F(ResidentTest, APayloadThatIsDueMayNotStay) {
  Tuple task = Making(Task(Key{"task", 1}), {Key{"tile", 1}, Key{"tile", 2}});
  task.task->due = {1};
  d->PutOne("owner", task);
  const LeaseRef lease = d->TakeNow("gpu", Every("task"));
  const RequestError error = d->Ask<RequestError>(
      "gpu", Complete{lease, {Resident(Key{"tile", 1}), Resident(Key{"tile", 2})}});
  EXPECT_EQ(error.code, ErrorCode::kBadRequest);
  EXPECT_THAT(error.text, HasSubstr("does not bring the payload of (\"tile\", 2)"));
  EXPECT_EQ(d->CountOf("owner", Every("tile")), 0u);
  const CompleteReply reply = d->Done("other", d->TakeNow("other", Every("task")),
                                      {Plain(Key{"tile", 2}, "bytes"), Resident(Key{"tile", 1})});
  EXPECT_THAT(reply.results, ElementsAre(PutStatus::kStored, PutStatus::kStored));
}

TEST_F(ResidentTest, ResultsHaveNoMoreBytesThanTheTaskSays) {
  EXPECT_THAT(d->GetNow("other", Every("task")), IsEmpty());  // so it could do the task
  Tuple task = Making(Task(Key{"task", 1}), {Key{"tile", 1}, Key{"tile", 2}});
  task.task->most_result_bytes = 10;
  d->PutOne("owner", task);
  const LeaseRef lease = d->TakeNow("gpu", Every("task"));
  const RequestError error = d->Ask<RequestError>(
      "gpu", Complete{lease, {Plain(Key{"tile", 1}, "12345"), Resident(Key{"tile", 2}, 6)}});
  EXPECT_EQ(error.code, ErrorCode::kBadRequest);
  EXPECT_THAT(error.text, HasSubstr("brings results of 11 bytes, they have at most 10"));
  EXPECT_EQ(d->CountOf("owner", Every("tile")), 0u);
  EXPECT_EQ(d->counters().benched, 1u);
  const CompleteReply reply =
      d->Done("other", d->TakeNow("other", Every("task")),
              {Plain(Key{"tile", 1}, "12345"), Resident(Key{"tile", 2}, 5)});
  EXPECT_THAT(reply.results, ElementsAre(PutStatus::kStored, PutStatus::kStored));
}

TEST_F(ResidentTest, WhatIsDueAreIndicesOfResults) {
  Tuple task = Making(Task(Key{"task", 1}), {Key{"tile", 1}, Key{"tile", 2}});
  for (const std::vector<std::uint32_t>& due :
       {std::vector<std::uint32_t>{2}, {0, 0}, {1, 0}, {0, 1, 2}}) {
    task.task->due = due;
    const RequestError error = d->Ask<RequestError>("owner", Put{{task}});
    EXPECT_EQ(error.code, ErrorCode::kBadRequest);
    EXPECT_THAT(error.text, HasSubstr("must be ascending indices into 2 results"));
  }
  task.task->due = {0, 1};
  EXPECT_EQ(d->PutOne("owner", task), PutStatus::kStored);
}

TEST_F(ResidentTest, WhoWaitsForAPayloadOfAnotherMayExtendItsLease) {
  constexpr std::int64_t kShortUs = 1'000;
  SpaceLimits limits;
  limits.supply_us = 100 * kShortUs;
  limits.lease_extensions = 4;
  Begin(limits);
  d->Join("third");
  EXPECT_THAT(d->GetNow("third", Every("task")), IsEmpty());  // so it could do the task
  Make(kResidentTile, 1);
  Tuple task = Task(Key{"task", 2}, {kResidentTile});
  task.task->lease_us = kShortUs;
  d->PutOne("owner", task);
  const LeaseRef lease = d->TakeNow("other", Every("task"));
  d->Send("other", ReadOf(kResidentTile));
  const auto extend_for = [&](std::int64_t us) {
    LeaseStatus status = LeaseStatus::kOk;
    for (std::int64_t at_us = 0; at_us < us && status == LeaseStatus::kOk; at_us += kShortUs / 2) {
      d->Advance(kShortUs / 2);
      status = d->Ask<LeaseReply>("other", Extend{lease, kShortUs}).lease;
    }
    return status;
  };
  EXPECT_EQ(extend_for(20 * kShortUs), LeaseStatus::kOk) << "gpu was asked for the tile";
  SupplyOne("gpu", Plain(kResidentTile, "bytes"));
  EXPECT_EQ(extend_for(3 * kShortUs), LeaseStatus::kOk) << "now it computes";
  EXPECT_THAT(d->notices["owner"], IsEmpty());
  EXPECT_EQ(extend_for(2 * kShortUs), LeaseStatus::kStale) << "for too long";
  EXPECT_THAT(Kinds("owner"), ElementsAre(Notice::Kind::kMistrusted));
}

}  // namespace
}  // namespace tuplespace
