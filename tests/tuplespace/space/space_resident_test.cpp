// Payloads that stay with the client that made them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "space_resident.h"

namespace tuplespace {
namespace {

using ::testing::ElementsAre;
using testing::Every;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::kResidentTile;
using testing::Plain;
using testing::ReadOf;
using testing::Resident;
using testing::ResidentTest;
using ::testing::SizeIs;
using testing::Task;
using testing::UpTo;

TEST_F(ResidentTest, MetadataShowsItAtOnce) {
  Make(kResidentTile);
  Read read = ReadOf(kResidentTile, 0);
  read.metadata_only = true;
  const Found found = d->Ask<Found>("other", read);
  ASSERT_THAT(found.tuples, SizeIs(1));
  EXPECT_TRUE(found.tuples[0].resident);
  EXPECT_EQ(found.tuples[0].payload_bytes, 5u);
  EXPECT_EQ(found.tuples[0].put_by, "gpu");
  EXPECT_EQ(d->CountOf("other", Every("tile")), 1u);
  EXPECT_THAT(d->notices["gpu"], IsEmpty()) << "nobody asked for its bytes";
  EXPECT_EQ(d->space.GetStatistics().payload_bytes, 0u);
  EXPECT_EQ(d->counters().stayed, 1u);
}

TEST_F(ResidentTest, OfManyThatMatchAPatternOneIsAskedFor) {
  Make(kResidentTile, 1);
  Make(Key{"tile", 2}, 2);
  const RequestId id = d->Send("other", Read{{Every("tile")}, true, false, kForeverUs});
  EXPECT_THAT(Kinds("gpu"), ElementsAre(Notice::Kind::kWanted));
  EXPECT_EQ(SupplyOne("gpu", Plain(kResidentTile, "bytes")), PutStatus::kStored);
  EXPECT_EQ(d->Expect<Found>("other", id).tuples.at(0).key, kResidentTile);
  // A match that is in the space is found without asking for the others.
  EXPECT_EQ(d->Ask<Found>("other", Read{{Every("tile")}, true, false, 0}).tuples.size(), 1u);
  EXPECT_THAT(d->notices["gpu"], SizeIs(1));
}

// The bytes go to the space, but not to the reader.
TEST_F(ResidentTest, MetadataMayWaitUntilThePayloadIsInTheSpace) {
  Make(kResidentTile);
  Read read = ReadOf(kResidentTile);
  read.metadata_only = read.in_space = true;
  const RequestId id = d->Send("other", read);
  EXPECT_EQ(d->ReplyTo("other", id), std::nullopt);
  EXPECT_THAT(Kinds("gpu"), ElementsAre(Notice::Kind::kWanted));
  EXPECT_EQ(SupplyOne("gpu", Plain(kResidentTile, "bytes")), PutStatus::kStored);
  const Found found = d->Expect<Found>("other", id);
  ASSERT_THAT(found.tuples, SizeIs(1));
  EXPECT_FALSE(found.tuples[0].resident);
  EXPECT_EQ(found.tuples[0].payload_bytes, 5u);
  EXPECT_EQ(found.tuples[0].payload.size(), 0u);
  EXPECT_EQ(d->Ask<Found>("other", read).tuples.size(), 1u) << "it is there by now";
}

TEST_F(ResidentTest, AllKeysOfARequestAreAskedForTogether) {
  Make(kResidentTile, 1);
  Make(Key{"tile", 2}, 2);
  Read read{{Pattern::Of(kResidentTile), Pattern::Of(Key{"tile", 2})}};
  read.wait_us = kForeverUs;
  d->Send("other", read);
  EXPECT_THAT(d->notices["gpu"], SizeIs(2));
}

TEST_F(ResidentTest, WhoReadsItWaitsAndItIsAskedForOnce) {
  Make(kResidentTile);
  const RequestId first = d->Send("other", ReadOf(kResidentTile));
  const RequestId second = d->Send("owner", Read{{Every("tile")}, true, false, kForeverUs});
  EXPECT_EQ(d->ReplyTo("other", first), std::nullopt);
  EXPECT_EQ(d->ReplyTo("owner", second), std::nullopt);
  EXPECT_THAT(Kinds("gpu"), ElementsAre(Notice::Kind::kWanted));
  EXPECT_EQ(d->notices["gpu"][0].key, kResidentTile);
  EXPECT_EQ(SupplyOne("gpu", Plain(kResidentTile, "bytes")), PutStatus::kStored);
  for (const auto& [client, id] : {std::pair("other", first), std::pair("owner", second)}) {
    const Found found = d->Expect<Found>(client, id);
    ASSERT_THAT(found.tuples, SizeIs(1));
    EXPECT_EQ(found.tuples[0].payload.text(), "bytes");
    EXPECT_FALSE(found.tuples[0].resident);
    EXPECT_FALSE(found.timed_out);
  }
  EXPECT_EQ(d->space.GetStatistics().payload_bytes, 5u);
  EXPECT_EQ(d->counters().wanted, 1u);
}

TEST_F(ResidentTest, WhoReadsBeforeItIsMadeGetsItTheSameWay) {
  const RequestId id = d->Send("other", ReadOf(kResidentTile));
  Make(kResidentTile);
  EXPECT_EQ(d->ReplyTo("other", id), std::nullopt);
  EXPECT_THAT(Kinds("gpu"), ElementsAre(Notice::Kind::kWanted));
  SupplyOne("gpu", Plain(kResidentTile, "bytes"));
  EXPECT_EQ(d->Expect<Found>("other", id).tuples.at(0).payload.text(), "bytes");
}

TEST_F(ResidentTest, AReadThatDoesNotWaitAsksForItAllTheSame) {
  Make(kResidentTile);
  const Found found = d->Ask<Found>("other", ReadOf(kResidentTile, 0));
  EXPECT_TRUE(found.timed_out);
  EXPECT_THAT(found.tuples, IsEmpty());
  EXPECT_THAT(Kinds("gpu"), ElementsAre(Notice::Kind::kWanted));
  SupplyOne("gpu", Plain(kResidentTile, "bytes"));
  EXPECT_THAT(d->Ask<Found>("other", ReadOf(kResidentTile, 0)).tuples, SizeIs(1));
}

TEST_F(ResidentTest, AnotherTupleOfThePatternServesAsWell) {
  Make(kResidentTile);
  d->PutOne("owner", Plain(Key{"tile", 2}, "there"));
  const Found found = d->Ask<Found>("other", Read{{Every("tile")}});
  ASSERT_THAT(found.tuples, SizeIs(1));
  EXPECT_EQ(found.tuples[0].payload.text(), "there");
}

TEST_F(ResidentTest, ItsHolderIsToldThatItHasIt) {
  Make(kResidentTile);
  const Found found = d->Ask<Found>("gpu", ReadOf(kResidentTile, 0));
  ASSERT_THAT(found.tuples, SizeIs(1));
  EXPECT_TRUE(found.tuples[0].resident);
  EXPECT_TRUE(found.tuples[0].payload.empty());
  EXPECT_THAT(d->notices["gpu"], IsEmpty());
}

TEST_F(ResidentTest, AListShowsItWithoutItsPayload) {
  Make(kResidentTile);
  const Found found = d->Ask<Found>("other", List{Every("tile")});
  ASSERT_THAT(found.tuples, SizeIs(1));
  EXPECT_TRUE(found.tuples[0].resident);
  EXPECT_TRUE(found.tuples[0].payload.empty());
}

TEST_F(ResidentTest, TasksThatNeedItCanBeTaken) {
  Make(kResidentTile);
  d->PutOne("owner", Task(Key{"next", 1}, {kResidentTile}));
  Get get = testing::GetOf(Every("next"));
  get.with_inputs = true;
  Grant grant = d->Ask<Grants>("gpu", get).grants.at(0);
  EXPECT_FALSE(grant.input_sent.at(0)) << "it has it";
  EXPECT_THAT(d->notices["gpu"], IsEmpty());
  d->Ask<LeaseReply>("gpu", Release{{grant.key, grant.fence}});

  grant = d->Ask<Grants>("other", get).grants.at(0);
  EXPECT_FALSE(grant.input_sent.at(0));
  EXPECT_TRUE(grant.inputs.at(0).resident) << "who takes it reads it";
  EXPECT_THAT(Kinds("gpu"), ElementsAre(Notice::Kind::kWanted)) << "who is asked ahead of that";
  d->Ask<LeaseReply>("other", Release{{grant.key, grant.fence}});

  SupplyOne("gpu", Plain(kResidentTile, "bytes"));
  grant = d->Ask<Grants>("other", get).grants.at(0);
  EXPECT_TRUE(grant.input_sent.at(0));
  EXPECT_EQ(grant.inputs.at(0).payload.text(), "bytes");
}

TEST_F(ResidentTest, NobodyTakesItBeforeItsPayloadIsThere) {
  Make(kResidentTile);
  const RequestId waiting = d->Send("other", testing::GetOf(Every("tile")));
  EXPECT_THAT(d->GetNow("owner", Every("tile")), IsEmpty());
  EXPECT_THAT(d->GetNow("owner", UpTo("tile", 7)), IsEmpty()) << "a pattern that is new";
  SupplyOne("gpu", Plain(kResidentTile, "bytes"));
  EXPECT_EQ(d->Expect<Grants>("other", waiting).grants.at(0).payload.text(), "bytes");
}

TEST_F(ResidentTest, OnlyItsHolderSuppliesItAndOnlyOnce) {
  Make(kResidentTile);
  EXPECT_EQ(SupplyOne("other", Plain(kResidentTile, "wrong")), PutStatus::kDuplicate);
  EXPECT_EQ(SupplyOne("gpu", Plain(Key{"tile", 2}, "bytes")), PutStatus::kRetired);
  EXPECT_EQ(SupplyOne("gpu", Plain(kResidentTile, "bytes")), PutStatus::kStored);
  EXPECT_EQ(SupplyOne("gpu", Plain(kResidentTile, "other")), PutStatus::kDuplicate);
  EXPECT_EQ(d->Ask<Found>("other", ReadOf(kResidentTile, 0)).tuples.at(0).payload.text(), "bytes");
  EXPECT_EQ(d->CountOf("other", Every("tile")), 1u);
}

TEST_F(ResidentTest, TheFirstPutWinsThoughItsBytesAreNotThere) {
  Make(kResidentTile);
  EXPECT_EQ(d->PutOne("other", Plain(kResidentTile, "bytes")), PutStatus::kDuplicate);
  EXPECT_EQ(d->PutOne("other", Resident(kResidentTile)), PutStatus::kDuplicate);
  EXPECT_EQ(d->PutOne("gpu", Resident(kResidentTile)), PutStatus::kStored)
      << "it holds what it says";
  EXPECT_EQ(d->counters().conflicts, 0u);
  SupplyOne("gpu", Plain(kResidentTile, "bytes"));
  EXPECT_EQ(d->PutOne("other", Resident(kResidentTile)), PutStatus::kDuplicate);
  EXPECT_EQ(d->PutOne("other", Plain(kResidentTile, "wrong")), PutStatus::kConflict);
}

TEST_F(ResidentTest, WhoSaysThatItDroppedItHoldsItStill) {
  Make(kResidentTile);
  d->Ask<Ok>("gpu", Hold{{}, {kResidentTile}});
  EXPECT_EQ(SupplyOne("gpu", Plain(kResidentTile, "bytes")), PutStatus::kStored);
}

TEST_F(ResidentTest, WhoHadACopyMayDropIt) {
  Make(kResidentTile);
  d->Ask<Ok>("other", Hold{{kResidentTile}, {}});
  d->Ask<Ok>("other", Hold{{}, {kResidentTile}});
  EXPECT_EQ(d->space.GetStatistics().held_keys, 1u);
}

TEST_F(ResidentTest, IsHeldWhateverTheLimitOfHolds) {
  SpaceLimits limits;
  limits.held_keys_per_client = 0;
  Begin(limits);
  Make(kResidentTile);
  d->PutOne("owner", Task(Key{"next", 1}, {kResidentTile}));
  Get get = testing::GetOf(Every("next"));
  get.with_inputs = true;
  EXPECT_FALSE(d->Ask<Grants>("gpu", get).grants.at(0).input_sent.at(0));
  EXPECT_THAT(d->notices["gpu"], IsEmpty());
}

TEST_F(ResidentTest, ItsHolderIsToldWhenItIsGone) {
  Make(kResidentTile);
  d->Ask<RetireReply>("owner", Retire{UpTo("tile", 1), true});
  EXPECT_THAT(Kinds("gpu"), ElementsAre(Notice::Kind::kReleased));
  EXPECT_EQ(SupplyOne("gpu", Plain(kResidentTile, "bytes")), PutStatus::kRetired);
  EXPECT_EQ(d->counters().lost, 0u);
}

TEST_F(ResidentTest, WhoWaitsForItWaitsOnWhenItIsGone) {
  Make(kResidentTile);
  const RequestId id = d->Send("other", ReadOf(kResidentTile));
  d->Ask<RetireReply>("owner", Retire{Pattern::Of(kResidentTile), false});
  EXPECT_EQ(d->ReplyTo("other", id), std::nullopt);
  d->PutOne("owner", Plain(kResidentTile, "again"));
  EXPECT_EQ(d->Expect<Found>("other", id).tuples.at(0).payload.text(), "again");
}

TEST_F(ResidentTest, IsLostWithItsHolder) {
  Make(kResidentTile, 1);
  Make(Key{"tile", 2}, 2);
  Make(Key{"tile", 3}, 3);
  SupplyOne("gpu", Plain(Key{"tile", 3}, "bytes"));
  d->PutOne("owner", Task(Key{"next", 1}, {kResidentTile}));
  const RequestId id = d->Send("other", ReadOf(kResidentTile));
  d->Lose("gpu");
  EXPECT_EQ(d->CountOf("other", Every("tile")), 1u) << "the one that was supplied";
  EXPECT_EQ(d->counters().lost, 2u);
  // One notice for both results, and before those of orphaned tasks.
  EXPECT_THAT(Kinds("owner"), ElementsAre(Notice::Kind::kLost, Notice::Kind::kOrphaned));
  const Notice& lost = d->notices["owner"][0];
  EXPECT_EQ(lost.key, kResidentTile);
  EXPECT_EQ(lost.by, "gpu");
  EXPECT_THAT(lost.text, HasSubstr("2 results"));
  // The result can be put again.
  EXPECT_EQ(d->ReplyTo("other", id), std::nullopt);
  EXPECT_EQ(d->PutOne("other", Plain(kResidentTile, "bytes")), PutStatus::kStored);
  EXPECT_THAT(d->Expect<Found>("other", id).tuples, SizeIs(1));
}

TEST_F(ResidentTest, IsNotLostWithOneWhoSaysThatItHasACopy) {
  Make(kResidentTile);
  d->Ask<Ok>("other", Hold{{kResidentTile}, {}});
  d->Lose("other");
  EXPECT_THAT(d->notices["owner"], IsEmpty());
  EXPECT_EQ(SupplyOne("gpu", Plain(kResidentTile, "bytes")), PutStatus::kStored);
}

// Otherwise the owner would not be told if the result is lost.
TEST_F(ResidentTest, StaysOnlyIfItsTaskIsCompleted) {
  d->PutOne("owner", testing::Making(Task(Key{"task", 1}), {kResidentTile, Key{"sum", 1}}));
  const LeaseRef lease = d->TakeNow("gpu", Every("task"));
  d->Ask<RetireReply>("owner", Retire{Every("task"), false});
  const CompleteReply reply =
      d->Done("gpu", lease, {Resident(kResidentTile), Plain(Key{"sum", 1}, "3")});
  EXPECT_EQ(reply.lease, LeaseStatus::kStale);
  EXPECT_THAT(reply.results, ElementsAre(PutStatus::kRefused, PutStatus::kRefused));
  EXPECT_EQ(d->CountOf("owner", Every("tile")), 0u);
  // A result that is there already stays with its maker.
  Make(kResidentTile, 2);
  EXPECT_THAT(d->Done("gpu", lease, {Resident(kResidentTile)}).results,
              ElementsAre(PutStatus::kStored));
  EXPECT_THAT(d->Done("other", lease, {Resident(kResidentTile)}).results,
              ElementsAre(PutStatus::kDuplicate));
}

TEST_F(ResidentTest, WhoPutItWithoutATaskIsNotTold) {
  d->PutOne("gpu", Resident(kResidentTile));
  d->Lose("gpu");
  EXPECT_EQ(d->CountOf("other", Every("tile")), 0u);
  EXPECT_TRUE(d->notices["owner"].empty());
}

TEST_F(ResidentTest, MalformedOnesAreRefused) {
  const auto refused = [&](RequestBody body) {
    return d->Ask<RequestError>("gpu", std::move(body)).text;
  };
  Tuple with_payload = Resident(kResidentTile);
  with_payload.payload = Payload::Copy("bytes");
  EXPECT_THAT(refused(Put{{with_payload}}), HasSubstr("stays with the client"));
  Tuple task = Task(kResidentTile);
  task.payload = {};
  task.resident_bytes = 5;
  EXPECT_THAT(refused(Put{{task}}), HasSubstr("stays with the client"));
  Tuple ephemeral = Resident(kResidentTile);
  ephemeral.ephemeral = true;
  EXPECT_THAT(refused(Put{{ephemeral}}), HasSubstr("stays with the client"));
  EXPECT_THAT(refused(Put{{Resident(kResidentTile, UINT64_MAX)}}),
              HasSubstr("limits.message_bytes"));
  Make(kResidentTile);
  EXPECT_THAT(refused(Supply{{Plain(kResidentTile, "four")}}),
              HasSubstr("4 bytes, must have the 5"));
  EXPECT_THAT(refused(Supply{{Plain(kResidentTile)}}), HasSubstr("must have its payload"));
  EXPECT_THAT(refused(Supply{{Task(kResidentTile)}}), HasSubstr("must have its payload"));
  EXPECT_EQ(SupplyOne("gpu", Plain(kResidentTile, "bytes")), PutStatus::kStored)
      << "nothing was changed";
}

TEST_F(ResidentTest, ItsBytesNeedRoomWhenTheyCome) {
  SpaceLimits limits;
  limits.payload_bytes = 8;
  Begin(limits);
  Make(kResidentTile);
  d->PutOne("owner", Plain(Key{"k", 1}, "four"));
  EXPECT_EQ(d->Ask<RequestError>("gpu", Supply{{Plain(kResidentTile, "bytes")}}).code,
            ErrorCode::kBusy);
  EXPECT_EQ(d->counters().no_payload_room, 1u);
  d->Ask<RetireReply>("owner", Retire{Every("k"), false});
  EXPECT_EQ(SupplyOne("gpu", Plain(kResidentTile, "bytes")), PutStatus::kStored);
}

}  // namespace
}  // namespace tuplespace
