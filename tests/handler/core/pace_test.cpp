// How a handler paces itself: when it asks, how many tasks it takes at once, how long it extends
// leases; and the throttle, which makes handlers slow for experiments.
#include <gtest/gtest.h>

#include "acan/handler/pace.h"
#include "acan/handler/task_demand.h"
#include "acan/handler/throttle.h"
#include "handler_core_fixture.h"

namespace acan {
namespace {

constexpr std::int64_t kMs = 1000;

TaskGranted GrantOf(std::uint64_t flops, std::uint64_t fence) {
  TaskGranted grant = Grant(10, {}, fence);
  grant.lease_us = 100 * kMs;
  grant.flops = flops;
  return grant;
}

TaskFinished Finished(FlightId flight, std::int64_t took_us) {
  TaskFinished finished;
  finished.flight = flight;
  finished.took_us = took_us;
  return finished;
}

TEST(PaceTest, PredictsFromOperations) {
  Pace pace;
  EXPECT_EQ(pace.RunUs(1000), 0) << "not known yet";
  pace.NoteRun(1000, 500);
  EXPECT_EQ(pace.RunUs(4000), 2000);
  for (int i = 0; i < 100; ++i) pace.NoteRun(1000, 1500);
  EXPECT_NEAR(static_cast<double>(pace.RunUs(1000)), 1500, 10) << "it became slower";
}

// A task may claim any number of operations.
TEST(PaceTest, ItsPredictionsHaveABound) {
  Pace pace;
  pace.NoteRun(1, 1000 * kMs);
  EXPECT_EQ(pace.RunUs(std::uint64_t{1} << 60), 10'000'000'000'000);
}

// Per operation, adding two matrices takes a hundred times as long as a product.
TEST(PaceTest, ShortTasksTellNothingOfLongOnes) {
  Pace pace;
  for (int i = 0; i < 100; ++i) {
    pace.NoteRun(1'000'000, 30 * kMs);
    pace.NoteRun(500, 2 * kMs);
  }
  EXPECT_NEAR(static_cast<double>(pace.RunUs(1'000'000)), 32 * kMs, 3 * kMs);
}

TEST(PaceTest, TheLeadCoversTheFetchAndAPartOfTheRun) {
  Pace pace;
  const std::int64_t least_us = pace.LeadUs(0);
  EXPECT_GT(least_us, 0);
  pace.NoteFetch(5 * kMs);
  pace.NoteFetch(500 * kMs);  // there was no task to get
  EXPECT_EQ(pace.LeadUs(0), least_us + 10 * kMs);
  EXPECT_EQ(pace.LeadUs(400 * kMs), 100 * kMs);
}

// The inputs of a task come over a link while the task before is computed.
TEST(PaceTest, TheLeadCoversWhatInputsTakeOverALink) {
  Pace pace;
  const std::int64_t least_us = pace.LeadUs(0);
  pace.NoteInputs(30 * kMs);
  for (int i = 0; i < 10; ++i) pace.NoteInputs(kMs);  // of tasks with small inputs
  EXPECT_EQ(pace.LeadUs(0), least_us + 30 * kMs);
  for (int i = 0; i < 100; ++i) pace.NoteInputs(kMs);
  EXPECT_EQ(pace.LeadUs(0), least_us + kMs) << "the link became faster";
}

// A core that has learned that 1000 operations take 100 ms, and has just begun such a task.
class LongTasks : public ::testing::Test {
 protected:
  LongTasks() : core_(1000, 3) {
    core_.Start();
    core_.Step(GrantOf(1000, 1), 0);
    core_.Step(Finished(1, 100 * kMs), 100 * kMs);
    core_.Step(Released{1}, 100 * kMs);
    begun_ = core_.Step(GrantOf(1000, 2), 100 * kMs);
  }
  HandlerCore core_;
  std::vector<HandlerAction> begun_;
};

TEST_F(LongTasks, TheNextOneIsAskedForWhenThisOneIsNearItsEnd) {
  EXPECT_TRUE(Of<AskForTask>(begun_).empty()) << "100 ms are left";
  const std::int64_t due_us = core_.NextDeadlineUs();
  EXPECT_GT(due_us, 150 * kMs - 1);
  // It may extend the lease first.
  EXPECT_TRUE(Of<AskForTask>(core_.Step(TimePassed{}, 160 * kMs)).empty());
  EXPECT_EQ(Of<AskForTask>(core_.Step(TimePassed{}, 176 * kMs)).size(), 1u) << "a quarter is left";
  EXPECT_TRUE(Of<AskForTask>(core_.Step(GrantOf(1000, 3), 177 * kMs)).empty()) << "one waits";
}

TEST_F(LongTasks, ASmallOneIsNoReasonToWait) {
  core_.Step(TimePassed{}, 190 * kMs);
  EXPECT_EQ(Of<AskForTask>(core_.Step(GrantOf(10, 3), 190 * kMs)).size(), 1u)
      << "11 ms of work are left, less than a quarter of a long task";
}

TEST_F(LongTasks, OneThatIsLateDoesNotKeepItFromAsking) {
  core_.Step(TimePassed{}, 176 * kMs);
  core_.Step(GetEnded{}, 177 * kMs);
  EXPECT_TRUE(Of<StopAsking>(core_.Step(TimePassed{}, 500 * kMs)).empty());
}

TEST(LongTasksOverALink, TheNextOneIsAskedForAsEarlyAsItsInputsTake) {
  HandlerCore core(1000, 3);
  core.Start();
  core.Step(ConnectionLost{true}, 0);
  TaskGranted reads = Grant(100, {Tile(1, 1)}, 1);
  reads.flops = 1000;
  reads.sent = {false};
  ASSERT_EQ(Of<FetchInputs>(core.Step(reads, 0)).size(), 1u);
  core.Step(InputsArrived{1, {{0, 50}}}, 60 * kMs);
  core.Step(Finished(1, 100 * kMs), 160 * kMs);
  core.Step(Released{1}, 160 * kMs);
  core.Step(GrantOf(1000, 2), 160 * kMs);
  EXPECT_EQ(Of<AskForTask>(core.Step(TimePassed{}, 195 * kMs)).size(), 1u)
      << "65 ms are left, and the inputs of a task take 60";
}

// What an idle core requests that has learned that a task takes 20 us.
std::vector<AskForTask> AskedAfterAShortTask(HandlerCore& core) {
  core.Start();
  core.Step(GrantOf(1000, 1), 0);
  core.Step(Finished(1, 20), 20);
  core.Step(Released{1}, 20);
  return Of<AskForTask>(core.Step(GetEnded{}, 20));
}

TEST(ShortTasks, AreAskedForManyAtATimeInHalfOfTheMemory) {
  HandlerCore core(1000, 3);
  const auto asked = AskedAfterAShortTask(core);
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].count, static_cast<std::uint32_t>(kMaxAskedAtOnce));
  EXPECT_TRUE(asked[0].share);
  EXPECT_EQ(asked[0].offer_bytes, 500u);
}

TEST(ShortTasks, MoreAreAskedForAsTheyEnd) {
  HandlerCore core(1 << 20, 3);
  AskedAfterAShortTask(core);
  std::uint64_t fence = 2;
  for (; fence < 2 + 63; ++fence) {
    TaskGranted grant = GrantOf(1000, fence);
    grant.current = false;
    EXPECT_TRUE(Of<AskForTask>(core.Step(grant, 30)).empty()) << fence;
  }
  EXPECT_TRUE(Of<AskForTask>(core.Step(GrantOf(1000, fence), 30)).empty()) << "64 are enough";
  for (FlightId flight = 2; flight < 2 + 31; ++flight) {
    EXPECT_TRUE(Of<AskForTask>(core.Step(Finished(flight, 20), 50)).empty()) << flight;
  }
  const auto asked = Of<AskForTask>(core.Step(Finished(33, 20), 70));
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].count, 32u);
}

TEST(ShortTasks, AreTakenOneByOneWhereMemoryIsScarce) {
  HandlerCore core(35, 3);
  const auto asked = AskedAfterAShortTask(core);
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].count, 1u);
  EXPECT_EQ(asked[0].offer_bytes, 35u);
}

// Otherwise a run stands idle if all remaining tasks need more than half of a handler, and the
// handlers have had only small tasks so far, so that they offer half forever.
TEST(ShortTasks, AllIsOfferedWhereHalfFindsNothing) {
  HandlerCore core(1000, 3);
  ASSERT_EQ(AskedAfterAShortTask(core).size(), 1u);
  const std::int64_t due_us = core.NextDeadlineUs();
  ASSERT_EQ(due_us, 20 + kOfferInVainUs);
  EXPECT_TRUE(Of<AskForTask>(core.Step(TimePassed{}, due_us - 1)).empty());
  const auto asked = Of<AskForTask>(core.Step(TimePassed{}, due_us));
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].count, 1u);
  EXPECT_EQ(asked[0].offer_bytes, 1000u);
  EXPECT_TRUE(Of<AskForTask>(core.Step(TimePassed{}, 2 * due_us)).empty()) << "it is open";
}

// Otherwise a run stands idle if a handler has offered the room left by its first task, all other
// tasks need nearly all of its memory, and the half that it would offer next is even less.
TEST(ShortTasks, AllIsOfferedWhereWhatWasFreeBesideATaskFindsNothing) {
  HandlerCore core(1000, 3);
  core.Start();
  const auto beside = Of<AskForTask>(core.Step(GrantOf(1000, 1), 0));
  ASSERT_EQ(beside.size(), 1u);
  EXPECT_EQ(beside[0].offer_bytes, 990u);
  core.Step(Finished(1, 20), 20);
  EXPECT_TRUE(Of<AskForTask>(core.Step(Released{1}, 20)).empty());
  ASSERT_EQ(core.NextDeadlineUs(), kOfferInVainUs);
  const auto asked = Of<AskForTask>(core.Step(TimePassed{}, kOfferInVainUs));
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].offer_bytes, 1000u);
}

TEST(ShortTasks, NothingIsToBeDoneWhereHalfOfTheMemoryIsAllThatIsFree) {
  TaskDemand demand(1000, 3);
  demand.NoteRun(1000, 20);
  Workload work;
  work.free_bytes = 400;
  std::vector<HandlerAction> out;
  demand.Ask(work, 0, out);
  ASSERT_EQ(Of<AskForTask>(out).size(), 1u);
  EXPECT_EQ(Of<AskForTask>(out)[0].offer_bytes, 400u);
  EXPECT_TRUE(Of<AskForTask>(out)[0].share);
  EXPECT_EQ(demand.next_us(), tuplespace::kForeverUs) << "else the handler would spin";
}

TEST(HandlerChunkTest, TakesTheWholeChunkAndThenWaitsForItsEnd) {
  HandlerCore core(1000, 3);
  core.Start();
  TaskGranted grant = GrantOf(0, 1);
  grant.chunk = 5;
  auto asked = Of<AskForTask>(core.Step(grant, 0));
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].count, 4u);
  for (std::uint64_t fence = 2; fence <= 5; ++fence) {
    grant = GrantOf(0, fence);
    grant.chunk = 5;
    grant.current = fence == 5;  // all came in one answer
    EXPECT_TRUE(Of<AskForTask>(core.Step(grant, 1)).empty()) << fence;
  }
  EXPECT_EQ(core.last_flight(), 5u);
  for (FlightId flight = 1; flight <= 3; ++flight) {
    EXPECT_TRUE(Of<AskForTask>(core.Step(Finished(flight, 1), 2)).empty()) << flight;
  }
  asked = Of<AskForTask>(core.Step(Finished(4, 1), 3));
  ASSERT_EQ(asked.size(), 1u) << "the next chunk comes while the last task runs";
  EXPECT_EQ(asked[0].count, 1u) << "how large it is its first task will say";
}

TEST(HandlerChunkTest, MemoryBoundsAChunk) {
  HandlerCore core(35, 3);
  core.Start();
  TaskGranted grant = GrantOf(0, 1);
  grant.chunk = 100;
  for (std::uint64_t fence = 1; fence <= 4; ++fence) {
    grant.lease.fence = fence;
    const auto actions = core.Step(grant, 0);
    EXPECT_EQ(Of<RunTask>(actions).size(), fence <= 3 ? 1u : 0u);
    EXPECT_EQ(Of<PutBack>(actions).size(), fence <= 3 ? 0u : 1u);
  }
}

TaskGranted GrantOfAnotherRun(std::uint64_t fence) {
  TaskGranted grant = GrantOf(0, fence);
  grant.lease.key = tuplespace::Key{"other", std::int64_t{0}, "task", std::int64_t{1}};
  return grant;
}

// Otherwise the handler would take the tasks of all runs, until it had as many as the chunk.
TEST(HandlerChunkTest, EndsWithATaskOfAnotherRun) {
  HandlerCore core(1000, 3);
  core.Start();
  TaskGranted first = GrantOf(0, 1);
  first.chunk = 1000;
  auto asked = Of<AskForTask>(core.Step(first, 0));
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_EQ(asked[0].count, static_cast<std::uint32_t>(kMaxAskedAtOnce));
  TaskGranted second = GrantOf(0, 2);
  second.chunk = 1000;
  second.current = false;
  EXPECT_EQ(Of<RunTask>(core.Step(second, 1)).size(), 1u);
  for (std::uint64_t fence = 3; fence <= 6; ++fence) {  // in the same answer
    TaskGranted other = GrantOfAnotherRun(fence);
    other.current = fence == 6;
    const auto actions = core.Step(other, 1);
    EXPECT_EQ(Of<RunTask>(actions).size(), fence == 3 ? 1u : 0u) << fence;
    EXPECT_EQ(Of<PutBack>(actions).size(), fence == 3 ? 0u : 1u) << fence;
    EXPECT_TRUE(Of<AskForTask>(actions).empty()) << fence << ": three tasks are here";
  }
  asked = Of<AskForTask>(core.Step(Finished(1, 1), 2));
  ASSERT_EQ(asked.size(), 1u);
  EXPECT_TRUE(asked[0].share) << "this is not for a chunk";
  for (std::uint64_t fence = 7; fence <= 9; ++fence) {
    TaskGranted other = GrantOfAnotherRun(fence);
    other.current = fence == 9;
    EXPECT_EQ(Of<RunTask>(core.Step(other, 3)).size(), 1u) << fence;
  }
}

TEST(HandlerChunkTest, AChunkOfAnotherRunMayFollowAtOnce) {
  HandlerCore core(1000, 3);
  core.Start();
  TaskGranted first = GrantOf(0, 1);
  first.chunk = 1000;
  core.Step(first, 0);
  for (std::uint64_t fence = 2; fence <= 5; ++fence) {
    TaskGranted other = GrantOfAnotherRun(fence);
    other.chunk = 5;
    other.current = fence == 5;
    const auto actions = core.Step(other, 1);
    EXPECT_EQ(Of<RunTask>(actions).size(), 1u) << fence;
    if (fence < 5) continue;
    ASSERT_EQ(Of<AskForTask>(actions).size(), 1u);
    EXPECT_EQ(Of<AskForTask>(actions)[0].count, 1u) << "the fifth task is missing";
  }
}

TEST(HandlerLeaseTest, IsExtendedWhileTheDeviceMakesProgress) {
  HandlerCore core(1000, 3);
  core.Start();
  core.Step(GrantOf(0, 1), 0);
  core.Step(GrantOf(0, 2), 0);
  int extended = 0;
  std::int64_t now_us = 0;
  for (; now_us < 3000 * kMs; now_us += 50 * kMs) {
    // The first task ends after 600 ms. The second one never ends, because the device hangs.
    if (now_us == 600 * kMs) core.Step(Finished(1, 600 * kMs), now_us);
    const auto extends = Of<ExtendLease>(core.Step(TimePassed{}, now_us));
    if (now_us > (600 + 100 * kPatienceLeases) * kMs) {
      EXPECT_TRUE(extends.empty()) << now_us;
    }
    if (now_us > 600 * kMs && now_us < 1300 * kMs) {
      EXPECT_EQ(extends.size(), 1u) << now_us;
    }
    extended += static_cast<int>(extends.size());
  }
  EXPECT_GT(extended, 20);
}

TEST(HandlerLeaseTest, ATimedOneIsNeverExtended) {
  HandlerCore core(1000, 3);
  core.Start();
  TaskGranted grant = GrantOf(0, 1);
  grant.timed = true;
  core.Step(grant, 0);
  for (std::int64_t now_us = 0; now_us < 500 * kMs; now_us += 10 * kMs) {
    EXPECT_TRUE(Of<ExtendLease>(core.Step(TimePassed{}, now_us)).empty());
  }
}

// ---- throttle -----------------------------------------------------------------------------------

TEST(ThrottleTest, ReadsSpeeds) {
  std::string problem;
  const auto one = Throttle::Parse("2.5", &problem);
  ASSERT_TRUE(one);
  EXPECT_EQ(one->GflopsAt(123), 2.5);
  const auto three = Throttle::Parse("1,5,10@500ms", &problem);
  ASSERT_TRUE(three);
  EXPECT_DOUBLE_EQ(three->MeanGflops(), 16.0 / 3);
  EXPECT_EQ(three->GflopsAt(499'999), 1);
  EXPECT_EQ(three->GflopsAt(500'000), 5);
  EXPECT_EQ(three->GflopsAt(1'400'000), 10);
  EXPECT_EQ(three->GflopsAt(1'500'000), 1) << "and again from the first";
}

TEST(ThrottleTest, RefusesWhatIsNoSpeed) {
  for (const char* text : {"", "0", "-1", "x", "1,2", "1,,2@5s", "1@", "1@5", "1,2@0s", "nan",
                           "1,2@5h", "inf", "1,@5s"}) {
    std::string problem;
    EXPECT_FALSE(Throttle::Parse(text, &problem)) << text;
    EXPECT_FALSE(problem.empty());
  }
}

TEST(ThrottleTest, ATaskTakesAsLongAsItsOperationsAtThatSpeed) {
  const Throttle one({2}, 0);
  EXPECT_EQ(one.EndUs(1000, 2'000'000), 1000 + 1000);
  // 1 GFLOP/s until 1 s, then 10 GFLOP/s: the first half second does 500 million operations, and
  // the rest is faster.
  const Throttle two({1, 10}, 1'000'000);
  EXPECT_EQ(two.EndUs(500'000, 1'500'000'000), 1'000'000 + 100'000);
  EXPECT_EQ(two.EndUs(500'000, 500'000'000), 1'000'000);
  EXPECT_EQ(two.EndUs(0, 11'000'000'000 + 1'000'000), 2'000'000 + 1000) << "round and on";
}

}  // namespace
}  // namespace acan
