// HandlerCore: results that stay on the device until their bytes are requested.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "handler_core_fixture.h"

namespace acan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// A task whose result of 100 bytes may stay.
TaskGranted Resident(std::uint64_t need, std::vector<tuplespace::Key> inputs = {},
                     std::uint64_t fence = 1) {
  TaskGranted grant = Grant(need, std::move(inputs), fence);
  grant.resident_bytes = 100;
  return grant;
}

// Finishes the task; the space stores its result.
std::vector<HandlerAction> Finish(HandlerCore& core, FlightId flight, const tuplespace::Key& result,
                                  std::int64_t now_us = 0) {
  std::vector<HandlerAction> actions =
      core.Step(TaskFinished{flight, 100, {{result, 100, true}}}, now_us);
  const std::vector<HandlerEvent> answered = {ResultsCount{flight}, Released{flight}};
  for (const HandlerEvent& event : answered) {
    for (HandlerAction& action : core.Step(event, now_us)) actions.push_back(std::move(action));
  }
  return actions;
}

class HandlerCoreResidentTest : public testing::Test {
 protected:
  HandlerCoreResidentTest() { core_.Start(); }
  // Makes one resident result.
  void MakeOneResident(const tuplespace::Key& result) {
    const auto run = Of<RunTask>(core_.Step(Resident(300), 0));
    ASSERT_THAT(run, SizeIs(1));
    ASSERT_TRUE(run[0].resident);
    Finish(core_, core_.last_flight(), result);
    ASSERT_TRUE(core_.IsCached(result));
  }
  HandlerCore core_{1000, 2};
};

TEST_F(HandlerCoreResidentTest, IsSuppliedOnceWhenItIsWanted) {
  MakeOneResident(Tile(1, 1));
  EXPECT_THAT(Of<SupplyKept>(core_.Step(KeptWanted{Tile(1, 1)}, 0)), SizeIs(1));
  EXPECT_THAT(Of<SupplyKept>(core_.Step(KeptWanted{Tile(1, 1)}, 0)), IsEmpty());
  EXPECT_THAT(Of<SupplyKept>(core_.Step(KeptWanted{Tile(1, 2)}, 0)), IsEmpty()) << "not here";
  core_.Step(KeptSupplied{Tile(1, 1)}, 0);
  EXPECT_THAT(Of<SupplyKept>(core_.Step(KeptWanted{Tile(1, 1)}, 0)), IsEmpty());
  EXPECT_TRUE(core_.IsCached(Tile(1, 1))) << "as any result that is kept";
}

// A task that is granted before the answer reads what another client has put first.
TEST_F(HandlerCoreResidentTest, IsUsedOnceItCounts) {
  core_.Step(Resident(300), 0);
  core_.Step(TaskFinished{1, 100, {{Tile(1, 1), 100, true}}}, 0);
  TaskGranted early = Grant(200, {Tile(1, 1)}, 2);
  early.sent = {false};
  EXPECT_THAT(Of<FetchInputs>(core_.Step(early, 0)), SizeIs(1));
  core_.Step(GivenUp{2}, 0);
  core_.Step(ResultsCount{1}, 0);
  TaskGranted next = Grant(200, {Tile(1, 1)}, 3);
  next.sent = {false};
  EXPECT_THAT(Of<RunTask>(core_.Step(next, 0)), SizeIs(1));
}

TEST_F(HandlerCoreResidentTest, IsSuppliedWhetherTheSpaceHasAnsweredOrNot) {
  core_.Step(Resident(300), 0);
  core_.Step(TaskFinished{1, 100, {{Tile(1, 1), 100, true}}}, 0);
  EXPECT_THAT(Of<SupplyKept>(core_.Step(KeptWanted{Tile(1, 1)}, 0)), SizeIs(1));
  core_.Step(KeptSupplied{Tile(1, 1)}, 0);
  EXPECT_FALSE(core_.MayUse(Tile(1, 1)));
  Store(core_, 1);
  EXPECT_TRUE(core_.MayUse(Tile(1, 1)));
}

// Its bytes replace those that counted.
TEST_F(HandlerCoreResidentTest, ASecondOneIsNotUsedBeforeItCounts) {
  core_.Step(Grant(300), 0);
  core_.Step(TaskFinished{1, 100, {{Tile(1, 1), 100}}}, 0);
  Store(core_, 1);
  EXPECT_TRUE(core_.MayUse(Tile(1, 1)));
  core_.Step(Resident(300, {}, 2), 0);
  core_.Step(TaskFinished{2, 100, {{Tile(1, 1), 100, true}}}, 0);
  EXPECT_FALSE(core_.MayUse(Tile(1, 1)));
  core_.Step(ResultsCount{2}, 0);
  EXPECT_TRUE(core_.MayUse(Tile(1, 1)));
}

TEST_F(HandlerCoreResidentTest, WhatCouldNotLeaveIsTriedAgain) {
  MakeOneResident(Tile(1, 1));
  core_.Step(KeptWanted{Tile(1, 1)}, 0);
  core_.Step(SupplyFailed{Tile(1, 1)}, 0);
  EXPECT_THAT(Of<SupplyKept>(core_.Step(KeptWanted{Tile(1, 1)}, 0)), SizeIs(1));
}

// A result that was supplied may be dropped for a task that needs the room. One that was not may
// not, so its room is not offered.
TEST_F(HandlerCoreResidentTest, TheRoomOfWhatIsOwedIsNotOffered) {
  MakeOneResident(Tile(1, 1));
  const auto asked = Of<AskForTask>(core_.Step(GetEnded{}, 0));
  ASSERT_THAT(asked, SizeIs(1));
  EXPECT_EQ(asked[0].offer_bytes, 900u);
  const auto refused = core_.Step(Grant(950, {}, 2), 0);
  EXPECT_THAT(Of<PutBack>(refused), SizeIs(1));
  EXPECT_THAT(Of<DropCached>(refused), IsEmpty());

  core_.Step(KeptWanted{Tile(1, 1)}, 0);
  core_.Step(KeptSupplied{Tile(1, 1)}, 0);
  const auto taken = core_.Step(Grant(950, {}, 3), 0);
  EXPECT_THAT(Of<RunTask>(taken), SizeIs(1));
  EXPECT_THAT(Of<DropCached>(taken), SizeIs(1));
}

// Besides everything that stays, there must be room for two of the largest tasks.
TEST_F(HandlerCoreResidentTest, NothingMoreStaysThanLeavesRoomForTasks) {
  for (std::int64_t i = 0; i < 4; ++i) MakeOneResident(Tile(1, i));
  const auto run = Of<RunTask>(core_.Step(Resident(300, {}, 9), 0));
  ASSERT_THAT(run, SizeIs(1));
  EXPECT_FALSE(run[0].resident);
}

// Whether the result of a task of 300 bytes stays, which then fails.
bool Stays(HandlerCore& core) {
  const auto run = Of<RunTask>(core.Step(Resident(300), 0));
  core.Step(TaskFailed{core.last_flight(), "on purpose"}, 0);
  return run.size() == 1 && run[0].resident;
}

// Otherwise one large task would keep results from staying for as long as the handler lives.
TEST_F(HandlerCoreResidentTest, ALargeTaskOfARunThatIsOverIsForgotten) {
  TaskGranted large = Grant(1000);
  large.lease.key = tuplespace::Key{"other", std::int64_t{0}, "task"};
  core_.Step(large, 0);
  core_.Step(TaskFailed{core_.last_flight(), "on purpose"}, 0);
  for (std::uint64_t i = 1; i < LargestNeed::kForgottenAfter; ++i) {
    ASSERT_FALSE(Stays(core_)) << i;
  }
  EXPECT_TRUE(Stays(core_));
  core_.Step(Grant(1000), 0);
  core_.Step(TaskFailed{core_.last_flight(), "on purpose"}, 0);
  for (std::uint64_t i = 0; i < 2 * LargestNeed::kForgottenAfter; ++i) {
    ASSERT_FALSE(Stays(core_)) << "that one is of the same run";
  }
}

// The space believes what a task declares.
TEST_F(HandlerCoreResidentTest, ATaskNeedsWhatItUsesWhateverItDeclares) {
  TaskGranted declares = Grant(10);
  declares.need_bytes = UINT64_MAX;
  core_.Step(declares, 0);
  core_.Step(TaskFailed{core_.last_flight(), "on purpose"}, 0);
  EXPECT_TRUE(Stays(core_));
}

TEST_F(HandlerCoreResidentTest, TasksThatRunCountToo) {
  for (std::int64_t i = 0; i < 3; ++i) MakeOneResident(Tile(1, i));
  EXPECT_TRUE(Of<RunTask>(core_.Step(Resident(300, {}, 7), 0)).at(0).resident);
  EXPECT_FALSE(Of<RunTask>(core_.Step(Resident(300, {}, 8), 0)).at(0).resident);
  core_.Step(TaskFailed{core_.last_flight() - 1, "on purpose"}, 0);
  EXPECT_TRUE(Of<RunTask>(core_.Step(Resident(300, {}, 9), 0)).at(0).resident)
      << "the failed one left";
}

TEST_F(HandlerCoreResidentTest, NewerVersionsAndStepsDoNotDriveItOut) {
  MakeOneResident(Tile(1, 1));
  MakeOneResident(Tile(2, 1));
  core_.Step(Grant(10, {Tile(3, 5)}, 5), 0);
  core_.Step(TimePassed{}, 60'000'000);
  EXPECT_TRUE(core_.IsCached(Tile(1, 1)));
  EXPECT_TRUE(core_.IsCached(Tile(2, 1)));
}

TEST_F(HandlerCoreResidentTest, GoesWhenItIsReleased) {
  MakeOneResident(Tile(1, 1));
  EXPECT_THAT(Of<DropCached>(core_.Step(KeptReleased{Tile(1, 1)}, 0)), SizeIs(1));
  EXPECT_FALSE(core_.IsCached(Tile(1, 1)));
  EXPECT_THAT(core_.Step(KeptReleased{Tile(1, 1)}, 0), IsEmpty()) << "it is not here";
}

TEST_F(HandlerCoreResidentTest, StaysIfAnotherTaskWithThatResultIsRefused) {
  MakeOneResident(Tile(1, 1));
  EXPECT_THAT(Of<DropCached>(core_.Step(ResultRefused{Tile(1, 1), 9}, 0)), IsEmpty());
  EXPECT_TRUE(core_.IsCached(Tile(1, 1)));
}

TEST_F(HandlerCoreResidentTest, GoesWithTheTaskThatUsesItWhenItIsReleased) {
  MakeOneResident(Tile(1, 1));
  TaskGranted grant = Grant(300, {Tile(1, 1)}, 2);
  grant.sent = {false};
  core_.Step(grant, 0);
  EXPECT_THAT(Of<DropCached>(core_.Step(KeptReleased{Tile(1, 1)}, 0)), IsEmpty());
  EXPECT_FALSE(core_.MayUse(Tile(1, 1))) << "others may have put it with other bytes";
  const auto actions = core_.Step(TaskFinished{core_.last_flight(), 0, {}}, 0);
  EXPECT_THAT(Of<DropCached>(actions), SizeIs(1));
}

// The run may wait for a task that needs the room.
TEST_F(HandlerCoreResidentTest, IsSuppliedUnaskedWhenThereIsNothingElseToDo) {
  MakeOneResident(Tile(1, 1));
  core_.Step(TimePassed{}, 0);
  const std::int64_t due_us = core_.NextDeadlineUs();
  EXPECT_GT(due_us, 1'000);
  EXPECT_LT(due_us, 1'000'000);
  EXPECT_THAT(Of<SupplyKept>(core_.Step(TimePassed{}, due_us - 1)), IsEmpty());
  EXPECT_THAT(Of<SupplyKept>(core_.Step(TimePassed{}, due_us)), SizeIs(1));
  EXPECT_THAT(Of<SupplyKept>(core_.Step(TimePassed{}, 2 * due_us)), IsEmpty());
}

TEST_F(HandlerCoreResidentTest, WorkPutsThatOff) {
  MakeOneResident(Tile(1, 1));
  core_.Step(TimePassed{}, 0);
  const std::int64_t due_us = core_.NextDeadlineUs();
  core_.Step(Grant(10, {}, 2), due_us - 1);
  EXPECT_THAT(Of<SupplyKept>(core_.Step(TimePassed{}, due_us)), IsEmpty());
}

// In each step a fast device waits for its host, and at that time has supplied none of the weights.
TEST_F(HandlerCoreResidentTest, LargeOnesAreSuppliedAfterALongerWaitOneAfterTheOther) {
  constexpr std::uint64_t kLarge = std::uint64_t{1} << 29;
  HandlerCore core(16 * kLarge, 2);
  core.Start();
  for (int i = 0; i < 2; ++i) {
    TaskGranted grant = Resident(2 * kLarge);
    grant.resident_bytes = kLarge;
    core.Step(grant, 0);
    const FlightId flight = core.last_flight();
    core.Step(TaskFinished{flight, kLarge, {{Tile(1, i), kLarge, true}}}, 0);
    Store(core, flight);
  }
  EXPECT_THAT(Of<SupplyKept>(core.Step(TimePassed{}, 2'000'000)), IsEmpty());
  constexpr std::int64_t due_us = 2'200'000;
  EXPECT_THAT(Of<SupplyKept>(core.Step(TimePassed{}, due_us)), SizeIs(1));
  EXPECT_THAT(Of<SupplyKept>(core.Step(TimePassed{}, due_us + 1)), IsEmpty()) << "one is under way";
  core.Step(KeptSupplied{Tile(1, 0), 500'000}, due_us + 500'000);
  EXPECT_LE(core.NextDeadlineUs(), due_us + 500'000);
  core.Step(Grant(10, {}, 2), due_us + 500'000);
  EXPECT_THAT(Of<SupplyKept>(core.Step(TimePassed{}, due_us + 500'001)), IsEmpty()) << "work came";
}

// The space has lost it with the session: its bytes would cross the link for nothing.
TEST_F(HandlerCoreResidentTest, ALostSessionReleasesAllButWhatIsPutAgain) {
  MakeOneResident(Tile(1, 1));
  MakeOneResident(Tile(1, 2));
  MakeOneResident(Tile(1, 3));
  core_.Step(KeptWanted{Tile(1, 1)}, 0);
  core_.Step(KeptWanted{Tile(1, 2)}, 0);
  const auto actions = core_.Step(ConnectionLost{false, {Tile(1, 2)}}, 0);
  EXPECT_THAT(Of<SupplyKept>(actions), IsEmpty());
  EXPECT_THAT(Of<DropCached>(actions), SizeIs(2));
  const auto announced = Of<AnnounceHeld>(actions);
  ASSERT_THAT(announced, SizeIs(1));
  EXPECT_THAT(announced[0].held, ElementsAre(Tile(1, 2)));
  EXPECT_THAT(announced[0].dropped, IsEmpty());
  EXPECT_TRUE(core_.IsCached(Tile(1, 2)));
  // Its supply has ended with the session.
  EXPECT_THAT(Of<SupplyKept>(core_.Step(KeptWanted{Tile(1, 2)}, 0)), SizeIs(1));
  core_.Step(ConnectionLost{false, {Tile(1, 2)}}, 0);
  EXPECT_TRUE(core_.IsCached(Tile(1, 2))) << "lost again before the put was answered";
  core_.Step(ConnectionLost{}, 0);
  EXPECT_FALSE(core_.IsCached(Tile(1, 2)));
}

TEST_F(HandlerCoreResidentTest, WhoLeavesSuppliesWhatIsPutAgainAfterALostSession) {
  MakeOneResident(Tile(1, 1));
  MakeOneResident(Tile(1, 2));
  EXPECT_THAT(Of<SupplyKept>(core_.Step(Drain{}, 0)), SizeIs(2));
  const auto again = Of<SupplyKept>(core_.Step(ConnectionLost{false, {Tile(1, 2)}}, 0));
  ASSERT_THAT(again, SizeIs(1));
  EXPECT_EQ(again[0].key, Tile(1, 2));
  EXPECT_FALSE(core_.drained());
  core_.Step(KeptReleased{Tile(1, 2)}, 0);
  EXPECT_TRUE(core_.drained());
}

// ---- what cannot be supplied

TEST_F(HandlerCoreResidentTest, WhatFailsIsTriedAgainAfterPausesThatDouble) {
  MakeOneResident(Tile(1, 1));
  core_.Step(KeptWanted{Tile(1, 1)}, 0);
  std::int64_t now_us = 0;
  for (const std::int64_t seconds : {1, 2, 4, 8, 16, 30, 30}) {
    core_.Step(SupplyFailed{Tile(1, 1)}, now_us);
    EXPECT_TRUE(core_.SuppliesPause());
    const std::int64_t due_us = now_us + seconds * 1'000'000;
    EXPECT_THAT(Of<SupplyKept>(core_.Step(TimePassed{}, due_us - 1)), IsEmpty());
    now_us = due_us;
    EXPECT_LE(core_.NextDeadlineUs(), now_us);
    EXPECT_THAT(Of<SupplyKept>(core_.Step(TimePassed{}, now_us)), SizeIs(1));
    EXPECT_FALSE(core_.SuppliesPause());
  }
  core_.Step(KeptSupplied{Tile(1, 1)}, now_us);
  MakeOneResident(Tile(1, 2));
  core_.Step(KeptWanted{Tile(1, 2)}, now_us);
  core_.Step(SupplyFailed{Tile(1, 2)}, now_us);
  EXPECT_THAT(Of<SupplyKept>(core_.Step(TimePassed{}, now_us + kRetrySupplyUs)), SizeIs(1))
      << "the first pause again";
}

// One that never succeeds, as its copy has no room, must not keep others here.
TEST_F(HandlerCoreResidentTest, OthersAreSuppliedBesideOneThatFails) {
  MakeOneResident(Tile(1, 1));
  core_.Step(KeptWanted{Tile(1, 1)}, 0);
  core_.Step(SupplyFailed{Tile(1, 1)}, 0);
  MakeOneResident(Tile(1, 2));
  core_.Step(TimePassed{}, 0);
  const auto supplies = Of<SupplyKept>(core_.Step(TimePassed{}, 100'000));
  ASSERT_THAT(supplies, SizeIs(1));
  EXPECT_EQ(supplies[0].key, Tile(1, 2));
}

TEST_F(HandlerCoreResidentTest, WhoLeavesTriesWhatFailedOnceMore) {
  MakeOneResident(Tile(1, 1));
  core_.Step(KeptWanted{Tile(1, 1)}, 0);
  core_.Step(SupplyFailed{Tile(1, 1)}, 0);
  EXPECT_THAT(Of<SupplyKept>(core_.Step(Drain{}, 0)), SizeIs(1));
  core_.Step(SupplyFailed{Tile(1, 1)}, 0);
  EXPECT_TRUE(core_.drained());
}

TEST_F(HandlerCoreResidentTest, TheReleaseOfAnEarlierResultIsNoFailure) {
  MakeOneResident(Tile(1, 1));
  core_.Step(KeptWanted{Tile(1, 1)}, 0);
  core_.Step(EarlierReleased{Tile(1, 1)}, 0);
  EXPECT_FALSE(core_.SuppliesPause());
  EXPECT_THAT(Of<SupplyKept>(core_.Step(Drain{}, 0)), SizeIs(1));
  EXPECT_THAT(Of<SupplyKept>(core_.Step(EarlierReleased{Tile(1, 1)}, 0)), SizeIs(1))
      << "it is still owed";
}

TEST_F(HandlerCoreResidentTest, WhoLeavesSuppliesAllFirst) {
  MakeOneResident(Tile(1, 1));
  core_.Step(Resident(300, {}, 2), 0);  // still running, and its result will stay
  const FlightId running = core_.last_flight();
  EXPECT_THAT(Of<SupplyKept>(core_.Step(Drain{}, 0)), SizeIs(1));
  EXPECT_THAT(Of<SupplyKept>(Finish(core_, running, Tile(1, 2))), SizeIs(1));
  EXPECT_FALSE(core_.drained());
  core_.Step(KeptSupplied{Tile(1, 1)}, 0);
  EXPECT_FALSE(core_.drained());
  core_.Step(SupplyFailed{Tile(1, 2)}, 0);
  EXPECT_TRUE(core_.drained()) << "nobody can have it";
}

// ---- results that leave

// The host may have less memory than the device.
TEST(HandlerCoreLeavingTest, NoTaskIsAskedForWhileMuchWaitsForItsAnswer) {
  HandlerCore core(std::uint64_t{64} << 30, 3);
  core.Start();
  core.Step(Grant(2 * kMaxLeavingBytes, {}, 1), 0);
  const auto ended = core.Step(TaskFinished{1, kMaxLeavingBytes, {}}, 0);
  EXPECT_THAT(Of<AskForTask>(ended), IsEmpty());
  EXPECT_THAT(Of<StopAsking>(ended), SizeIs(1)) << "the open one is cancelled";
  EXPECT_THAT(Of<AskForTask>(core.Step(TimePassed{}, 60'000'000)), IsEmpty());
  EXPECT_EQ(core.NextDeadlineUs(), tuplespace::kForeverUs) << "it waits for the answer";
  EXPECT_THAT(Of<AskForTask>(core.Step(Released{1}, 60'000'000)), SizeIs(1));
}

TEST(HandlerCoreLeavingTest, WhatStaysDoesNotLeave) {
  HandlerCore core(std::uint64_t{64} << 30, 3);
  core.Start();
  TaskGranted grant = Grant(2 * kMaxLeavingBytes, {}, 1);
  grant.resident_bytes = kMaxLeavingBytes;
  core.Step(grant, 0);
  const KeptResult kept{Tile(1, 1), kMaxLeavingBytes, true};
  EXPECT_THAT(Of<StopAsking>(core.Step(TaskFinished{1, kMaxLeavingBytes, {kept}}, 0)), IsEmpty());
}

}  // namespace
}  // namespace acan
