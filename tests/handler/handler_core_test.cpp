// HandlerCore alone: what it asks for, runs, keeps and drops, and that it never holds too much.
#include <gtest/gtest.h>

#include <deque>
#include <random>
#include <set>

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
  core.Step(Released{1}, 0);
  EXPECT_TRUE(core.IsCached(Tile(1, 7)));
  EXPECT_EQ(core.cached_bytes(), 100u);

  TaskGranted next = Grant(300, {Tile(1, 7)}, 2);
  next.sent = {false};
  auto actions = core.Step(next, 1);
  EXPECT_EQ(Of<RunTask>(actions).size(), 1u);
  EXPECT_EQ(core.cached_bytes(), 0u) << "in use: part of the task's need";

  // Its next version takes its place.
  actions = core.Step(TaskFinished{2, 100, {{Tile(2, 7), 100}}}, 2);
  core.Step(Released{2}, 2);
  EXPECT_FALSE(core.IsCached(Tile(1, 7)));
  EXPECT_TRUE(core.IsCached(Tile(2, 7)));
  EXPECT_EQ(core.cached_bytes(), 100u);
}

TEST(HandlerCoreTest, DropsWhatEarlierStepsLeft) {
  HandlerCore core(1000, 3);
  core.Start();
  core.Step(Grant(300), 0);
  core.Step(TaskFinished{1, 300, {{Tile(1, 7), 100}, {Tile(1, 8), 100}, {Tile(2, 9), 100}}}, 0);
  core.Step(Released{1}, 0);
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

// Tiles of parameters that are not trained belong to no step.
TEST(HandlerCoreTest, KeepsWhatIsFrozenAndTakesItForNoStep) {
  HandlerCore core(1000, 2);
  core.Start();
  const Key frozen = Tile(kFrozenVersion, 5);
  core.Step(Grant(300), 0);
  core.Step(TaskFinished{1, 200, {{Tile(1, 7), 100}, {frozen, 100}}}, 0);
  core.Step(Released{1}, 0);
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
  core.Step(Released{1}, 1);
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

TEST(HandlerCoreTest, SaysAgainWhatItHoldsToANewSpace) {
  HandlerCore core(1000, 2);
  core.Start();
  core.Step(Grant(300), 0);
  core.Step(TaskFinished{1, 100, {{Tile(1, 7), 100}}}, 0);
  core.Step(Released{1}, 0);
  const auto held = Of<AnnounceHeld>(core.Step(ConnectionLost{}, 1));
  ASSERT_EQ(held.size(), 1u);
  EXPECT_EQ(held[0].held, std::vector<Key>{Tile(1, 7)});
}

// Random tasks over few tiles: the sum of what tasks reserve and what is kept never passes the
// limit (Step asserts it), every task ends, and at the end nothing is reserved.
TEST(HandlerCoreTest, RandomEventsNeverPassTheLimit) {
  for (std::uint32_t seed = 1; seed <= 200; ++seed) {
    std::mt19937 random(seed);
    const std::uint64_t limit = 500 + random() % 2000;
    HandlerCore core(limit, 1 + static_cast<int>(random() % 4));
    std::int64_t now = 0;
    std::uint64_t fence = 0, granted = 0, ended = 0;
    std::optional<std::uint64_t> offer;
    std::deque<std::pair<FlightId, TaskGranted>> running;
    std::deque<FlightId> sending, fetching;
    std::set<FlightId> staying;
    std::deque<Key> supplies, owed;
    std::map<FlightId, TaskGranted> grants;
    const auto take = [&](const std::vector<HandlerAction>& actions) {
      for (const HandlerAction& action : actions) {
        if (const auto* ask = std::get_if<AskForTask>(&action)) offer = ask->offer_bytes;
        if (const auto* run = std::get_if<RunTask>(&action))
          running.emplace_back(run->flight, grants[run->flight]);
        if (const auto* run = std::get_if<RunTask>(&action); run != nullptr && run->resident)
          staying.insert(run->flight);
        if (const auto* supply = std::get_if<SupplyKept>(&action)) supplies.push_back(supply->key);
        if (const auto* fetch = std::get_if<FetchInputs>(&action))
          fetching.push_back(fetch->flight);
        if (std::get_if<PutBack>(&action) != nullptr ||
            std::get_if<ReportFailed>(&action) != nullptr)
          ++ended;
      }
    };
    take(core.Start());
    for (int i = 0; i < 400; ++i) {
      now += static_cast<std::int64_t>(random() % 100);
      const unsigned what = random() % 7;
      if (what == 0 && offer) {
        const std::uint64_t need = 1 + random() % *offer;
        TaskGranted grant = Grant(need,
                                  {Tile(static_cast<std::int64_t>(random() % 3),
                                        static_cast<std::int64_t>(random() % 5))},
                                  ++fence);
        grant.input_bytes = {std::max<std::uint64_t>(1, need / 4)};
        grant.sent = {!core.IsCached(grant.inputs[0]) && random() % 4 != 0};
        if (grant.sent[0]) grant.keep_input = 0;
        if (random() % 2 == 0) grant.resident_bytes = need / 4;
        offer.reset();
        ++granted;
        // The flight's number is known before its actions are looked at.
        grants[core.last_flight() + 1] = grant;
        take(core.Step(grant, now));
      } else if (what == 1 && !running.empty()) {
        const auto [flight, grant] = running.front();
        running.pop_front();
        if (random() % 10 == 0) {
          take(core.Step(TaskFailed{flight, "seeded"}, now));
          continue;
        }
        TaskFinished finished{flight, grant.need_bytes / 2, {}};
        const Key result = Tile(static_cast<std::int64_t>(random() % 3) + 3,
                                static_cast<std::int64_t>(random() % 5));
        if (grant.need_bytes >= 4 && !core.IsCached(result)) {
          const bool resident = staying.count(flight) != 0;
          finished.kept = {{result, grant.need_bytes / 4, resident}};
          if (resident) owed.push_back(result);
        }
        take(core.Step(finished, now));
        sending.push_back(flight);
      } else if (what == 2 && !sending.empty()) {
        take(core.Step(Released{sending.front()}, now));
        sending.pop_front();
        ++ended;
      } else if (what == 3 && !fetching.empty()) {
        const FlightId flight = fetching.front();
        fetching.pop_front();
        if (random() % 3 == 0) {
          take(core.Step(GivenUp{flight}, now));
        } else {
          take(core.Step(InputsArrived{flight}, now));
        }
      } else if (what == 4 && !owed.empty()) {
        const Key key = owed.front();
        owed.pop_front();
        if (random() % 2 == 0) {
          take(core.Step(KeptReleased{key}, now));
        } else {
          take(core.Step(KeptWanted{key}, now));
        }
      } else if (what == 5 && !supplies.empty()) {
        const Key key = supplies.front();
        supplies.pop_front();
        if (random() % 4 == 0) {
          take(core.Step(SupplyFailed{key}, now));
        } else {
          take(core.Step(KeptSupplied{key}, now));
        }
      } else {
        take(core.Step(TimePassed{}, now));
      }
      ASSERT_LE(core.reserved_bytes() + core.cached_bytes(), limit) << "seed " << seed;
    }
    while (!fetching.empty()) take(core.Step(GivenUp{fetching.front()}, now)), fetching.pop_front();
    while (!running.empty())
      take(core.Step(TaskFailed{running.front().first, "end"}, now)), running.pop_front();
    while (!sending.empty())
      take(core.Step(Released{sending.front()}, now)), sending.pop_front(), ++ended;
    take(core.Step(Drain{}, now));
    while (!supplies.empty()) {
      const Key key = supplies.front();
      supplies.pop_front();
      take(core.Step(KeptSupplied{key}, now));
    }
    EXPECT_TRUE(core.drained()) << "seed " << seed;
    EXPECT_EQ(core.reserved_bytes(), 0u) << "seed " << seed;
    EXPECT_EQ(granted, ended) << "seed " << seed;
  }
}

}  // namespace
}  // namespace acan
