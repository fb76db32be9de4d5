// ManagerCore alone: what is saved before a run stops on request.
#include <gmock/gmock.h>

#include "manager_shell.h"

namespace acan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

ManagerConfig JobWithSnapshots(std::optional<std::int64_t> every_steps = {}) {
  ManagerConfig config = SmallJob();
  config.snapshots = SnapshotPolicy{.every_steps = every_steps};
  return config;
}

// Answers until `steps` steps are committed.
void TrainUntil(Shell& shell, std::size_t steps) {
  while (shell.committed.size() < steps && !shell.answers.empty()) {
    const ManagerEvent event = shell.answers.front();
    shell.answers.pop_front();
    shell.Send(event);
  }
  ASSERT_EQ(shell.committed.size(), steps);
}

TEST(ManagerCoreStopTest, TheLastFinishedStepIsSavedAndNoneIsBegunAfterIt) {
  Shell shell(JobWithSnapshots());
  shell.Send(Handlers({1 << 30}));
  TrainUntil(shell, 2);
  const std::size_t tasks = shell.tasks;
  shell.Send(StopWanted{});
  EXPECT_THAT(shell.snapshots, ElementsAre(2));
  EXPECT_THAT(shell.Said(),
              HasSubstr("writing a snapshot of step 2 ...; signal again to stop at once"));
  EXPECT_THAT(shell.ready, IsEmpty()) << "it is not on disk yet";
  shell.RunAll();
  EXPECT_EQ(shell.tasks, tasks);
  EXPECT_EQ(shell.committed.size(), 2u) << "what is saved is all that was told of";
  EXPECT_LT(shell.retired.back(), 2) << "its tiles are being read";
  shell.Send(SnapshotDone{2, 1000});
  EXPECT_THAT(shell.ready, ElementsAre(std::pair(2, 2)));
}

TEST(ManagerCoreStopTest, ASnapshotUnderWayIsFinishedFirst) {
  Shell shell(JobWithSnapshots(1));
  shell.Send(Handlers({1 << 30}));
  TrainUntil(shell, 3);
  ASSERT_THAT(shell.snapshots, ElementsAre(1));
  shell.Send(StopWanted{});
  EXPECT_THAT(shell.snapshots, ElementsAre(1));
  shell.Send(SnapshotDone{1, 1000});
  EXPECT_THAT(shell.snapshots, ElementsAre(1, 3));
  shell.Send(SnapshotDone{3, 1000});
  EXPECT_THAT(shell.ready, ElementsAre(std::pair(3, 3)));
  EXPECT_EQ(shell.dropped, 0);
}

TEST(ManagerCoreStopTest, WhatIsSavedAlreadyIsNotSavedAgain) {
  ManagerConfig config = JobWithSnapshots();
  config.load_weights = true;
  config.first_version = config.snapshots->saved_version = 4;
  Shell shell(config);
  shell.Send(Handlers({1 << 30}));
  shell.Send(shell.answers.front());  // WeightsReady
  shell.Send(StopWanted{});
  EXPECT_THAT(shell.snapshots, IsEmpty());
  EXPECT_THAT(shell.ready, ElementsAre(std::pair(4, 4)));
}

TEST(ManagerCoreStopTest, WeightsThatCameFromTheSpaceAreSaved) {
  ManagerConfig config = JobWithSnapshots();
  config.load_weights = true;
  config.first_version = 4;
  Shell shell(config);
  shell.Send(Handlers({1 << 30}));
  shell.Send(shell.answers.front());
  shell.Send(StopWanted{});
  EXPECT_THAT(shell.snapshots, ElementsAre(4));
}

TEST(ManagerCoreStopTest, OneThatCannotBeWrittenIsNotTriedForEver) {
  Shell shell(JobWithSnapshots());
  shell.Send(Handlers({1 << 30}));
  TrainUntil(shell, 2);
  shell.Send(StopWanted{});
  shell.Send(SnapshotDone{2, 1000, /*written=*/false});
  EXPECT_THAT(shell.snapshots, ElementsAre(2));
  EXPECT_THAT(shell.ready, ElementsAre(std::pair(2, 0)));
}

TEST(ManagerCoreStopTest, WithoutAStepOrSnapshotsThereIsNothingToSave) {
  Shell no_handler(JobWithSnapshots());
  no_handler.Send(StopWanted{});
  EXPECT_THAT(no_handler.ready, ElementsAre(std::pair(0, 0)));
  Shell no_step(JobWithSnapshots());
  no_step.Send(Handlers({1 << 30}));
  no_step.Send(StopWanted{});
  EXPECT_THAT(no_step.ready, ElementsAre(std::pair(0, 0)));
  Shell no_snapshots(SmallJob());
  no_snapshots.Send(Handlers({1 << 30}));
  TrainUntil(no_snapshots, 2);
  no_snapshots.Send(StopWanted{});
  EXPECT_THAT(no_snapshots.ready, ElementsAre(std::pair(2, 0)));
  EXPECT_THAT(no_snapshots.snapshots, IsEmpty());
}

TEST(ManagerCoreStopTest, TheWeightsOfAJobThatIsBeingEvaluatedAreSaved) {
  Shell shell(JobWithSnapshots());
  shell.Send(Handlers({1 << 30}));
  TrainUntil(shell, 6);
  ASSERT_FALSE(shell.done);
  shell.Send(StopWanted{});
  EXPECT_THAT(shell.snapshots, ElementsAre(6));
}

TEST(ManagerCoreStopTest, AJobThatIsDoneFinishes) {
  Shell shell(JobWithSnapshots());
  shell.Send(Handlers({1 << 30}));
  shell.RunAll();
  ASSERT_TRUE(shell.done);
  shell.Send(StopWanted{});
  EXPECT_THAT(shell.ready, IsEmpty());
}

// Results are lost with a device, so a snapshot that asks for them never ends. The run goes back
// and then saves that version.
TEST(ManagerCoreStopTest, ResultsThatAreLostMeanwhileSendItBackFirst) {
  ManagerConfig config = JobWithSnapshots();
  config.limits.resident_steps = 3;
  config.least_removed_bytes = 1;
  Shell shell(config);
  HandlersSeen gpu = Handlers({1 << 30});
  gpu.handlers.begin()->second.own_memory = true;
  shell.Send(gpu);
  TrainUntil(shell, 5);
  shell.Send(StopWanted{});
  ASSERT_THAT(shell.snapshots, ElementsAre(5));
  shell.Send(ResultsLost{"gone"});
  EXPECT_EQ(shell.dropped, 1);
  shell.RunAll();
  EXPECT_THAT(shell.snapshots, ElementsAre(5, 3));
  shell.Send(SnapshotDone{3, 1000});
  EXPECT_THAT(shell.ready, ElementsAre(std::pair(3, 3)));
}

}  // namespace
}  // namespace acan
