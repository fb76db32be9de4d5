// The places of payloads: what readers that fetch from the holder get instead of the bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>

#include "space_resident.h"

namespace tuplespace {
namespace {

using ::testing::ElementsAre;
using testing::Every;
using testing::kResidentTile;
using testing::Plain;
using testing::ReadOf;
using testing::Resident;
using testing::ResidentTest;
using ::testing::SizeIs;
using testing::Task;

TEST_F(ResidentTest, WhoAsksForAPlaceGetsOneIfTheHolderListens) {
  Make(kResidentTile);
  Read read = ReadOf(kResidentTile);
  read.direct = true;
  const RequestId waiting = d->Send("other", read);
  EXPECT_FALSE(d->ReplyTo("other", waiting)) << "nobody listens, so its bytes are awaited";
  EXPECT_THAT(Kinds("gpu"), ElementsAre(Notice::Kind::kWanted));
  d->Step(ClientListens{"gpu"});
  const Found found = d->Ask<Found>("other", read);
  ASSERT_THAT(found.tuples, SizeIs(1));
  EXPECT_TRUE(found.tuples[0].resident);
  EXPECT_TRUE(found.tuples[0].place);
  EXPECT_TRUE(found.tuples[0].payload.empty());
  EXPECT_EQ(found.tuples[0].payload_bytes, 5u);
  EXPECT_EQ(found.tuples[0].put_by, "gpu");
  EXPECT_THAT(Kinds("gpu"), ElementsAre(Notice::Kind::kWanted)) << "it is not asked again";
  EXPECT_EQ(d->space.GetStatistics().counters.placed, 1u);
  EXPECT_EQ(d->space.GetStatistics().counters.placed_bytes, 5u);
}

TEST_F(ResidentTest, WhoDoesNotAskForPlacesWaitsForTheBytes) {
  d->Step(ClientListens{"gpu"});
  Make(kResidentTile);
  const RequestId read = d->Send("other", ReadOf(kResidentTile));
  EXPECT_FALSE(d->ReplyTo("other", read));
  EXPECT_THAT(Kinds("gpu"), ElementsAre(Notice::Kind::kWanted));
  EXPECT_EQ(SupplyOne("gpu", Plain(kResidentTile, "bytes")), PutStatus::kStored);
  EXPECT_EQ(d->Expect<Found>("other", read).tuples.at(0).payload.text(), "bytes");
}

TEST_F(ResidentTest, TheHolderItselfNeedsNoPlaceAndMetadataHasNone) {
  d->Step(ClientListens{"gpu"});
  Make(kResidentTile);
  Read read = ReadOf(kResidentTile);
  read.direct = true;
  EXPECT_FALSE(d->Ask<Found>("gpu", read).tuples.at(0).place);
  read.metadata_only = true;
  EXPECT_FALSE(d->Ask<Found>("other", read).tuples.at(0).place);
  read.in_space = true;  // waits until the space has the payload
  EXPECT_FALSE(d->ReplyTo("other", d->Send("other", read)));
  EXPECT_THAT(Kinds("gpu"), ElementsAre(Notice::Kind::kWanted));
}

TEST_F(ResidentTest, AGrantHasThePlacesOfItsInputs) {
  d->Step(ClientListens{"gpu"});
  Make(kResidentTile);
  for (const bool direct : {true, false}) {
    d->PutOne("owner", Task(Key{"task", direct ? 2 : 3}, {kResidentTile}));
    Get get = testing::GetOf(Every("task"));
    get.with_inputs = true;
    get.direct = direct;
    const Grants granted = d->Ask<Grants>("other", std::move(get));
    ASSERT_THAT(granted.grants, SizeIs(1));
    EXPECT_FALSE(granted.grants[0].input_sent.at(0));
    EXPECT_EQ(granted.grants[0].inputs.at(0).place != nullptr, direct);
    EXPECT_EQ(Kinds("gpu").size(), direct ? 0u : 1u) << "asked for the bytes";
  }
}

TEST_F(ResidentTest, AClientThatJoinsAgainDoesNotListenUntilItSaysSo) {
  d->Step(ClientListens{"gpu"});
  d->Lose("gpu");
  d->Join("gpu");
  Make(kResidentTile);
  Read read = ReadOf(kResidentTile, /*wait_us=*/0);
  read.direct = true;
  EXPECT_TRUE(d->Ask<Found>("other", read).timed_out);
}

// ---- a taker that waits for a silent holder before it asks the space ----------------------------

class FetchingTest : public ResidentTest {
 protected:
  static constexpr std::int64_t kLeaseUs = 1'000'000;
  void SetUp() override {
    SpaceLimits limits;
    limits.lease_extensions = 4;
    limits.least_kept_bytes = 5;
    Begin(limits);
    d->Step(ClientListens{"gpu"});
    d->Join("third");
    EXPECT_THAT(d->GetNow("third", Every("task")), ::testing::IsEmpty());  // it could do the tasks
  }
  // Lets "gpu" make the tile and keep a copy of what it sends to the space.
  void MakeHeld(std::uint64_t bytes) {
    ASSERT_EQ(d->PutOne("owner", testing::Making(Task(Key{"task", 1}), {kResidentTile})),
              PutStatus::kStored);
    Tuple tile = Plain(kResidentTile, std::string(bytes, 'x'));
    tile.held = true;
    d->Done("gpu", d->TakeNow("gpu", Every("task")), {tile});
  }
  // Lets the client take a task that needs the tile. `direct`: it is told the place of the tile.
  LeaseRef TakeFetching(std::int64_t number, const ClientId& client, bool direct = false) {
    Tuple task = Task(Key{"task", number}, {kResidentTile});
    task.task->lease_us = kLeaseUs;
    d->PutOne("owner", task);
    Get get = testing::GetOf(Every("task"), UINT64_MAX, /*wait_us=*/0);
    get.with_inputs = get.direct = direct;
    return d->Granted(client, d->Send(client, std::move(get)));
  }
  // How long the client may keep such a task by extending its lease.
  std::int64_t KeptUs(std::int64_t number, const ClientId& client = "other") {
    return KeptUs(TakeFetching(number, client), client);
  }
  std::int64_t KeptUs(const LeaseRef& lease, const ClientId& client) {
    std::int64_t kept_us = 0;
    while (d->Ask<LeaseReply>(client, Extend{lease, kLeaseUs}).lease == LeaseStatus::kOk) {
      d->Advance(kLeaseUs / 2);
      kept_us += kLeaseUs / 2;
      if (kept_us > 200 * kLeaseUs) break;
    }
    d->Done("third", d->TakeNow("third", Every("task")));
    return kept_us;
  }
};

TEST_F(FetchingTest, WhoFetchesAnInputMayExtendItsLeaseMeanwhile) {
  Make(kResidentTile);
  const std::int64_t kept_us = KeptUs(2);
  EXPECT_GE(kept_us, 13 * kLeaseUs) << "10 s to find out, and what any task may take";
  EXPECT_LE(kept_us, 15 * kLeaseUs);
}

TEST_F(FetchingTest, EachBenchHalvesThatTime) {
  Make(kResidentTile);
  KeptUs(2);
  EXPECT_THAT(Kinds("owner"), ElementsAre(Notice::Kind::kMistrusted));
  d->Advance(60'000'000);
  EXPECT_LE(KeptUs(3), 8 * kLeaseUs);
}

// Each new client could keep a task for as long again.
TEST_F(FetchingTest, TheBenchesOfAKeyHalveThatTimeForItsNewClients) {
  Make(kResidentTile);
  d->Step(ClientJoined{"evil/0", "evil", {}});
  const std::int64_t first_us = KeptUs(2, "evil/0");
  d->Lose("evil/0");
  d->Advance(60'000'000);
  d->Step(ClientJoined{"evil/1", "evil", {}});
  EXPECT_LE(KeptUs(3, "evil/1"), first_us / 2 + kLeaseUs);
}

TEST_F(FetchingTest, LeavingWhileItMayBeFetchingCountsFromTheSecondTimeOn) {
  Make(kResidentTile);
  for (std::int64_t i = 0; i < 2; ++i) {
    EXPECT_THAT(Kinds("owner"), ::testing::IsEmpty());
    const ClientId client = "evil/" + std::to_string(i);
    d->Step(ClientJoined{client, "evil", {}});
    d->PutOne("owner", Task(Key{"task", 100 + i}));
    d->Done(client, d->TakeNow(client, Every("task")));
    const LeaseRef lease = TakeFetching(200 + i, client);
    for (int j = 0; j < 4; ++j) {
      d->Ask<LeaseReply>(client, Extend{lease, kLeaseUs});
      d->Advance(kLeaseUs / 2);
    }
    d->Lose(client);
    d->Done("third", d->TakeNow("third", Every("task")));
  }
  EXPECT_THAT(Kinds("owner"), ElementsAre(Notice::Kind::kMistrusted));
}

TEST_F(FetchingTest, WhatTheTakerHoldsItDoesNotFetch) {
  Make(kResidentTile);
  d->Ask<Ok>("other", Hold{{kResidentTile}, {}});
  EXPECT_LE(KeptUs(2), 5 * kLeaseUs);
}

TEST_F(FetchingTest, ATransferTakesAsLongAsItsBytes) {
  ASSERT_EQ(d->PutOne("owner", testing::Making(Task(Key{"task", 1}), {kResidentTile})),
            PutStatus::kStored);
  d->Done("gpu", d->TakeNow("gpu", Every("task")), {Resident(kResidentTile, 20 * (64 << 10))});
  EXPECT_GE(KeptUs(2), 33 * kLeaseUs);
}

// Its maker could send it as slowly as readers accept, and have each of them benched in turn.
TEST_F(FetchingTest, WhoWasToldThePlaceFetchesFromThereWhatTheSpaceHasAsWell) {
  MakeHeld(20 * (64 << 10));
  EXPECT_GE(KeptUs(TakeFetching(2, "other", /*direct=*/true), "other"), 33 * kLeaseUs);
}

TEST_F(FetchingTest, EachBenchHalvesTheTimeForWhatTheSpaceHasAsWell) {
  MakeHeld(5);
  const std::int64_t first_us = KeptUs(TakeFetching(2, "other", /*direct=*/true), "other");
  EXPECT_GE(first_us, 13 * kLeaseUs);
  EXPECT_LE(first_us, 15 * kLeaseUs);
  EXPECT_THAT(Kinds("owner"), ElementsAre(Notice::Kind::kMistrusted));
  d->Advance(60'000'000);
  EXPECT_LE(KeptUs(TakeFetching(3, "other", /*direct=*/true), "other"), 8 * kLeaseUs);
}

TEST_F(FetchingTest, AMakerCannotEndThatTimeBySupplyingTheTile) {
  for (const bool held : {true, false}) {
    SetUp();
    Make(kResidentTile);
    const LeaseRef lease = TakeFetching(2, "other", /*direct=*/true);
    Tuple tile = Plain(kResidentTile, "bytes");
    tile.held = held;
    ASSERT_EQ(SupplyOne("gpu", tile), PutStatus::kStored);
    EXPECT_GE(KeptUs(lease, "other"), 13 * kLeaseUs) << held;
  }
}

TEST_F(FetchingTest, WhoWasToldNoPlaceReadsFromTheSpaceWhatItHas) {
  MakeHeld(20 * (64 << 10));
  EXPECT_LE(KeptUs(2), 5 * kLeaseUs);
}

// ---- after the payload was supplied -------------------------------------------------------------

class SuppliedTest : public ResidentTest {
 protected:
  void SetUp() override {
    SpaceLimits limits;
    limits.least_kept_bytes = 5;
    Begin(limits);
    d->Step(ClientListens{"gpu"});
    Make(kResidentTile);
  }
  void Supplied(bool held) {
    Tuple tile = Plain(kResidentTile, "bytes");
    tile.held = held;
    ASSERT_EQ(SupplyOne("gpu", tile), PutStatus::kStored);
  }
  FoundTuple ReadBy(const ClientId& client, bool direct = true) {
    Read read = ReadOf(kResidentTile, /*wait_us=*/0);
    read.direct = direct;
    return d->Ask<Found>(client, read).tuples.at(0);
  }
};

TEST_F(SuppliedTest, WhoStillHoldsItServesItAndTheSpaceServesTheOthers) {
  Supplied(/*held=*/true);
  const FoundTuple placed = ReadBy("other");
  EXPECT_TRUE(placed.place && placed.resident && placed.payload.empty());
  EXPECT_EQ(placed.payload_bytes, 5u);
  EXPECT_EQ(placed.put_by, "gpu");
  for (const FoundTuple& sent : {ReadBy("other", /*direct=*/false), ReadBy("gpu")}) {
    EXPECT_FALSE(sent.place || sent.resident);
    EXPECT_EQ(sent.payload.text(), "bytes");
  }
  EXPECT_EQ(d->counters().placed, 1u);
  EXPECT_EQ(d->counters().wanted, 0u);
}

// With the hash, a reader can check that it fetches the payload that the space has.
TEST_F(SuppliedTest, ThePlaceComesWithTheHash) {
  Tuple tile = Plain(kResidentTile, "bytes");
  const PayloadHash hash = HashOf(tile.payload.bytes());
  tile.payload = std::move(tile.payload).WithHash(hash);
  tile.held = true;
  ASSERT_EQ(SupplyOne("gpu", tile), PutStatus::kStored);
  EXPECT_EQ(ReadBy("other").hash, hash);
}

TEST_F(SuppliedTest, AGrantHasThePlaceAsWell) {
  Supplied(/*held=*/true);
  d->PutOne("owner", Task(Key{"task", 2}, {kResidentTile}));
  Get get = testing::GetOf(Every("task"));
  get.with_inputs = get.direct = true;
  const Grants granted = d->Ask<Grants>("other", std::move(get));
  ASSERT_THAT(granted.grants, SizeIs(1));
  EXPECT_FALSE(granted.grants[0].input_sent.at(0));
  EXPECT_TRUE(granted.grants[0].inputs.at(0).place);
}

TEST_F(SuppliedTest, WhoDoesNotSayThatItKeepsItIsNotAskedForIt) {
  Supplied(/*held=*/false);
  EXPECT_EQ(ReadBy("other").payload.text(), "bytes");
}

TEST_F(SuppliedTest, WhatIsDroppedComesFromTheSpace) {
  Supplied(/*held=*/true);
  d->Ask<Ok>("gpu", Hold{{}, {kResidentTile}});
  EXPECT_EQ(ReadBy("other").payload.text(), "bytes");
}

TEST_F(SuppliedTest, WhenItsMakerIsLostTheSpaceStillHasIt) {
  Supplied(/*held=*/true);
  d->Lose("gpu");
  EXPECT_EQ(ReadBy("other").payload.text(), "bytes");
  d->Join("gpu");  // it joins again
  d->Step(ClientListens{"gpu"});
  EXPECT_EQ(ReadBy("other").payload.text(), "bytes");
}

// Any client can claim to hold a tuple.
TEST_F(SuppliedTest, OnlyTheMakerIsAskedForIt) {
  Supplied(/*held=*/false);
  d->Step(ClientListens{"other"});
  d->Ask<Ok>("other", Hold{{kResidentTile}, {}});
  EXPECT_EQ(ReadBy("owner").payload.text(), "bytes");
}

TEST_F(SuppliedTest, WhatIsShortComesFromTheSpace) {
  Tuple tuple = Plain(Key{"short", 1}, "four");
  tuple.held = true;
  d->PutOne("gpu", tuple);
  Read read = ReadOf(Key{"short", 1}, /*wait_us=*/0);
  read.direct = true;
  EXPECT_EQ(d->Ask<Found>("other", read).tuples.at(0).payload.text(), "four");
}

}  // namespace
}  // namespace tuplespace
