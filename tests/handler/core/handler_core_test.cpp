// HandlerCore alone: what it asks for, runs, keeps and drops, and that it never exceeds its limit.
#include <gtest/gtest.h>

#include <algorithm>

#include "acan/core/tuple_kinds.h"
#include "handler_core_fixture.h"

namespace acan {
namespace {

using tuplespace::Key;

TEST(HandlerCoreTest, OffersWhatIsFreeAndAsksAgainWhenATaskHasLeft) {
  HandlerCore core(1000, 2);
  auto asked = Of<AskForTask>(core.Start());
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].offer_bytes, 1000u);

  auto actions = core.Step(Grant(600), 0);
  EXPECT_EQ(Of<RunTask>(actions).size(), 1u);
  asked = Of<AskForTask>(actions);
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].offer_bytes, 400u);

  actions = core.Step(TaskFinished{1, 50, {}}, 1);
  EXPECT_EQ(Of<ReportDone>(actions).size(), 1u);
  asked = Of<AskForTask>(actions);
  ASSERT_EQ(asked.size(), 1u) << "the open offer is too small for a task of the usual size";
  EXPECT_EQ(asked[0].offer_bytes, 950u);

  actions = core.Step(Released{1}, 2);
  EXPECT_EQ(core.reserved_bytes(), 0u);
}

TEST(HandlerCoreTest, TakesNoMoreThanItsDepth) {
  HandlerCore core(1000, 2);
  core.Start();
  EXPECT_EQ(Of<AskForTask>(core.Step(Grant(10, {}, 1), 0)).size(), 1u);
  EXPECT_TRUE(Of<AskForTask>(core.Step(Grant(10, {}, 2), 0)).empty());
  EXPECT_EQ(Of<AskForTask>(core.Step(TaskFinished{1, 0, {}}, 0)).size(), 1u);
}

TEST(HandlerCoreTest, PutsBackWhatWasGrantedAgainstAnOlderLargerOffer) {
  HandlerCore core(1000, 3);
  core.Start();
  core.Step(Grant(800), 0);
  TaskGranted late = Grant(300, {}, 2);
  late.current = false;
  const auto actions = core.Step(late, 0);
  EXPECT_EQ(Of<PutBack>(actions).size(), 1u);
  EXPECT_TRUE(Of<RunTask>(actions).empty());
  EXPECT_EQ(core.reserved_bytes(), 800u);
}

TEST(HandlerCoreTest, KeepsResultsAndUsesThemAgain) {
  HandlerCore core(1000, 2);
  core.Start();
  core.Step(Grant(300), 0);
  core.Step(TaskFinished{1, 100, {{Tile(1, 7), 100}}}, 0);
  Store(core, 1);
  EXPECT_TRUE(core.IsCached(Tile(1, 7)));
  EXPECT_EQ(core.cached_bytes(), 100u);

  TaskGranted next = Grant(300, {Tile(1, 7)}, 2);
  next.sent = {false};
  auto actions = core.Step(next, 1);
  EXPECT_EQ(Of<RunTask>(actions).size(), 1u);
  EXPECT_EQ(core.cached_bytes(), 100u);
  EXPECT_EQ(core.reserved_bytes(), 200u) << "the tile counts once";

  // The next version replaces it.
  actions = core.Step(TaskFinished{2, 100, {{Tile(2, 7), 100}}}, 2);
  Store(core, 2, 2);
  EXPECT_FALSE(core.IsCached(Tile(1, 7)));
  EXPECT_TRUE(core.IsCached(Tile(2, 7)));
  EXPECT_EQ(core.cached_bytes(), 100u);
}

TEST(HandlerCoreTest, DropsWhatEarlierStepsLeft) {
  HandlerCore core(1000, 3);
  core.Start();
  core.Step(Grant(300), 0);
  core.Step(TaskFinished{1, 300, {{Tile(1, 7), 100}, {Tile(1, 8), 100}, {Tile(2, 9), 100}}}, 0);
  Store(core, 1);
  TaskGranted earlier = Grant(200, {Tile(1, 7)}, 2);
  earlier.sent = {false};
  core.Step(earlier, 1);
  const auto actions = core.Step(Grant(200, {Tile(2, 6)}, 3), 2);
  EXPECT_TRUE(core.IsCached(Tile(1, 7))) << "in use";
  EXPECT_FALSE(core.IsCached(Tile(1, 8)));
  EXPECT_TRUE(core.IsCached(Tile(2, 9)));
  ASSERT_EQ(Of<AnnounceHeld>(actions).size(), 1u);
  EXPECT_EQ(Of<AnnounceHeld>(actions)[0].dropped, std::vector<Key>{Tile(1, 8)});
}

// Tiles of frozen parameters belong to no step.
TEST(HandlerCoreTest, KeepsWhatIsFrozenAndTakesItForNoStep) {
  HandlerCore core(1000, 2);
  core.Start();
  const Key frozen = Tile(kFrozenVersion, 5);
  core.Step(Grant(300), 0);
  core.Step(TaskFinished{1, 200, {{Tile(1, 7), 100}, {frozen, 100}}}, 0);
  Store(core, 1);
  core.Step(Grant(100, {frozen}, 2), 1);
  EXPECT_TRUE(core.IsCached(Tile(1, 7)));
  core.Step(Grant(100, {Tile(2, 6)}, 3), 2);
  EXPECT_FALSE(core.IsCached(Tile(1, 7)));
  EXPECT_TRUE(core.IsCached(frozen));
}

TEST(HandlerCoreTest, FetchesWhatItHasDropped) {
  HandlerCore core(1000, 2);
  core.Start();
  TaskGranted grant = Grant(300, {Tile(1, 1), Tile(1, 2)});
  grant.sent = {true, false};
  auto actions = core.Step(grant, 0);
  ASSERT_EQ(Of<FetchInputs>(actions).size(), 1u);
  EXPECT_EQ(Of<FetchInputs>(actions)[0].inputs, std::vector<std::size_t>{1});
  EXPECT_EQ(Of<RunTask>(core.Step(InputsArrived{1}, 0)).size(), 1u);
}

TEST(HandlerCoreTest, DropsTheColdestTileForATaskThatNeedsTheRoom) {
  HandlerCore core(1000, 2);
  core.Start();
  core.Step(Grant(300), 0);
  core.Step(TaskFinished{1, 800, {{Tile(1, 1), 400}, {Tile(1, 2), 400}}}, 0);
  Store(core, 1, 1);
  TaskGranted use = Grant(400, {Tile(1, 2)}, 2);
  use.sent = {false};
  core.Step(use, 5);
  core.Step(TaskFinished{2, 0, {}}, 6);
  core.Step(Released{2}, 6);
  const auto actions = core.Step(Grant(500, {}, 3), 7);
  ASSERT_EQ(Of<DropCached>(actions).size(), 1u);
  EXPECT_EQ(Of<DropCached>(actions)[0].key, Tile(1, 1));
  ASSERT_EQ(Of<AnnounceHeld>(actions).size(), 1u);
  EXPECT_EQ(Of<AnnounceHeld>(actions)[0].dropped, std::vector<Key>{Tile(1, 1)});
}

TEST(HandlerCoreTest, ExtendsLeasesUnlessTheJobTimesThem) {
  HandlerCore core(1000, 2);
  core.Start();
  core.Step(Grant(10, {}, 1), 0);
  TaskGranted timed = Grant(10, {}, 2);
  timed.timed = true;
  core.Step(timed, 0);
  EXPECT_EQ(core.NextDeadlineUs(), 500);
  const auto extended = Of<ExtendLease>(core.Step(TimePassed{}, 500));
  ASSERT_EQ(extended.size(), 1u);
  EXPECT_EQ(extended[0].lease.fence, 1u);
  EXPECT_EQ(core.NextDeadlineUs(), 1000);
}

// Another client may be slow to send an input.
TEST(HandlerCoreTest, ExtendsLeasesWhileAllTasksWaitForInputs) {
  constexpr std::int64_t kFetchedUs = 60'000;
  HandlerCore core(1000, 2);
  core.Start();
  TaskGranted fetching = Grant(10, {Tile(1, 1)}, 1);
  fetching.sent = {false};
  core.Step(fetching, 0);
  std::int64_t now_us = 0;
  std::size_t extended = 0;
  const auto go_on_until = [&](std::int64_t until_us) {
    extended = 0;
    while (now_us < until_us) {
      extended += Of<ExtendLease>(core.Step(TimePassed{}, now_us += 500)).size();
    }
  };
  go_on_until(kFetchedUs);
  EXPECT_EQ(extended, 120u);
  core.Step(InputsArrived{1}, now_us);
  go_on_until(now_us + 7'000);
  EXPECT_EQ(extended, 14u) << "the device has just begun";
  go_on_until(now_us + 7'000);
  EXPECT_LE(extended, 2u) << "it hangs";
}

TEST(HandlerCoreTest, DrainFinishesWhatRunsAndPutsBackTheRest) {
  HandlerCore core(1000, 3);
  core.Start();
  core.Step(Grant(10, {}, 1), 0);
  TaskGranted fetching = Grant(10, {Tile(1, 1)}, 2);
  fetching.sent = {false};
  core.Step(fetching, 0);
  const auto actions = core.Step(Drain{}, 0);
  EXPECT_EQ(Of<PutBack>(actions).size(), 1u);
  EXPECT_EQ(Of<StopAsking>(actions).size(), 1u);
  EXPECT_FALSE(core.drained());
  EXPECT_EQ(Of<PutBack>(core.Step(Grant(10, {}, 3), 0)).size(), 1u) << "granted meanwhile";
  core.Step(TaskFinished{1, 0, {}}, 1);
  core.Step(Released{1}, 1);
  EXPECT_TRUE(core.drained());
}

// The tasks of one manager may have made both.
TEST(HandlerCoreTest, AResultOfAnotherSizeThanTheOneThatIsHereFailsItsTask) {
  HandlerCore core(1000, 2);
  core.Start();
  core.Step(Grant(300), 0);
  core.Step(TaskFinished{1, 100, {{Tile(1, 7), 100}}}, 0);
  core.Step(Grant(300, {}, 2), 0);
  const auto actions = core.Step(TaskFinished{2, 200, {{Tile(1, 7), 200}}}, 0);
  EXPECT_TRUE(Of<ReportDone>(actions).empty());
  const auto failed = Of<ReportFailed>(actions);
  ASSERT_EQ(failed.size(), 1u);
  EXPECT_EQ(failed[0].flight, 2u);
  EXPECT_NE(failed[0].cause.find("has 200 bytes, but the one that is here has 100"),
            std::string::npos)
      << failed[0].cause;
  Store(core, 1);
  EXPECT_TRUE(core.IsCached(Tile(1, 7)));
  EXPECT_EQ(core.cached_bytes(), 100u);
  EXPECT_EQ(core.reserved_bytes(), 0u);
}

TEST(HandlerCoreTest, AResultThatWasRefusedIsNotUsed) {
  HandlerCore core(1000, 2);
  core.Start();
  core.Step(Grant(300), 0);
  core.Step(TaskFinished{1, 100, {{Tile(1, 7), 100}}}, 0);
  core.Step(ResultRefused{Tile(1, 7), 1}, 0);
  core.Step(ResultsCount{1}, 0);  // the others of this task
  TaskGranted reader = Grant(200, {Tile(1, 7)}, 2);
  reader.sent = {false};
  EXPECT_EQ(Of<FetchInputs>(core.Step(reader, 0)).size(), 1u) << "its bytes are still leaving";
  EXPECT_EQ(Of<DropCached>(core.Step(Released{1}, 0)).size(), 1u);
  EXPECT_FALSE(core.IsCached(Tile(1, 7)));
  EXPECT_TRUE(Of<DropCached>(core.Step(ResultRefused{Tile(1, 8), 1}, 0)).empty()) << "not here";
}

// Another handler may have put it first, with other bytes, which all other tasks read.
TEST(HandlerCoreTest, AResultIsNotUsedBeforeItCounts) {
  HandlerCore core(1000, 3);
  core.Start();
  core.Step(Grant(300), 0);
  core.Step(TaskFinished{1, 100, {{Tile(1, 7), 100}}}, 0);
  TaskGranted early = Grant(200, {Tile(1, 7)}, 2);
  early.sent = {false};
  const auto before = core.Step(early, 0);
  EXPECT_EQ(Of<FetchInputs>(before).size(), 1u);
  EXPECT_TRUE(Of<RunTask>(before).empty());
  EXPECT_FALSE(core.MayUse(Tile(1, 7)));

  core.Step(ResultsCount{1}, 0);
  EXPECT_TRUE(core.MayUse(Tile(1, 7)));
  TaskGranted next = Grant(200, {Tile(1, 7)}, 3);
  next.sent = {false};
  const auto after = core.Step(next, 0);
  EXPECT_TRUE(Of<FetchInputs>(after).empty()) << "although its bytes are still leaving";
  EXPECT_EQ(Of<RunTask>(after).size(), 1u);
  EXPECT_EQ(Of<RunTask>(core.Step(InputsArrived{2}, 0)).size(), 1u);
}

TEST(HandlerCoreTest, AResultIsNotAnnouncedBeforeItCounts) {
  HandlerCore core(1000, 2);
  core.Start();
  core.Step(Grant(300), 0);
  core.Step(TaskFinished{1, 100, {{Tile(1, 7), 100}}}, 0);
  EXPECT_TRUE(Of<AnnounceHeld>(core.Step(ConnectionLost{}, 1)).empty());
  core.Step(ResultsCount{1}, 2);
  const auto held = Of<AnnounceHeld>(core.Step(ConnectionLost{}, 3));
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].held, std::vector<Key>{Tile(1, 7)});
}

// The cache keeps the bytes of the first one.
TEST(HandlerCoreTest, TheAnswerToAnotherPutOfTheSameResultSaysNothing) {
  HandlerCore core(1000, 2);
  core.Start();
  core.Step(Grant(300, {}, 1), 0);
  core.Step(Grant(300, {}, 2), 0);
  core.Step(TaskFinished{1, 100, {{Tile(1, 7), 100}}}, 0);
  core.Step(TaskFinished{2, 100, {{Tile(1, 7), 100}}}, 0);
  Store(core, 2);
  EXPECT_FALSE(core.MayUse(Tile(1, 7)));
  core.Step(ResultsCount{1}, 0);
  EXPECT_TRUE(core.MayUse(Tile(1, 7)));
}

TEST(HandlerCoreTest, TheRefusalOfAnotherPutOfTheSameResultSaysNothing) {
  HandlerCore core(1000, 2);
  core.Start();
  core.Step(Grant(300, {}, 1), 0);
  core.Step(Grant(300, {}, 2), 0);
  core.Step(TaskFinished{1, 100, {{Tile(1, 7), 100}}}, 0);
  core.Step(TaskFinished{2, 100, {{Tile(1, 7), 100}}}, 0);
  Store(core, 1);
  core.Step(ResultRefused{Tile(1, 7), 2}, 0);
  EXPECT_TRUE(core.MayUse(Tile(1, 7)));
  Store(core, 2);
  EXPECT_TRUE(core.MayUse(Tile(1, 7)));
}

TEST(HandlerCoreTest, AResultWhosePutIsNeverAnsweredGoes) {
  HandlerCore core(1000, 2);
  core.Start();
  core.Step(Grant(300), 0);
  core.Step(TaskFinished{1, 100, {{Tile(1, 7), 100}}}, 0);
  EXPECT_EQ(Of<DropCached>(core.Step(Released{1}, 0)).size(), 1u);
  EXPECT_FALSE(core.IsCached(Tile(1, 7)));
}

TEST(HandlerCoreTest, SaysAgainWhatItHoldsToANewSpace) {
  HandlerCore core(1000, 2);
  core.Start();
  core.Step(Grant(300), 0);
  core.Step(TaskFinished{1, 100, {{Tile(1, 7), 100}}}, 0);
  Store(core, 1);
  const auto held = Of<AnnounceHeld>(core.Step(ConnectionLost{}, 1));
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].held, std::vector<Key>{Tile(1, 7)});
}

// A task with a tile of 400 bytes, which is copied into a larger buffer.
TaskGranted Gathering(std::uint64_t gathering_bytes, std::uint64_t computing_bytes) {
  TaskGranted grant = Grant(std::max(gathering_bytes, computing_bytes), {Tile(1, 1)}, 2);
  grant.gathering_bytes = gathering_bytes;
  grant.computing_bytes = computing_bytes;
  grant.whole = {false};
  grant.sent = {false};
  return grant;
}

class HandlerCorePiecesTest : public testing::Test {
 protected:
  HandlerCorePiecesTest() {
    core_.Start();
    core_.Step(Grant(400), 0);
    core_.Step(TaskFinished{1, 400, {{Tile(1, 1), 400}}}, 0);
    Store(core_, 1);
  }
  HandlerCore core_{1000, 2};
};

TEST_F(HandlerCorePiecesTest, APieceStaysInTheCacheWhereThereIsRoom) {
  const auto actions = core_.Step(Gathering(600, 500), 1);
  EXPECT_EQ(Of<RunTask>(actions).size(), 1u);
  EXPECT_TRUE(Of<TakeCached>(actions).empty());
  EXPECT_EQ(core_.reserved_bytes(), 500u) << "what it computes with, beside the tile";
  EXPECT_EQ(core_.cached_bytes(), 400u);
}

// If the tile were counted neither in the cache nor in the task, such tasks would run out of
// memory.
TEST_F(HandlerCorePiecesTest, APieceGoesWithTheTaskWhereThereIsNone) {
  const auto actions = core_.Step(Gathering(800, 900), 1);
  EXPECT_EQ(Of<RunTask>(actions).size(), 1u) << "it needs 900 of 1000";
  ASSERT_EQ(Of<TakeCached>(actions).size(), 1u);
  EXPECT_EQ(Of<TakeCached>(actions)[0].input, 0u);
  EXPECT_EQ(core_.reserved_bytes(), 900u);
  EXPECT_FALSE(core_.IsCached(Tile(1, 1)));
  ASSERT_EQ(Of<AnnounceHeld>(actions).size(), 1u);
  EXPECT_EQ(Of<AnnounceHeld>(actions)[0].dropped, std::vector<Key>{Tile(1, 1)});
}

TEST_F(HandlerCorePiecesTest, WhatAnotherTaskUsesIsNotTaken) {
  TaskGranted other = Grant(450, {Tile(1, 1)}, 3);
  other.sent = {false};
  core_.Step(other, 1);
  const auto actions = core_.Step(Gathering(550, 200), 1);
  EXPECT_EQ(Of<RunTask>(actions).size(), 1u);
  EXPECT_TRUE(Of<TakeCached>(actions).empty());
  EXPECT_EQ(core_.reserved_bytes(), 50u + 200u);
}

}  // namespace
}  // namespace acan
