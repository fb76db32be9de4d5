// Clients behind links: tasks wait for the holders of their tiles, and inputs are not sent twice.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "space_driver.h"

namespace tuplespace {
namespace {

using ::testing::ElementsAre;
using testing::Every;
using testing::GetOf;
using testing::Making;
using testing::Plain;
using testing::SpaceDriver;
using testing::Task;

constexpr std::uint32_t kNsPerKib = 8000;  // about 1 Gbit/s
const Key kLinkTile{"tile", 1};

class LinkTest : public ::testing::Test {
 protected:
  void SetUp() override { Begin({}); }
  void Begin(SpaceLimits limits) {
    d = std::make_unique<SpaceDriver>(limits);
    for (const char* client : {"m", "far", "thief"}) d->Join(client);
  }
  RequestId Wait(const ClientId& client, std::uint32_t ns_per_kib) {
    Get get = GetOf(Every("t"));
    get.with_inputs = true;
    get.ns_per_kib = ns_per_kib;
    get.holds_from_bytes = 10;
    return d->Send(client, std::move(get));
  }
  // Lets `far` hold a tile of one MiB, which would take 8 ms over its link, and work on a task.
  void MakeHolderBusy(std::uint32_t ns_per_kib) {
    d->PutOne("m", Plain(kLinkTile, std::string(1 << 20, 'x')));
    d->Ask<Ok>("far", Hold{{kLinkTile}, {}});
    const RequestId get = Wait("far", ns_per_kib);
    d->PutOne("m", Task(Key{"t", 0}));
    d->Granted("far", get);
  }
  void PutAffine(std::int64_t number) { d->PutOne("m", Task(Key{"t", number}, {kLinkTile}, 5, 0)); }
  // How long it takes until another client gets a task whose tile `far` holds.
  std::int64_t StolenAfterUs() {
    const std::int64_t begin_us = d->now_us;
    const RequestId other = Wait("thief", 0);
    PutAffine(1);
    for (int i = 0; i < 8000; ++i, d->Advance(1000)) {
      if (d->ReplyTo("thief", other)) return d->now_us - begin_us;
    }
    return -1;
  }
  std::unique_ptr<SpaceDriver> d;
};

TEST_F(LinkTest, ATaskWaitsForItsHolderAsLongAsTheTileWouldTravel) {
  MakeHolderBusy(kNsPerKib);
  EXPECT_EQ(StolenAfterUs(), 9'000) << "8.2 ms, looked at each millisecond";
}

// The payload first has to travel to the broker.
TEST_F(LinkTest, ATaskWaitsTwiceAsLongWhereTheTileStaysWithItsHolder) {
  const RequestId get = Wait("far", kNsPerKib);
  d->PutOne("m", Making(Task(Key{"t", 7}), {kLinkTile}));
  Tuple tile = Plain(kLinkTile);
  tile.resident_bytes = 1 << 20;
  d->Done("far", d->Granted("far", get), {tile});
  Wait("far", kNsPerKib);
  d->PutOne("m", Task(Key{"t", 0}));  // `far` works on this one
  EXPECT_EQ(StolenAfterUs(), 17'000);
}

TEST_F(LinkTest, ATileThatItsHolderSendsItselfTravelsOnce) {
  const RequestId get = Wait("far", kNsPerKib);
  d->PutOne("m", Making(Task(Key{"t", 7}), {kLinkTile}));
  Tuple tile = Plain(kLinkTile);
  tile.resident_bytes = 1 << 20;
  d->Done("far", d->Granted("far", get), {tile});
  d->Step(ClientListens{"far"});
  Wait("far", kNsPerKib);
  d->PutOne("m", Task(Key{"t", 0}));  // `far` works on this one
  EXPECT_EQ(StolenAfterUs(), 9'000);
}

TEST_F(LinkTest, WithoutALinkItWaitsAsBefore) {
  MakeHolderBusy(0);
  EXPECT_EQ(StolenAfterUs(), SpaceLimits{}.steal_after_us);
}

TEST_F(LinkTest, NoClaimKeepsATaskLongerThanTheLimit) {
  MakeHolderBusy(UINT32_MAX);
  EXPECT_EQ(StolenAfterUs(), SpaceLimits{}.most_steal_after_us);
}

// Any client can claim to hold a tile, so tasks do not wait for one that is inactive.
TEST_F(LinkTest, AHolderThatNeitherWorksNorAsksIsNotWaitedFor) {
  MakeHolderBusy(kNsPerKib);
  d->Lose("far");
  d->Join("far");
  d->Ask<Ok>("far", Hold{{kLinkTile}, {}});
  const RequestId get = Wait("far", kNsPerKib);
  d->Ask<LeaseReply>("far", Release{d->Granted("far", get)});
  d->Done("thief", d->TakeNow("thief", Every("t")));
  EXPECT_EQ(StolenAfterUs(), SpaceLimits{}.steal_after_us);
}

TEST_F(LinkTest, TheNearestHolderCounts) {
  MakeHolderBusy(kNsPerKib);
  d->Join("near");
  d->Ask<Ok>("near", Hold{{kLinkTile}, {}});
  const RequestId get = Wait("near", 0);
  d->PutOne("m", Task(Key{"t", 9}));
  d->Granted("near", get);
  EXPECT_EQ(StolenAfterUs(), SpaceLimits{}.steal_after_us);
}

// The second grant is on its way before the client can say what it got with the first one.
TEST_F(LinkTest, AnInputIsNotSentAgainUntilItIsSaidToBeDropped) {
  d->PutOne("m", Plain(Key{"x", 1}, "a long input"));
  d->PutOne("m", Plain(Key{"x", 2}, "short"));
  for (int i = 1; i <= 3; ++i) d->PutOne("m", Task(Key{"t", i}, {Key{"x", 1}, Key{"x", 2}}));
  const auto sent = [this](std::uint32_t ns_per_kib) {
    const auto grants = d->Expect<Grants>("far", Wait("far", ns_per_kib)).grants;
    return grants.empty() ? std::vector<bool>{} : grants[0].input_sent;
  };
  EXPECT_THAT(sent(kNsPerKib), ElementsAre(true, true));
  EXPECT_THAT(sent(kNsPerKib), ElementsAre(false, true));
  d->Ask<Ok>("far", Hold{{}, {Key{"x", 1}}});
  EXPECT_THAT(sent(0), ElementsAre(true, true));
  d->PutOne("m", Task(Key{"t", 4}, {Key{"x", 1}}));
  EXPECT_THAT(sent(0), ElementsAre(true)) << "whoever is not over a link says what he holds";
}

// ---- tasks that prefer a client -----------------------------------------------------------------

class PreferTest : public LinkTest {
 protected:
  static Tuple Preferring(std::int64_t number, const ClientId& client, std::int64_t prefer_us) {
    Tuple task = Task(Key{"t", number}, {kLinkTile}, 5, 0);
    task.task->prefers = client;
    task.task->prefer_us = prefer_us;
    return task;
  }
  void SetUp() override {
    LinkTest::SetUp();
    d->PutOne("m", Plain(kLinkTile, "tile"));
    d->Ask<Ok>("thief", Hold{{kLinkTile}, {}});
  }
  // Gives `client` a task to work on.
  void MakeBusy(const ClientId& client = "far") {
    const RequestId get = Wait(client, 0);
    Tuple task = Task(Key{"t", --busy_with_});
    task.task->prefers = client;
    d->PutOne("m", std::move(task));
    d->Granted(client, get);
  }
  // How long a task that prefers `client` is kept for it, to the millisecond.
  std::int64_t KeptUs(const ClientId& client) {
    const RequestId of_thief = Wait("thief", 0);
    d->PutOne("m", Preferring(++named_, client, 64'000));
    const std::int64_t begin_us = d->now_us;
    std::optional<ReplyBody> reply;
    while (!(reply = d->ReplyTo("thief", of_thief))) d->Advance(1'000);
    const Grant& grant = std::get<Grants>(*reply).grants.at(0);
    EXPECT_EQ(grant.key, (Key{"t", named_}));
    d->Done("thief", {grant.key, grant.fence});
    return d->now_us - begin_us;
  }
  // The client leaves, and another one does its task.
  void Leave(const ClientId& client) {
    d->Lose(client);
    d->Done("thief", d->TakeNow("thief", Every("t")));
  }
  void JoinWithKey(const ClientId& client, const std::string& key) {
    ClientJoined joined{client};
    joined.principal = key;
    d->Step(std::move(joined));
  }

  std::int64_t busy_with_ = 0;
  std::int64_t named_ = 0;
};

TEST_F(PreferTest, TheNamedClientGetsTheTaskAndNotWhoHoldsTheTile) {
  const RequestId of_thief = Wait("thief", 0), of_far = Wait("far", 0);
  d->PutOne("m", Preferring(1, "far", 50'000));
  EXPECT_EQ(d->Granted("far", of_far).key, (Key{"t", 1}));
  EXPECT_FALSE(d->ReplyTo("thief", of_thief));
}

TEST_F(PreferTest, ATaskIsKeptForABusyClientAsLongAsItSays) {
  MakeBusy();
  const RequestId of_thief = Wait("thief", 0);
  d->PutOne("m", Preferring(1, "far", 50'000));
  d->Advance(49'999);
  EXPECT_FALSE(d->ReplyTo("thief", of_thief));
  d->Advance(1);
  EXPECT_EQ(d->Granted("thief", of_thief).key, (Key{"t", 1}));
  EXPECT_EQ(d->counters().steals, 0u) << "it holds the tile";
}

TEST_F(PreferTest, ATaskIsKeptNoLongerThanTheLimit) {
  MakeBusy();
  const RequestId of_thief = Wait("thief", 0);
  d->PutOne("m", Preferring(1, "far", INT64_MAX));
  d->Advance(SpaceLimits{}.most_prefer_us);
  d->Granted("thief", of_thief);
}

// Otherwise a client that asks for tasks but never takes those that name it would stop the run.
TEST_F(PreferTest, TasksAreKeptEverLessForAClientThatDoesNotComeAndMoreForOneThatDoes) {
  MakeBusy();
  std::vector<std::int64_t> kept;
  while (kept.size() < 5) kept.push_back(KeptUs("far"));
  const std::int64_t least_us = SpaceLimits{}.steal_after_us;
  EXPECT_THAT(kept, ElementsAre(64'000, 16'000, 4'000, least_us, least_us));
  for (int i = 0; i < 8; ++i) {
    const RequestId of_far = Wait("far", 0);
    d->PutOne("m", Preferring(++named_, "far", 64'000));
    d->Granted("far", of_far);
  }
  EXPECT_EQ(KeptUs("far"), 16'000) << "ten times less by half, eight of which are made good";
}

// Otherwise it could always make tasks wait for the full time by joining again.
TEST_F(PreferTest, AClientThatJoinsAgainBeginsWithWhatItLost) {
  MakeBusy();
  EXPECT_EQ(KeptUs("far"), 64'000);
  Leave("far");
  d->Join("far");
  MakeBusy();  // it takes a task that names it
  EXPECT_EQ(KeptUs("far"), 32'000);
}

TEST_F(PreferTest, AClientThatLeavesWhileTasksAreKeptForItDidNotCome) {
  MakeBusy();
  const RequestId of_thief = Wait("thief", 0);
  d->PutOne("m", Preferring(++named_, "far", 64'000));
  d->Lose("far");
  d->Done("thief", d->Granted("thief", of_thief));
  d->Done("thief", d->TakeNow("thief", Every("t")));
  d->Join("far");
  MakeBusy();
  EXPECT_EQ(KeptUs("far"), 32'000);
}

TEST_F(PreferTest, ANewClientOfAKeyBeginsWithWhatTheLastOneLost) {
  for (const char* client : {"a/1", "a/2", "b/1"}) JoinWithKey(client, {client[0]});
  for (const char* client : {"a/1", "a/2"}) MakeBusy(client);
  EXPECT_EQ(KeptUs("a/1"), 64'000);
  EXPECT_EQ(KeptUs("a/1"), 16'000);
  Leave("a/1");
  EXPECT_EQ(KeptUs("a/2"), 64'000) << "it was there before, and has come";
  JoinWithKey("a/3", "a");
  MakeBusy("a/3");
  EXPECT_EQ(KeptUs("a/3"), 8'000);
  MakeBusy("b/1");
  EXPECT_EQ(KeptUs("b/1"), 64'000);
}

TEST_F(PreferTest, WhatAKeyLostIsForgivenWithTime) {
  JoinWithKey("a/1", "a");
  MakeBusy("a/1");
  EXPECT_EQ(KeptUs("a/1"), 64'000);
  Leave("a/1");
  d->Advance(2 * SpaceLimits{}.key_forgiven_us);
  JoinWithKey("a/2", "a");
  MakeBusy("a/2");
  EXPECT_EQ(KeptUs("a/2"), 64'000);
}

TEST_F(PreferTest, AClientThatDiesAtItsWorkCostsItsKeyNothing) {
  JoinWithKey("a/1", "a");
  MakeBusy("a/1");
  Leave("a/1");
  JoinWithKey("a/2", "a");
  MakeBusy("a/2");
  EXPECT_EQ(KeptUs("a/2"), 64'000);
}

TEST_F(PreferTest, WhenTheNamedClientIsLostOthersGetTheTaskAtOnce) {
  MakeBusy();
  const RequestId of_thief = Wait("thief", 0);
  d->PutOne("m", Preferring(1, "far", 50'000));
  EXPECT_FALSE(d->ReplyTo("thief", of_thief));
  d->Lose("far");
  EXPECT_EQ(d->Granted("thief", of_thief).key, (Key{"t", 1}));
}

TEST_F(PreferTest, AClientThatIsNotThereOrNeverAskedIsNotWaitedFor) {
  d->Join("idle");
  const RequestId first = Wait("thief", 0);
  d->PutOne("m", Preferring(1, "nobody", 50'000));
  d->Granted("thief", first);
  const RequestId second = Wait("thief", 0);
  d->PutOne("m", Preferring(2, "idle", 50'000));
  d->Granted("thief", second);
}

TEST_F(PreferTest, AClientThatMustNotGetTheTaskIsNotWaitedFor) {
  MakeBusy();
  const RequestId of_thief = Wait("thief", 0);
  Tuple task = Preferring(1, "far", 50'000);
  task.task->not_by = {"far"};
  d->PutOne("m", std::move(task));
  d->Granted("thief", of_thief);
}

// The pattern by which the client asked for tasks may be gone before the client is.
TEST_F(LinkTest, NothingIsKeptForAClientThatIsGoneInTheGroupOfAWholeKey) {
  SpaceLimits limits;
  limits.get_patterns = 1;
  Begin(limits);
  EXPECT_TRUE(d->GetNow("far", Every("t")).empty());
  const Pattern whole_key = Pattern::Of(Key{"t", 1});
  d->Send("thief", GetOf(whole_key, /*offer_bytes=*/5));
  Tuple task = Task(Key{"t", 1}, {}, /*need_bytes=*/10);
  task.task->prefers = "far";
  task.task->prefer_us = limits.most_prefer_us;
  d->PutOne("m", std::move(task));
  EXPECT_TRUE(d->GetNow("thief", whole_key).empty()) << "it is kept for the client that it names";
  EXPECT_TRUE(d->GetNow("thief", Every("x")).empty()) << "which removes the idle pattern";
  d->Lose("far");
  EXPECT_EQ(d->GetNow("thief", whole_key).size(), 1u);
}

}  // namespace
}  // namespace tuplespace
