// ManagerCore and handlers that compute wrong: what is computed again, who is quarantined, and what
// is not committed.
#include <limits>

#include "manager_shell.h"

namespace acan {
namespace {

ManagerConfig AuditedJob(double share) {
  ManagerConfig config = SmallJob();
  config.limits.audit = share;
  return config;
}

TEST(ManagerCoreAuditsTest, AuditedTasksAreComputedTwiceAndStepsWaitForIt) {
  Shell shell(AuditedJob(1));
  shell.Send(Handlers({1 << 30, 1 << 30, 1 << 30}));
  EXPECT_TRUE(shell.committed.empty());
  shell.RunAll();
  EXPECT_TRUE(shell.done);
  EXPECT_EQ(shell.votes, shell.tasks);
  EXPECT_EQ(shell.core.audits()->passed(), shell.tasks);
  EXPECT_TRUE(shell.quarantined.empty());
}

TEST(ManagerCoreAuditsTest, NothingIsCommittedAfterAWrongResult) {
  Shell shell(AuditedJob(1));
  shell.liar = "id1";
  shell.Send(Handlers({1 << 30, 1 << 30, 1 << 30}));
  shell.RunAll();
  EXPECT_EQ(shell.quarantined, std::vector<std::string>{"id1"});
  EXPECT_FALSE(shell.done);
  EXPECT_TRUE(shell.committed.empty());
  EXPECT_TRUE(shell.snapshots.empty());
}

TEST(ManagerCoreAuditsTest, WhoSaysWhatCannotBeIsWrongWithoutAnAudit) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const std::vector<float>& losses :
       std::vector<std::vector<float>>{{2, -1}, {2, 0.5f}, {2, 1e6f}, {2, nan}, {-2, 1}, {2}, {}}) {
    for (const double share : {0.0, 1e-9}) {
      Shell shell(AuditedJob(share));
      shell.losses = losses;
      shell.Send(Handlers({1 << 30, 1 << 30, 1 << 30}));
      shell.RunAll();
      EXPECT_TRUE(shell.committed.empty());
      if (share > 0) {
        EXPECT_EQ(shell.quarantined, std::vector<std::string>{"id1"})
            << ::testing::PrintToString(losses);
      } else {
        EXPECT_NE(shell.gave_up.find("handler id1 computes wrong"), std::string::npos)
            << ::testing::PrintToString(losses);
      }
    }
  }
  Shell shell(SmallJob());
  shell.losses = {nan, 0};  // a training may diverge
  shell.Send(Handlers({1 << 30}));
  shell.RunAll();
  EXPECT_TRUE(shell.done);
}

TEST(ManagerCoreAuditsTest, WhoIsQuarantinedGetsNoTask) {
  ManagerConfig config = AuditedJob(1);
  config.quarantined = {"id1"};
  Shell shell(config);
  shell.liar = "id1";
  shell.Send(Handlers({1 << 30, 1 << 30, 1 << 30}));
  shell.RunAll();
  EXPECT_TRUE(shell.done);
  EXPECT_TRUE(shell.quarantined.empty());
  EXPECT_EQ(shell.kept_from_somebody, shell.tasks + shell.votes);
}

TEST(ManagerCoreAuditsTest, AQuarantinedHandlerThatPutsResultsAnywayEndsTheRun) {
  ManagerConfig config = AuditedJob(1);
  config.quarantined = {"id1"};
  Shell shell(config);
  shell.ignores_not_by = {"id1"};
  shell.Send(Handlers({1 << 30, 1 << 30, 1 << 30}));
  shell.RunAll();
  EXPECT_FALSE(shell.done);
  EXPECT_NE(shell.gave_up.find("id1 is quarantined"), std::string::npos) << shell.gave_up;
}

// It may come after minutes. Nothing of the run is gone, so to go back does not help.
TEST(ManagerCoreAuditsTest, WhereTwoHandlersInsistTheRunWaitsForAThird) {
  Shell shell(AuditedJob(1));
  shell.liar = "id1";
  shell.handlers = 2;
  shell.Send(Handlers({1 << 30, 1 << 30}));
  shell.RunAll();
  std::int64_t now_us = 0;
  while (now_us < 300'000'000) {
    now_us += 250'000;
    shell.Send(SpaceSeen{.tasks_ready = 0, .open_gets = 2, .tasks_leased = 0}, now_us);
    shell.Send(ClockTick{}, now_us);
  }
  EXPECT_EQ(shell.gave_up, "");
  EXPECT_TRUE(shell.moved.empty());
  EXPECT_GE(shell.stalled.size(), 9u) << "it is said twice a minute";
  EXPECT_NE(shell.Said().find("still waiting for one"), std::string::npos) << shell.Said();
  shell.handlers = 3;
  shell.Send(Handlers({1 << 30, 1 << 30, 1 << 30}), now_us);
  shell.RunAll(now_us);
  EXPECT_EQ(shell.quarantined, std::vector<std::string>{"id1"});
}

TEST(ManagerCoreAuditsTest, WithOneHandlerAuditsAreSkippedAndTheRunGoesOn) {
  Shell shell(AuditedJob(1));
  shell.handlers = 1;
  shell.Send(Handlers({1 << 30}));
  shell.RunAll();
  EXPECT_TRUE(shell.done);
  EXPECT_EQ(shell.votes, 0u);
  EXPECT_EQ(shell.core.audits()->skipped(), shell.tasks);
  EXPECT_NE(shell.Said().find("not audited"), std::string::npos) << shell.Said();
}

}  // namespace
}  // namespace acan
