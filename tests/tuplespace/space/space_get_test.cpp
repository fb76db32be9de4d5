// Gets: which client gets which task, affinity, offers.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "space_driver.h"

namespace tuplespace {
namespace {

using testing::Every;
using testing::GetOf;
using testing::Plain;
using testing::SpaceDriver;
using testing::Task;
using testing::UpTo;

class GetTest : public ::testing::Test {
 protected:
  void SetUp() override { Begin({}); }
  void Begin(SpaceLimits limits) {
    d = std::make_unique<SpaceDriver>(limits);
    for (const char* client : {"m", "a", "b", "c"}) d->Join(client);
  }
  RequestId Wait(const ClientId& client, std::uint64_t offer_bytes = UINT64_MAX) {
    return d->Send(client, GetOf(Every("t"), offer_bytes));
  }
  Key NextKey(const ClientId& client, std::uint64_t offer_bytes = UINT64_MAX) {
    const auto grants = d->GetNow(client, Every("t"), offer_bytes);
    return grants.empty() ? Key() : grants[0].key;
  }
  // Lets `client` ask for tasks, so that the space may keep tasks for it.
  void Introduce(const ClientId& client) { EXPECT_EQ(NextKey(client), Key()); }

  std::unique_ptr<SpaceDriver> d;
};

TEST_F(GetTest, ATakenTupleIsNobodyElses) {
  d->PutOne("m", Plain(Key{"t", 1}, "x"));
  const auto grants = d->GetNow("a", Every("t"));
  ASSERT_EQ(grants.size(), 1u);
  EXPECT_EQ(grants[0].payload.text(), "x");
  EXPECT_FALSE(grants[0].task);
  EXPECT_EQ(grants[0].lease_us, SpaceLimits{}.default_lease_us);
  EXPECT_TRUE(d->GetNow("b", Every("t")).empty());
  // A taken tuple stays in the space until it is completed, so it can be read.
  EXPECT_EQ(d->CountOf("b", Every("t")), 1u);
  EXPECT_EQ(d->Done("a", {grants[0].key, grants[0].fence}).lease, LeaseStatus::kOk);
  EXPECT_EQ(d->CountOf("b", Every("t")), 0u);
}

TEST_F(GetTest, AQueueOfPlainTuplesLeavesNothingBehind) {
  SpaceLimits limits;
  limits.tuples = 4;
  Begin(limits);
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(d->PutOne("m", Plain(Key{"t", i % 7}, "x")), PutStatus::kStored);
    d->Done("a", d->TakeNow("a", Every("t")));
  }
  EXPECT_EQ(d->space.GetStatistics().tuples, 0u);
}

TEST_F(GetTest, OrderIsPriorityThenLargestNeedThenOldest) {
  std::vector<Tuple> tasks = {Task(Key{"t", 1}, {}, 10), Task(Key{"t", 2}, {}, 30),
                              Task(Key{"t", 3}, {}, 10), Task(Key{"t", 4}, {}, 50),
                              Task(Key{"t", 5}, {}, 1)};
  tasks[3].task->priority = 1;
  tasks[4].task->priority = -1;
  d->Ask<PutReply>("m", Put{tasks});
  EXPECT_EQ(NextKey("a", 5), (Key{"t", 5}));
  EXPECT_EQ(NextKey("a", 29), (Key{"t", 1}));
  EXPECT_EQ(NextKey("a", 9), Key());
  EXPECT_EQ(NextKey("a"), (Key{"t", 2}));
  EXPECT_EQ(NextKey("a"), (Key{"t", 3}));
  EXPECT_EQ(NextKey("a"), (Key{"t", 4}));
  EXPECT_EQ(NextKey("a"), Key());
}

TEST_F(GetTest, SeveralGrantsShareTheOffer) {
  for (int i = 0; i < 5; ++i) d->PutOne("m", Task(Key{"t", i}, {}, 40));
  const auto grants = d->GetNow("a", Every("t"), 100, 5);
  EXPECT_EQ(grants.size(), 2u);
  EXPECT_LT(grants[0].fence, grants[1].fence);
  EXPECT_EQ(d->GetNow("a", Every("t"), UINT64_MAX, 5).size(), 3u);
}

TEST_F(GetTest, WhoSharesLeavesTasksToOthers) {
  for (int i = 0; i < 40; ++i) d->PutOne("m", Task(Key{"t", i}));
  Get get = GetOf(Every("t"), UINT64_MAX, 0);
  get.max_count = 64;
  get.share = true;
  const auto taken = [&](const ClientId& client) {
    return d->Ask<Grants>(client, Get(get)).grants.size();
  };
  EXPECT_EQ(taken("a"), 20u) << "half of all: nobody else has asked for these";
  EXPECT_EQ(taken("b"), 5u) << "of 20 half of its half";
  EXPECT_EQ(taken("c"), 2u) << "of 15 half of its third";
  get.max_count = 1;
  EXPECT_EQ(taken("a"), 1u);
  get.max_count = 64;
  std::size_t left = 40 - 20 - 5 - 2 - 1;
  while (left > 0) {
    const std::size_t some = taken("b");
    ASSERT_GE(some, 1u) << "the last ones, too";
    left -= some;
  }
  EXPECT_EQ(taken("b"), 0u);
  get.share = false;
  for (int i = 40; i < 50; ++i) d->PutOne("m", Task(Key{"t", i}));
  EXPECT_EQ(taken("c"), 10u);
}

TEST_F(GetTest, TheSmallestSufficientOfferIsServed) {
  const RequestId large = Wait("a", 1000);
  const RequestId small = Wait("b", 10);
  const RequestId fits = Wait("c", 100);
  d->PutOne("m", Task(Key{"t", 1}, {}, 50));
  EXPECT_EQ(d->Granted("c", fits).key, (Key{"t", 1}));
  d->PutOne("m", Task(Key{"t", 2}, {}, 5));
  EXPECT_EQ(d->Granted("b", small).key, (Key{"t", 2}));
  d->PutOne("m", Task(Key{"t", 3}, {}, 5000));
  EXPECT_FALSE(d->ReplyTo("a", large));
  d->PutOne("m", Task(Key{"t", 4}, {}, 5));
  EXPECT_EQ(d->Granted("a", large).key, (Key{"t", 4}));
}

TEST_F(GetTest, AmongEqualOffersTheLongestWaitingIsServed) {
  const RequestId first = Wait("b");
  const RequestId second = Wait("a");
  d->PutOne("m", Task(Key{"t", 1}));
  EXPECT_TRUE(d->ReplyTo("b", first));
  EXPECT_FALSE(d->ReplyTo("a", second));
}

TEST_F(GetTest, ABatchIsSpreadBeforeAnybodyGetsASecond) {
  Get get = GetOf(Every("t"));
  get.max_count = 2;
  const RequestId first = d->Send("a", get);
  const RequestId second = d->Send("b", get);
  d->Ask<PutReply>("m", Put{{Task(Key{"t", 1}), Task(Key{"t", 2}), Task(Key{"t", 3})}});
  EXPECT_EQ(d->Expect<Grants>("a", first).grants.size(), 2u);
  EXPECT_EQ(d->Expect<Grants>("b", second).grants.size(), 1u);
}

TEST_F(GetTest, TheLargestOfABatchGoesOutFirst) {
  const RequestId small = Wait("a", 10);
  const RequestId large = Wait("b", 100);
  d->Ask<PutReply>("m", Put{{Task(Key{"t", 1}, {}, 10), Task(Key{"t", 2}, {}, 100)}});
  EXPECT_EQ(d->Granted("a", small).key, (Key{"t", 1}));
  EXPECT_EQ(d->Granted("b", large).key, (Key{"t", 2}));
}

TEST_F(GetTest, ANewOfferReplacesTheOldOneAndKeepsItsPlace) {
  const RequestId first = Wait("a", 10);
  const RequestId second = Wait("b", 100);
  d->Step(Incoming{"a", {first, GetOf(Every("t"), 100)}});
  EXPECT_EQ(d->space.GetStatistics().open_gets, 2u);
  d->PutOne("m", Task(Key{"t", 1}, {}, 50));
  EXPECT_TRUE(d->ReplyTo("a", first));
  EXPECT_FALSE(d->ReplyTo("b", second));
  // A new offer that suffices is answered at once.
  d->PutOne("m", Task(Key{"t", 2}, {}, 500));
  d->Step(Incoming{"b", {second, GetOf(Every("t"), 500)}});
  EXPECT_EQ(d->Granted("b", second).key, (Key{"t", 2}));
  EXPECT_EQ(d->space.GetStatistics().open_gets, 0u);
}

TEST_F(GetTest, AnOfferThatIsRefusedEndsTheOneThatItReplaces) {
  const RequestId id = Wait("a", 10);
  Get bad = GetOf(Every("t"), 100);
  bad.max_count = 0;
  d->Step(Incoming{"a", {id, bad}});
  EXPECT_EQ(d->Expect<RequestError>("a", id).code, ErrorCode::kBadRequest);
  EXPECT_EQ(d->space.GetStatistics().open_gets, 0u);
  d->PutOne("m", Task(Key{"t", 1}));
  EXPECT_EQ(NextKey("b"), (Key{"t", 1}));
}

TEST_F(GetTest, AGetTimesOutEmptyAndCanBeCancelled) {
  const RequestId timed = d->Send("a", GetOf(Every("t"), 1, 70));
  const RequestId cancelled = d->Send("b", GetOf(Every("t"), 1, 700));
  d->Ask<Ok>("b", Cancel{cancelled});
  EXPECT_TRUE(d->Expect<Grants>("b", cancelled).grants.empty());
  EXPECT_EQ(d->space.NextDeadlineUs(), 70);
  d->Advance(70);
  EXPECT_TRUE(d->Expect<Grants>("a", timed).grants.empty());
  d->PutOne("m", Task(Key{"t", 1}));
  EXPECT_EQ(NextKey("c"), (Key{"t", 1}));
}

TEST_F(GetTest, GetsOfOneKeyWork) {
  const RequestId id = d->Send("a", GetOf(Pattern::Of(Key{"t", 5})));
  d->Ask<PutReply>("m", Put{{Plain(Key{"t", 4}), Plain(Key{"t", 5})}});
  EXPECT_EQ(d->Granted("a", id).key, (Key{"t", 5}));
  EXPECT_EQ(NextKey("b"), (Key{"t", 4}));
}

TEST_F(GetTest, DifferentPatternsSeeTheSameTupleOnce) {
  const RequestId wide = d->Send("a", GetOf({{}, true}));
  const RequestId narrow = d->Send("b", GetOf(Every("t"), 50));
  d->PutOne("m", Task(Key{"t", 1}, {}, 10));
  EXPECT_TRUE(d->ReplyTo("b", narrow));
  EXPECT_FALSE(d->ReplyTo("a", wide));
  d->PutOne("m", Task(Key{"t", 2}, {}, 10));
  EXPECT_TRUE(d->ReplyTo("a", wide));
  d->PutOne("m", Task(Key{"t", 3}, {}, 10));
  EXPECT_EQ(d->GetNow("a", {{}, true}).size(), 1u);
  EXPECT_EQ(NextKey("b"), Key());
}

TEST_F(GetTest, GetPatternsAreLimitedAndIdleOnesMakeRoom) {
  SpaceLimits limits;
  limits.get_patterns = 2;
  Begin(limits);
  for (int i = 0; i < 5; ++i) d->PutOne("m", Plain(Key{"k" + std::to_string(i), 1}));
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(d->GetNow("a", Every("k" + std::to_string(i))).size(), 1u);
  }
  const RequestId first = d->Send("a", GetOf(Every("x")));
  d->Send("a", GetOf(Every("y")));
  const RequestError error = d->Ask<RequestError>("a", GetOf(Every("z")));
  EXPECT_EQ(error.code, ErrorCode::kBusy);
  EXPECT_NE(error.text.find("limits.get_patterns"), std::string::npos);
  d->Ask<Ok>("a", Cancel{first});
  const RequestId third = d->Send("a", GetOf(Every("z")));
  EXPECT_FALSE(d->ReplyTo("a", third));
  // A replacement may use the group of the Get that it replaces.
  d->Step(Incoming{"a", {third, GetOf(Every("w"))}});
  EXPECT_FALSE(d->ReplyTo("a", third));
}

TEST_F(GetTest, NobodyTakesThePatternsOfOthers) {
  ClientLimits limits;
  limits.get_patterns_of_key = 3;
  Begin({});
  d->Step(ClientJoined{"k/1", "k", limits});
  d->Step(ClientJoined{"k/2", "k", limits});
  d->PutOne("m", Plain(Key{"t", 1}));
  EXPECT_EQ(d->GetNow("a", Every("idle")).size(), 0u);
  // Patterns for which no Get waits make room for others of the key,
  for (int i = 0; i < 10; ++i) d->GetNow("k/1", UpTo("t", -i));
  // but patterns of waiting Gets do not, whichever client of the key they belong to.
  for (int i = 0; i < 3; ++i) d->Send(i == 0 ? "k/1" : "k/2", GetOf(UpTo("x", i)));
  const RequestError error = d->Ask<RequestError>("k/2", GetOf(UpTo("x", 3)));
  EXPECT_EQ(error.code, ErrorCode::kBusy);
  EXPECT_NE(error.text.find("limits.get_patterns_of_key: Gets of 3 different patterns of \"k\""),
            std::string::npos)
      << error.text;
  // A pattern that exists already may be used by every client.
  EXPECT_FALSE(d->ReplyTo("k/2", d->Send("k/2", GetOf(Every("idle")))));
  EXPECT_EQ(d->GetNow("b", UpTo("t", 5)).size(), 1u);
}

// For example, managers of one key each wait for the lead of another job.
TEST_F(GetTest, WholeKeysTakeNoRoomFromPatterns) {
  SpaceLimits of_space;
  of_space.get_patterns = 3;
  of_space.get_keys = 30;
  Begin(of_space);
  ClientLimits limits;
  limits.get_patterns_of_key = 2;
  limits.get_keys_of_key = 20;
  d->Step(ClientJoined{"k/1", "k", limits});
  const auto waits = [&](const ClientId& client, const Pattern& pattern) {
    const RequestId id = d->Send(client, GetOf(pattern));
    EXPECT_FALSE(d->ReplyTo(client, id)) << pattern.ToString();
    return id;
  };
  const auto busy = [&](const ClientId& client, const Pattern& pattern) {
    return d->Ask<RequestError>(client, GetOf(pattern)).text;
  };
  const auto key = [](int i) { return Pattern::Of(Key{"lead", i}); };
  RequestId last = 0;
  for (int i = 0; i < 20; ++i) last = waits("k/1", key(i));
  EXPECT_NE(busy("k/1", key(20)).find("limits.get_keys_of_key: Gets of 20 different keys of \"k\""),
            std::string::npos);
  for (int i = 0; i < 2; ++i) waits("k/1", UpTo("x", i));
  EXPECT_NE(busy("k/1", UpTo("x", 2)).find("limits.get_patterns_of_key"), std::string::npos);
  d->Ask<Ok>("k/1", Cancel{last});
  waits("k/1", key(20));
  for (int i = 30; i < 40; ++i) waits("a", key(i));
  EXPECT_NE(busy("a", key(40)).find("limits.get_keys: Gets of 30 different keys"),
            std::string::npos);
  waits("a", UpTo("x", 3));
  EXPECT_NE(busy("a", UpTo("x", 4)).find("limits.get_patterns: Gets of 3"), std::string::npos);
}

TEST_F(GetTest, WhoseNewPatternsMoveManyTuplesWaitsForTheNext) {
  SpaceLimits limits;
  limits.examined_by_get_us = 1000;  // which suffices for few tuples
  Begin(limits);
  constexpr int kTasks = 50;
  for (int i = 0; i < kTasks; ++i) d->PutOne("m", Task(Key{"t", i}, {}, 100));
  const auto get = [&](const ClientId& client, int i) {
    const RequestId id = d->Send(client, GetOf(UpTo("t", kTasks + i), 1, 0));
    const auto reply = d->ReplyTo(client, id);
    const auto* error = reply ? std::get_if<RequestError>(&*reply) : nullptr;
    return error != nullptr ? error->text : "";
  };
  EXPECT_EQ(get("a", 0), "");
  EXPECT_EQ(get("a", 1), "");
  const std::string busy = get("a", 2);
  EXPECT_NE(busy.find("limits.examined_by_get_us"), std::string::npos) << busy;
  EXPECT_NE(busy.find("in 100000 us"), std::string::npos) << busy;
  EXPECT_EQ(get("a", 1), "") << "it is known";
  EXPECT_EQ(get("b", 3), "") << "others have done nothing";
  d->Lose("a");
  d->Join("a");
  EXPECT_EQ(get("a", 2), busy) << "the debt is not forgotten with the client";
  d->Advance(99'999);
  EXPECT_NE(get("a", 2), "");
  d->Advance(1);
  EXPECT_EQ(get("a", 2), "");
}

TEST_F(GetTest, ANewPatternSeesWhatIsReadyAsThoseBeforeIt) {
  for (const char* client : {"a", "b"}) Introduce(client);
  Tuple named = Task(Key{"t", 1});
  named.task->prefers = "c";
  named.task->prefer_us = 1'000'000;
  Tuple not_by = Task(Key{"t", 2});
  not_by.task->not_by = {"c"};
  d->Ask<PutReply>("m", Put{{named, not_by, Plain(Key{"tile", 1}), Plain(Key{"t", 3})}});
  d->Ask<Ok>("a", Hold{{Key{"tile", 1}}, {}});
  d->PutOne("m", Task(Key{"t", 4}, {Key{"tile", 1}}, 0, 0));
  // A new pattern of a new client: from now on tasks that name the client are kept for it.
  EXPECT_EQ(d->GetNow("c", UpTo("t", 2), 1, 5).size(), 1u);
  const auto rest = d->GetNow("c", UpTo("t", 9), UINT64_MAX, 5);
  ASSERT_EQ(rest.size(), 1u) << "the other one is for others, and the last is kept for its holder";
  EXPECT_EQ(rest[0].key, (Key{"t", 3}));
  const auto own = d->GetNow("a", UpTo("t", 8), UINT64_MAX, 5);
  ASSERT_EQ(own.size(), 2u);
  EXPECT_EQ(own[0].key, (Key{"t", 4}));
  EXPECT_EQ(own[1].key, (Key{"t", 2}));
}

// ---- tasks and their inputs --------------------------------------------------------------------

TEST_F(GetTest, ATaskCanBeTakenOnlyWhenAllItsInputsAreThere) {
  const RequestId id = Wait("a");
  d->PutOne("m", Plain(Key{"x", 1}));
  d->PutOne("m", Task(Key{"t", 1}, {Key{"x", 1}, Key{"x", 2}, Key{"x", 2}}));
  EXPECT_EQ(d->space.GetStatistics().tasks_waiting, 1u);
  EXPECT_FALSE(d->ReplyTo("a", id));
  d->PutOne("b", Plain(Key{"x", 2}));
  EXPECT_EQ(d->Granted("a", id).key, (Key{"t", 1}));
}

TEST_F(GetTest, AGrantCarriesTheInputsThatTheTakerLacks) {
  d->PutOne("m", Plain(Key{"x", 1}, "one"));
  Tuple held = Plain(Key{"x", 2}, "two");
  held.payload = Payload::Copy("two").WithHash(PayloadHash{1, 2});
  held.held = true;
  d->PutOne("a", held);
  d->PutOne("m", Task(Key{"t", 1}, {Key{"x", 2}, Key{"x", 1}}));
  Get get = GetOf(Every("t"));
  get.with_inputs = true;
  const auto grants = d->Ask<Grants>("a", get).grants;
  ASSERT_EQ(grants.size(), 1u);
  ASSERT_EQ(grants[0].inputs.size(), 2u);
  EXPECT_EQ(grants[0].input_sent, (std::vector{false, true}));
  EXPECT_EQ(grants[0].inputs[0].key, (Key{"x", 2}));
  EXPECT_TRUE(grants[0].inputs[0].payload.empty());
  EXPECT_EQ(grants[0].inputs[0].payload_bytes, 3u);
  EXPECT_FALSE(grants[0].inputs[0].hash) << "its taker has it";
  EXPECT_TRUE(grants[0].inputs[0].put_by.empty());
  EXPECT_EQ(grants[0].inputs[1].payload.text(), "one");
  EXPECT_EQ(grants[0].inputs[1].put_by, "m");
  EXPECT_EQ(grants[0].task->inputs.size(), 2u);
}

// Somebody may have put a tuple that is larger than the task's maker expects.
TEST_F(GetTest, AGrantCarriesNoMoreThanTheTaskNeeds) {
  d->PutOne("m", Plain(Key{"x", 1}, std::string(60, 'x')));
  d->PutOne("b", Plain(Key{"x", 2}, std::string(1'000, 'y')));
  d->PutOne("m", Plain(Key{"x", 3}, std::string(40, 'z')));
  Tuple task = Task(Key{"t", 1}, {Key{"x", 1}, Key{"x", 2}, Key{"x", 3}});
  for (const bool says : {true, false}) {
    task.key = Key{"t", says ? 1 : 2};
    task.task->need_bytes = says ? 100 : 0;
    d->PutOne("m", task);
    Get get = GetOf(Every("t"));
    get.with_inputs = true;
    const auto grants = d->Ask<Grants>("a", get).grants;
    ASSERT_EQ(grants.size(), 1u);
    EXPECT_EQ(grants[0].input_sent, (std::vector{true, !says, true}));
    EXPECT_EQ(grants[0].inputs[1].payload_bytes, 1'000u);
    EXPECT_EQ(grants[0].inputs[1].payload.empty(), says);
  }
}

// ---- affinity ----------------------------------------------------------------------------------

TEST_F(GetTest, ATaskGoesToTheWaitingHolderOfItsAffinityTuple) {
  d->PutOne("m", Plain(Key{"tile", 1}));
  const RequestId other = Wait("a", 10);
  const RequestId holder = Wait("b", 1000);
  d->Ask<Ok>("b", Hold{{Key{"tile", 1}}, {}});
  d->PutOne("m", Task(Key{"t", 1}, {Key{"tile", 1}}, 5, 0));
  EXPECT_TRUE(d->ReplyTo("b", holder));
  EXPECT_FALSE(d->ReplyTo("a", other));
  EXPECT_EQ(d->counters().affinity_hits, 1u);
}

TEST_F(GetTest, ATaskIsKeptForItsHolderAndThenStolen) {
  SpaceLimits limits;
  limits.steal_after_us = 2000;
  Begin(limits);
  Introduce("b");
  d->PutOne("m", Plain(Key{"tile", 1}));
  d->Ask<Ok>("b", Hold{{Key{"tile", 1}}, {}});
  const RequestId other = Wait("a");
  d->PutOne("m", Task(Key{"t", 1}, {Key{"tile", 1}}, 5, 0));
  EXPECT_FALSE(d->ReplyTo("a", other));
  EXPECT_EQ(d->space.NextDeadlineUs(), 2000);
  d->Advance(1999);
  EXPECT_FALSE(d->ReplyTo("a", other));
  d->Advance(1);
  EXPECT_EQ(d->Granted("a", other).key, (Key{"t", 1}));
  EXPECT_EQ(d->counters().steals, 1u);
  EXPECT_EQ(d->counters().affinity_hits, 0u);
}

TEST_F(GetTest, AGetTakesItsOwnThenUnheldThenLateTasks) {
  Introduce("a");
  Introduce("b");
  for (int i = 1; i <= 3; ++i) d->PutOne("m", Plain(Key{"tile", i}));
  d->Ask<Ok>("a", Hold{{Key{"tile", 1}}, {}});
  d->Ask<Ok>("b", Hold{{Key{"tile", 2}}, {}});
  d->PutOne("m", Task(Key{"t", 2}, {Key{"tile", 2}}, 900, 0));
  d->PutOne("m", Task(Key{"t", 3}, {Key{"tile", 3}}, 500, 0));
  d->PutOne("m", Task(Key{"t", 1}, {Key{"tile", 1}}, 1, 0));
  d->Advance(SpaceLimits{}.steal_after_us);
  EXPECT_EQ(NextKey("a"), (Key{"t", 1}));
  EXPECT_EQ(NextKey("a"), (Key{"t", 3}));
  EXPECT_EQ(NextKey("a"), (Key{"t", 2}));
  EXPECT_EQ(d->counters().steals, 1u);
  EXPECT_EQ(d->counters().affinity_hits, 1u);
}

TEST_F(GetTest, OneThatNeverAsksForTasksKeepsNobodyWaiting) {
  Tuple tile = Plain(Key{"tile", 1});
  tile.held = true;
  d->PutOne("m", tile);  // m holds the tile but takes no tasks
  d->PutOne("m", Task(Key{"t", 1}, {Key{"tile", 1}}, 0, 0));
  EXPECT_EQ(NextKey("a"), (Key{"t", 1}));
  EXPECT_EQ(d->counters().steals, 0u);
}

TEST_F(GetTest, AnyOfSeveralHoldersMayTakeIt) {
  for (const char* client : {"a", "b", "c"}) Introduce(client);
  d->PutOne("m", Plain(Key{"tile", 1}));
  d->Ask<Ok>("a", Hold{{Key{"tile", 1}}, {}});
  d->Ask<Ok>("b", Hold{{Key{"tile", 1}}, {}});
  d->Ask<PutReply>("m", Put{{Task(Key{"t", 1}, {Key{"tile", 1}}, 0, 0),
                             Task(Key{"t", 2}, {Key{"tile", 1}}, 0, 0)}});
  EXPECT_EQ(NextKey("c"), Key());
  EXPECT_EQ(NextKey("b"), (Key{"t", 1}));
  EXPECT_EQ(NextKey("a"), (Key{"t", 2}));
}

TEST_F(GetTest, ATaskIsFreeWhenItsHolderGoesOrDropsTheTuple) {
  Introduce("a");
  Introduce("b");
  for (int i = 1; i <= 2; ++i) d->PutOne("m", Plain(Key{"tile", i}));
  d->Ask<Ok>("a", Hold{{Key{"tile", 1}, Key{"tile", 2}}, {}});
  d->PutOne("m", Task(Key{"t", 1}, {Key{"tile", 1}}, 0, 0));
  d->PutOne("m", Task(Key{"t", 2}, {Key{"tile", 2}}, 0, 0));
  EXPECT_EQ(NextKey("b"), Key());
  d->Ask<Ok>("a", Hold{{}, {Key{"tile", 1}}});
  EXPECT_EQ(NextKey("b"), (Key{"t", 1}));
  EXPECT_EQ(NextKey("b"), Key());
  d->Lose("a");
  EXPECT_EQ(NextKey("b"), (Key{"t", 2}));
  EXPECT_EQ(d->counters().steals, 0u);
}

TEST_F(GetTest, ALateHoldMovesTasksThatAreReadyAlready) {
  Introduce("a");
  Introduce("b");
  d->PutOne("m", Plain(Key{"tile", 1}));
  d->PutOne("m", Task(Key{"t", 1}, {Key{"tile", 1}}, 0, 0));
  d->Ask<Ok>("a", Hold{{Key{"tile", 1}}, {}});
  EXPECT_EQ(NextKey("b"), Key());
  EXPECT_EQ(NextKey("a"), (Key{"t", 1}));
}

TEST_F(GetTest, HoldsAreForgottenWithTheTupleAndLimited) {
  SpaceLimits limits;
  limits.held_keys_per_client = 2;
  Begin(limits);
  for (int i = 1; i <= 3; ++i) d->PutOne("m", Plain(Key{"tile", i}));
  d->Ask<Ok>("a", Hold{{Key{"tile", 1}, Key{"tile", 2}, Key{"tile", 3}}, {}});
  EXPECT_EQ(d->space.GetStatistics().held_keys, 2u);
  d->Ask<RetireReply>("m", Retire{Every("tile"), false});
  EXPECT_EQ(d->space.GetStatistics().held_keys, 0u);
}

TEST_F(GetTest, ADuplicatePutThatIsHeldCountsAsAHold) {
  Introduce("a");
  Introduce("b");
  d->PutOne("m", Plain(Key{"tile", 1}, "x"));
  Tuple again = Plain(Key{"tile", 1}, "x");
  again.held = true;
  EXPECT_EQ(d->PutOne("a", again), PutStatus::kDuplicate);
  d->PutOne("m", Task(Key{"t", 1}, {Key{"tile", 1}}, 0, 0));
  EXPECT_EQ(NextKey("b"), Key());
  EXPECT_EQ(NextKey("a"), (Key{"t", 1}));
}

}  // namespace
}  // namespace tuplespace
