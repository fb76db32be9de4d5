// ManagerCore with handlers that compute wrongly: what is recomputed, who is quarantined, and what
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

// So many classes that a handler of 1 MiB has no room for all values of a row.
std::shared_ptr<const TrainedModel> ModelOfManyClasses() {
  model::GptOptions options;
  options.n_layer = 1;
  options.n_head = 2;
  options.n_embd = 6;
  options.block_size = 5;
  options.vocab_size = 40'000;
  Job job;
  job.model = options;
  return BuildModel(job);
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

// A sign bit that the maker of a part flipped is not the fault of the handler that adds the parts.
TEST(ManagerCoreAuditsTest, WhoAddsUpWhatOthersMadeIsNotBlamed) {
  ManagerConfig clipped = AuditedJob(1);
  clipped.training.clip_norm = 1;
  clipped.test_samples = 0;
  ManagerConfig of_classes = AuditedJob(1);
  of_classes.model = ModelOfManyClasses();
  of_classes.training.batch = 4;
  of_classes.train_samples = 4;
  of_classes.test_samples = 0;
  for (const bool clips : {true, false}) {
    for (const std::string liar : {"id0", "", "not audited"}) {
      ManagerConfig config = clips ? clipped : of_classes;
      if (liar == "not audited") config.limits.audit = 0;
      Shell shell(config);
      shell.liar = liar;
      if (clips) {
        shell.norm = -4.0f;
      } else {
        shell.losses = {-2, 1};
      }
      const std::uint64_t bytes = clips ? 1 << 30 : 1 << 20;
      shell.Send(Handlers({bytes, bytes, bytes}));
      shell.RunAll();
      EXPECT_TRUE(shell.committed.empty());
      if (liar == "id0") {
        EXPECT_EQ(shell.quarantined, std::vector<std::string>{"id0"}) << "its audits say so";
        EXPECT_EQ(shell.gave_up, "");
      } else {
        EXPECT_TRUE(shell.quarantined.empty());
        EXPECT_NE(shell.gave_up.find("an unknown handler computes wrong results"),
                  std::string::npos)
            << shell.gave_up;
        EXPECT_EQ(shell.gave_up.find("id1"), std::string::npos) << shell.gave_up;
      }
    }
  }
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

// The space would refuse a task with more exclusions, and that would end the run.
TEST(ManagerCoreAuditsTest, AVoteLeavesOutNoMoreThanATaskMay) {
  constexpr std::size_t kMost = tuplespace::SpaceLimits{}.task_exclusions;
  ManagerConfig config = AuditedJob(1);
  for (std::size_t i = 0; i < kMost; ++i) config.quarantined.insert("wrong" + std::to_string(i));
  Shell shell(config);
  HandlersSeen seen = Handlers({1 << 30, 1 << 30, 1 << 30});
  seen.handlers.emplace("wrong9", seen.handlers.at("id0"));  // the last one by name
  shell.must_not_vote = "wrong9";
  shell.Send(seen);
  shell.RunAll();
  EXPECT_TRUE(shell.done);
  EXPECT_EQ(shell.votes, shell.tasks);
  EXPECT_EQ(shell.most_kept_from, kMost);
  EXPECT_FALSE(shell.could_vote);
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

// The third handler may come minutes later. Nothing is lost, so going back would not help.
TEST(ManagerCoreAuditsTest, WhereTwoHandlersInsistTheRunWaitsForAThird) {
  Shell shell(AuditedJob(1));
  shell.liar = "id1";
  shell.handlers = 2;
  shell.Send(Handlers({1 << 30, 1 << 30}));
  shell.RunAll();
  std::int64_t now_us = 0;
  while (now_us < 300'000'000) {
    now_us += 250'000;
    shell.Send(RunTasksSeen{.ready = 0, .leased = 0}, now_us);
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

// In a cluster that restarts its handlers, the third one may be away for some seconds.
TEST(ManagerCoreAuditsTest, WhereNoThirdHandlerWillComeADisputeEndsTheRun) {
  ManagerConfig config = AuditedJob(1);
  config.fixed_handlers = true;
  const ExpectedHandler third{"cpu:1", 1 << 30};
  for (const bool comes_back : {true, false}) {
    Shell shell(config);
    shell.liar = "id1";
    shell.handlers = 2;
    HandlersSeen seen = Handlers({1 << 30, 1 << 30});
    seen.missing = {third};
    shell.Send(seen);
    shell.RunAll();
    std::int64_t now_us = 0;
    for (; now_us < 15'000'000; now_us += 250'000) {
      shell.Send(seen, now_us);
      shell.Send(ClockTick{}, now_us);
    }
    EXPECT_EQ(shell.gave_up, "");
    EXPECT_NE(shell.Said().find("still waiting for one; not there: cpu:1 with 1GiB"),
              std::string::npos)
        << shell.Said();
    if (comes_back) {
      shell.handlers = 3;
      shell.Send(Handlers({1 << 30, 1 << 30, 1 << 30}), now_us);
      shell.RunAll(now_us);
      EXPECT_EQ(shell.quarantined, std::vector<std::string>{"id1"});
      EXPECT_EQ(shell.gave_up, "");
    } else {
      shell.Send(Handlers({1 << 30, 1 << 30}), now_us);
      EXPECT_NE(shell.gave_up.find("start it with three handlers or more"), std::string::npos)
          << shell.gave_up;
    }
  }
}

// It would wait for ever, although a third handler is there.
TEST(ManagerCoreAuditsTest, WhereOnlyASmallHandlerCouldDecideTheStepsAreCutForIt) {
  constexpr std::uint64_t kSmall = 1 << 20;
  ManagerConfig config = AuditedJob(1);
  config.model = ModelOfManyClasses();
  config.training.batch = 4;
  config.training.epochs = 8;
  config.train_samples = 4;  // one step
  config.test_samples = 0;
  Shell shell(config);
  shell.handlers = 2;  // the third one computes nothing until the steps are cut for it
  HandlersSeen seen = Handlers({1 << 30, 1 << 30, kSmall});
  seen.handlers.at("id2").gflops = 1;
  shell.Send(seen);
  ASSERT_TRUE(shell.core.plan());
  ASSERT_GT(shell.core.plan()->largest_need_bytes, kSmall) << "it is cut for the large ones";
  shell.RunUntil(1);
  shell.liar = "id1";
  shell.RunAll();
  ASSERT_NE(shell.core.audits()->Undecided(), nullptr);
  std::int64_t now_us = 0;
  const auto wait = [&](std::int64_t until_us, RunTasksSeen tasks) {
    while (shell.moved.empty() && now_us < until_us) {
      now_us += 250'000;
      shell.Send(tasks, now_us);
      shell.Send(ClockTick{}, now_us);
    }
  };
  wait(30'000'000, {.ready = 0, .leased = 1});
  ASSERT_TRUE(shell.moved.empty()) << "a task is still computed";
  wait(90'000'000, {.ready = 0, .leased = 0});
  ASSERT_EQ(shell.moved.size(), 1u) << shell.Said();
  EXPECT_LE(shell.core.plan()->largest_need_bytes, kSmall);
  EXPECT_FALSE(shell.conflicts.empty()) << "the dispute is in the receipt";
  shell.handlers = 3;
  shell.RunAll(90'000'000);
  EXPECT_EQ(shell.quarantined, std::vector<std::string>{"id1"});
}

// Lets ten seconds pass in which nobody takes a task.
void Stall(Shell& shell, std::int64_t* now_us) {
  for (const std::int64_t end_us = *now_us + 10'500'000; *now_us < end_us;) {
    *now_us += 250'000;
    shell.Send(RunTasksSeen{.ready = 4, .leased = 0}, *now_us);
    shell.Send(ClockTick{}, *now_us);
  }
}

TEST(ManagerCoreAuditsTest, AHandlerThatIsListedAndNeverVotesStopsTheRunOnce) {
  Shell shell(AuditedJob(1));
  shell.handlers = 1;
  shell.Send(Handlers({1 << 30, 1 << 30}));
  shell.RunAll();
  EXPECT_FALSE(shell.done);
  EXPECT_GT(shell.votes_left, 0u) << "id1 is asked";
  std::int64_t now_us = 0;
  Stall(shell, &now_us);
  shell.RunAll(now_us);
  EXPECT_TRUE(shell.done);
  EXPECT_TRUE(shell.moved.empty()) << "no new plan helps";
  EXPECT_EQ(shell.core.audits()->skipped(), shell.tasks);
  EXPECT_NE(shell.Said().find("nobody takes an audit: id1"), std::string::npos) << shell.Said();
}

TEST(ManagerCoreAuditsTest, ADisputeIsReportedWhenTheRunGoesBack) {
  Shell shell(AuditedJob(1));
  shell.liar = "id1";
  shell.handlers = 2;
  shell.Send(Handlers({1 << 30, 1 << 30, 1 << 30}));  // the third one never votes
  shell.RunAll();
  EXPECT_GT(shell.votes_left, 0u);
  EXPECT_TRUE(shell.conflicts.empty());
  shell.Send(ResultsLost{"results are lost"});
  ASSERT_EQ(shell.moved.size(), 1u);
  ASSERT_FALSE(shell.conflicts.empty());
  EXPECT_NE(shell.conflicts.front().find("id0"), std::string::npos) << shell.conflicts.front();
  EXPECT_NE(shell.conflicts.front().find("id1"), std::string::npos);
  EXPECT_TRUE(shell.quarantined.empty());
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
