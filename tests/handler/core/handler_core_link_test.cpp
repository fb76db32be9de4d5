// HandlerCore behind a link: it keeps arriving inputs for other tasks, and does not supply its
// resident results as soon as it is idle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "handler_core_fixture.h"

namespace acan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::uint64_t kMiB = 1 << 20;

// A task that needs its inputs, of 100 bytes each, and another 100 bytes.
TaskGranted OverLink(std::vector<tuplespace::Key> inputs, std::uint64_t fence = 1) {
  const std::uint64_t need = 100 * inputs.size() + 100;
  TaskGranted grant = Grant(need, std::move(inputs), fence);
  grant.kept_from_bytes = 100;
  return grant;
}

std::vector<tuplespace::Key> Dropped(const std::vector<HandlerAction>& actions) {
  std::vector<tuplespace::Key> keys;
  for (const AnnounceHeld& said : Of<AnnounceHeld>(actions)) {
    keys.insert(keys.end(), said.dropped.begin(), said.dropped.end());
  }
  return keys;
}

class HandlerCoreLinkTest : public testing::Test {
 protected:
  HandlerCoreLinkTest() {
    core_.Start();
    core_.Step(ConnectionLost{true}, 0);
  }
  void Finish(FlightId flight, std::int64_t now_us = 0) {
    core_.Step(TaskFinished{flight, 0, {}}, now_us);
    core_.Step(Released{flight}, now_us);
  }
  HandlerCore core_{1000, 3};
};

TEST_F(HandlerCoreLinkTest, AnInputThatCameIsThereForTheNextTask) {
  const auto first = core_.Step(OverLink({Tile(1, 1), Tile(1, 2)}), 0);
  ASSERT_THAT(Of<KeepArrived>(first), SizeIs(2));
  EXPECT_EQ(Of<KeepArrived>(first)[1].input, 1u);
  EXPECT_EQ(Of<KeepArrived>(first)[1].key, Tile(1, 2));
  EXPECT_THAT(Of<RunTask>(first), SizeIs(1));
  EXPECT_EQ(core_.cached_bytes(), 200u);
  EXPECT_EQ(core_.reserved_bytes(), 100u) << "what is cached counts once";

  TaskGranted next = OverLink({Tile(1, 2)}, 2);
  next.sent = {false};
  const auto second = core_.Step(next, 0);
  EXPECT_THAT(Of<FetchInputs>(second), IsEmpty());
  EXPECT_THAT(Of<RunTask>(second), SizeIs(1));
  Finish(1);
  Finish(2);
  EXPECT_TRUE(core_.IsCached(Tile(1, 2)));
  EXPECT_EQ(core_.reserved_bytes(), 0u);
}

TEST_F(HandlerCoreLinkTest, WhatWasFetchedIsKeptToo) {
  TaskGranted grant = OverLink({Tile(1, 1), Tile(1, 2)});
  grant.sent = {false, false};
  ASSERT_THAT(Of<FetchInputs>(core_.Step(grant, 0)), SizeIs(1));
  const auto arrived = core_.Step(InputsArrived{1, {{0, 100}, {1, 99}}}, 0);
  ASSERT_THAT(Of<KeepArrived>(arrived), SizeIs(1)) << "the other one is too small";
  EXPECT_TRUE(core_.IsCached(Tile(1, 1)));
  EXPECT_FALSE(core_.IsCached(Tile(1, 2)));
  EXPECT_EQ(core_.reserved_bytes(), 200u);
}

// Another client may put a result of a wrong size while this handler computes the right one.
TEST_F(HandlerCoreLinkTest, AnInputOfAWrongSizeIsNotKept) {
  core_.Step(Grant(200), 0);  // this task makes a tile
  TaskGranted grant = OverLink({Tile(1, 1), Tile(1, 2)}, 2);
  grant.input_bytes = {53, 100};
  grant.kept_from_bytes = 1;
  grant.right_bytes = {100, 100};
  const auto actions = core_.Step(grant, 0);
  ASSERT_THAT(Of<KeepArrived>(actions), SizeIs(1));
  EXPECT_EQ(Of<KeepArrived>(actions)[0].input, 1u);
  EXPECT_THAT(Dropped(actions), ElementsAre(Tile(1, 1)));
  core_.Step(TaskFailed{2, "an input has 53 bytes"}, 0);
  core_.Step(TaskFinished{1, 100, {{Tile(1, 1), 100}}}, 0);
  Store(core_, 1);
  EXPECT_TRUE(core_.IsCached(Tile(1, 1)));
  EXPECT_EQ(core_.cached_bytes(), 200u);
}

TEST_F(HandlerCoreLinkTest, APieceIsKeptIfThereIsRoomBesideTheTask) {
  TaskGranted grant = OverLink({Tile(1, 1)});
  grant.whole = {false};
  EXPECT_THAT(Of<KeepArrived>(core_.Step(grant, 0)), SizeIs(1));
  EXPECT_EQ(core_.reserved_bytes(), 200u) << "its copy is the task's";

  HandlerCore full(250, 3);
  full.Step(ConnectionLost{true}, 0);
  const auto actions = full.Step(grant, 0);
  EXPECT_THAT(Of<KeepArrived>(actions), IsEmpty());
  EXPECT_THAT(Of<RunTask>(actions), SizeIs(1));
  EXPECT_THAT(Dropped(actions), ElementsAre(Tile(1, 1))) << "the space believes that it is here";
}

// The task says that the tile has fewer bytes than it has, so it is charged too little. It fails
// when it runs.
TEST_F(HandlerCoreLinkTest, NoInputIsKeptBeyondTheLimit) {
  TaskGranted first = Grant(900, {Tile(1, 1)});
  first.input_bytes = {900};
  first.kept_from_bytes = 100;
  core_.Step(first, 0);
  Finish(1);
  ASSERT_EQ(core_.cached_bytes(), 900u);
  TaskGranted next = Grant(300, {Tile(1, 1), Tile(1, 2)}, 2);
  next.sent = {false, true};
  next.input_bytes = {0, 200};
  next.kept_from_bytes = 100;
  const auto actions = core_.Step(next, 0);
  EXPECT_THAT(Of<RunTask>(actions), SizeIs(1));
  EXPECT_THAT(Of<KeepArrived>(actions), IsEmpty());
  EXPECT_THAT(Dropped(actions), ElementsAre(Tile(1, 2)));
}

TEST_F(HandlerCoreLinkTest, WhatCameWithATaskThatGoesBackIsNotHeld) {
  core_.Step(Drain{}, 0);
  const auto actions = core_.Step(OverLink({Tile(1, 1)}), 0);
  EXPECT_THAT(Of<PutBack>(actions), SizeIs(1));
  EXPECT_THAT(Of<KeepArrived>(actions), IsEmpty());
  EXPECT_THAT(Dropped(actions), ElementsAre(Tile(1, 1)));
}

TEST_F(HandlerCoreLinkTest, AnOlderVersionDoesNotTakeThePlaceOfANewerOne) {
  core_.Step(OverLink({Tile(2, 1)}), 0);
  const auto older = core_.Step(OverLink({Tile(1, 1)}, 2), 0);
  EXPECT_THAT(Of<KeepArrived>(older), IsEmpty());
  EXPECT_THAT(Of<RunTask>(older), SizeIs(1));
  EXPECT_TRUE(core_.IsCached(Tile(2, 1)));
}

TEST_F(HandlerCoreLinkTest, WhatCouldNotBeKeptIsForgotten) {
  core_.Step(OverLink({Tile(1, 1)}), 0);
  EXPECT_THAT(Dropped(core_.Step(NotKept{Tile(1, 1)}, 0)), ElementsAre(Tile(1, 1)));
  core_.Step(TaskFailed{1, "no room"}, 0);
  EXPECT_FALSE(core_.IsCached(Tile(1, 1)));
  EXPECT_EQ(core_.cached_bytes(), 0u);
}

// ---- inputs fetched ahead of their tasks --------------------------------------------------------

TaskGranted Telling(std::vector<Ahead> ahead, std::uint64_t fence = 1) {
  TaskGranted grant = OverLink({Tile(1, 1)}, fence);
  grant.ahead = std::move(ahead);
  return grant;
}

TEST_F(HandlerCoreLinkTest, WhatTasksWillNeedIsThereBeforeThem) {
  const auto told = core_.Step(Telling({{Tile(2, 1), 100}}), 0);
  ASSERT_THAT(Of<FetchAhead>(told), SizeIs(1));
  EXPECT_EQ(Of<FetchAhead>(told)[0].key, Tile(2, 1));
  EXPECT_EQ(Of<FetchAhead>(told)[0].bytes, 100u) << "no more is set aside for it";
  EXPECT_EQ(core_.reserved_bytes(), 200u) << "a task, and what comes";
  EXPECT_THAT(Of<FetchAhead>(core_.Step(Telling({{Tile(2, 1), 100}}, 2), 0)), IsEmpty());
  const auto arrived = core_.Step(AheadArrived{Tile(2, 1), 100}, 0);
  EXPECT_THAT(Of<KeepAhead>(arrived), SizeIs(1));
  ASSERT_THAT(Of<AnnounceHeld>(arrived), SizeIs(1));
  EXPECT_THAT(Of<AnnounceHeld>(arrived)[0].held, ElementsAre(Tile(2, 1)));

  TaskGranted next = OverLink({Tile(2, 1)}, 3);
  next.sent = {false};
  EXPECT_THAT(Of<FetchInputs>(core_.Step(next, 0)), IsEmpty());
}

// The previous step still reads the older version.
TEST_F(HandlerCoreLinkTest, WhatIsAheadTakesTheOlderVersionsPlaceWhenItIsUsed) {
  core_.Step(Telling({{Tile(2, 1), 100}}), 0);
  core_.Step(AheadArrived{Tile(2, 1), 100}, 0);
  Finish(1);
  EXPECT_TRUE(core_.IsCached(Tile(1, 1)));
  TaskGranted older = OverLink({Tile(1, 1)}, 2);
  older.sent = {false};
  EXPECT_THAT(Of<FetchInputs>(core_.Step(older, 0)), IsEmpty());
  Finish(2);
  EXPECT_TRUE(core_.IsCached(Tile(2, 1)));
  TaskGranted next = OverLink({Tile(2, 1)}, 3);
  next.sent = {false};
  EXPECT_THAT(Dropped(core_.Step(next, 0)), ElementsAre(Tile(1, 1)));
}

TEST_F(HandlerCoreLinkTest, NothingIsFetchedAheadWithoutRoomForTheTwoLargestTasks) {
  TaskGranted grant = Telling({{Tile(2, 1), 301}, {Tile(2, 2), 200}, {Tile(2, 3), 0}});
  grant.need_bytes = grant.computing_bytes = 250;  // and 500 are reserved for others
  const auto told = core_.Step(grant, 0);
  ASSERT_THAT(Of<FetchAhead>(told), SizeIs(1));
  EXPECT_EQ(Of<FetchAhead>(told)[0].key, Tile(2, 2));
}

// The broker would refuse the requests for tasks while so many others wait.
TEST_F(HandlerCoreLinkTest, OnlySoManyComeAheadAtATime) {
  HandlerCore core(kMiB, 3);
  core.Step(ConnectionLost{true}, 0);
  std::vector<Ahead> many;
  for (std::size_t i = 0; i < 2 * kMaxComing; ++i) {
    many.push_back({Tile(2, static_cast<std::int64_t>(i)), 100});
  }
  EXPECT_THAT(Of<FetchAhead>(core.Step(Telling(many), 0)), SizeIs(kMaxComing));
  EXPECT_THAT(Of<FetchAhead>(core.Step(Telling(many, 2), 0)), IsEmpty());
  core.Step(AheadArrived{Tile(2, 0), 0}, 0);
  EXPECT_THAT(Of<FetchAhead>(core.Step(Telling(many, 3), 0)), SizeIs(1));
}

TEST_F(HandlerCoreLinkTest, WhatDoesNotComeOrIsSomethingElseIsNotKept) {
  core_.Step(Telling({{Tile(2, 1), 100}, {Tile(2, 2), 100}}), 0);
  EXPECT_THAT(Of<KeepAhead>(core_.Step(AheadArrived{Tile(2, 1), 0}, 0)), IsEmpty());
  EXPECT_THAT(Of<KeepAhead>(core_.Step(AheadArrived{Tile(2, 2), 99}, 0)), IsEmpty());
  EXPECT_FALSE(core_.IsCached(Tile(2, 1)) || core_.IsCached(Tile(2, 2)));
  Finish(1);
  EXPECT_EQ(core_.reserved_bytes(), 0u);
}

TEST_F(HandlerCoreLinkTest, WhatIsAheadGoesWhenATaskNeedsTheRoom) {
  core_.Step(Telling({{Tile(2, 1), 100}}), 0);
  core_.Step(AheadArrived{Tile(2, 1), 100}, 0);
  Finish(1);
  const auto actions = core_.Step(Grant(950, {}, 2), 0);
  EXPECT_THAT(Of<RunTask>(actions), SizeIs(1));
  EXPECT_FALSE(core_.IsCached(Tile(2, 1)));
  const auto dropped = Dropped(actions);
  EXPECT_EQ(std::ranges::count(dropped, Tile(2, 1)), 1);
}

// At the assumed 1 Gbit/s, 4 MiB take 34 ms.
TEST(HandlerCoreOverLinkTest, WaitsLongerThanSuppliesTakeBeforeItSuppliesUnasked) {
  const auto due_us = [](bool over_link) {
    HandlerCore core(64 * kMiB, 2);
    core.Start();
    core.Step(ConnectionLost{over_link}, 0);
    TaskGranted grant = Grant(5 * kMiB);
    grant.resident_bytes = 4 * kMiB;
    core.Step(grant, 0);
    core.Step(TaskFinished{1, 4 * kMiB, {{Tile(1, 1), 4 * kMiB, true}}}, 0);
    Store(core, 1);
    core.Step(TimePassed{}, kOfferInVainUs);  // now it offers everything that is free
    return core.NextDeadlineUs();
  };
  EXPECT_EQ(due_us(false), 50'000);
  EXPECT_EQ(due_us(true), 4 * 33'554);
}

TEST(LinkPaceTest, FollowsTheFastestSupplies) {
  LinkPace pace;
  pace.Begin(false);
  EXPECT_EQ(pace.UsFor(kMiB), 524) << "assumed of a device";
  pace.Note(kMiB, 1'024'000);
  EXPECT_EQ(pace.UsFor(kMiB), 1'024'000);
  EXPECT_EQ(pace.ns_per_kib(), 0u) << "no link";
  pace.Begin(true);
  EXPECT_EQ(pace.UsFor(kMiB), 8'388) << "assumed";
  pace.Note(kMiB, 1'024'000);
  EXPECT_EQ(pace.UsFor(kMiB), 1'024'000) << "the first counts, however slow";
  pace.Note(kMiB, 1024);
  EXPECT_EQ(pace.UsFor(2 * kMiB), 2048) << "a faster one counts at once";
  pace.Note(kMiB, 9 * 1024);
  EXPECT_EQ(pace.UsFor(kMiB), 2 * 1024) << "a slower one by an eighth";
  pace.Note(1024, 1'000'000);
  EXPECT_EQ(pace.UsFor(kMiB), 2 * 1024) << "of few bytes, the round trip counts";
  pace.Note(kMiB, 0);
  EXPECT_EQ(pace.ns_per_kib(), 1u) << "still a link";
}

}  // namespace
}  // namespace acan
