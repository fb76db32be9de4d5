// ManagerCore alone, with simulated time and handlers: what is put when, what is retired, evaluated
// and reported, and what happens when the handlers change.
#include "acan/model/gradients.h"
#include "manager_shell.h"

namespace acan {
namespace {

constexpr std::int64_t kSecondUs = 1'000'000;

TEST(ManagerCoreTest, TrainsEvaluatesAndRetiresInOrder) {
  Shell shell(SmallJob());
  shell.Send(Handlers({1 << 30}));
  shell.RunAll();
  EXPECT_TRUE(shell.done);
  EXPECT_EQ(shell.core.total_steps(), 6);
  EXPECT_EQ(shell.committed, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(shell.retired, shell.committed);
  ASSERT_EQ(shell.evaluated.size(), 2u);
  EXPECT_EQ(shell.evaluated[0].step, 3);
  EXPECT_EQ(shell.evaluated[1].step, 6);
  // Two batches of the test set; each reports a loss of 2 and one right answer.
  EXPECT_DOUBLE_EQ(shell.evaluated[0].loss, 4.0 / 50);
  EXPECT_DOUBLE_EQ(*shell.evaluated[0].accuracy, 2.0 / 50);
}

// The training ends after a number of steps, possibly within an epoch; the last version is always
// evaluated.
TEST(ManagerCoreTest, AJobMayCountSteps) {
  ManagerConfig config = SmallJob();
  config.training.steps = 5;  // an epoch has three
  Shell by_epoch(config);
  by_epoch.Send(Handlers({1 << 30}));
  by_epoch.RunAll();
  EXPECT_TRUE(by_epoch.done);
  EXPECT_EQ(by_epoch.core.total_steps(), 5);
  EXPECT_EQ(by_epoch.committed, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
  const auto versions = [](const Shell& shell) {
    std::vector<std::int64_t> all;
    for (const Evaluated& one : shell.evaluated) all.push_back(one.step);
    return all;
  };
  EXPECT_EQ(versions(by_epoch), (std::vector<std::int64_t>{3, 5}));
  EXPECT_EQ(by_epoch.evaluated[1].epoch, 1);  // whole epochs

  config.training.evaluate_every = 2;
  Shell by_steps(config);
  by_steps.Send(Handlers({1 << 30}));
  by_steps.RunAll();
  EXPECT_TRUE(by_steps.done);
  EXPECT_EQ(versions(by_steps), (std::vector<std::int64_t>{2, 4, 5}));
  EXPECT_EQ(by_steps.evaluated[0].epoch, 0);
}

// The space compares the priorities of all runs: one that is at a late step must not wait until a
// new one has done as many.
TEST(ManagerCoreTest, TasksOfLateStepsComeAsEarlyAsThoseOfFirstSteps) {
  ManagerConfig config = SmallJob();
  config.training.steps = 40;
  Shell shell(std::move(config));
  shell.Send(Handlers({1 << 30}));
  shell.RunUntil(20);
  const std::int64_t greatest = std::exchange(shell.greatest_priority, 0);
  EXPECT_GT(greatest, 0);
  shell.RunAll();
  EXPECT_TRUE(shell.done);
  EXPECT_LE(shell.greatest_priority, greatest);
}

TEST(ManagerCoreTest, EarlierVersionsStayForWhoLooksForTheLastGoodOne) {
  ManagerConfig config = SmallJob();
  config.kept_versions = 2;
  Shell shell(std::move(config));
  shell.Send(Handlers({1 << 30}));
  shell.RunAll();
  EXPECT_TRUE(shell.done);
  EXPECT_EQ(shell.committed, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}));
  // When step s is committed, the versions s - 1, s and s + 1 exist.
  EXPECT_EQ(shell.retired, (std::vector<std::int64_t>{0, 1, 2, 3}));
}

TEST(ManagerCoreTest, PutsAFewStepsAheadAndNoMore) {
  Shell shell(SmallJob());
  shell.Send(Handlers({1 << 30}));
  // Nothing was answered: the initial weights and the data of two steps were put.
  EXPECT_EQ(shell.data_put.size(), 2u);
  EXPECT_TRUE(shell.committed.empty());
}

TEST(ManagerCoreTest, StepsAreCommittedInOrderWhateverOrderTheyEndIn) {
  Shell shell(SmallJob());
  shell.Send(Handlers({1 << 30}));
  std::deque<ManagerEvent> backwards(shell.answers.rbegin(), shell.answers.rend());
  shell.answers.clear();
  for (const ManagerEvent& event : backwards) {
    if (const auto* chunk = std::get_if<ChunkDone>(&event)) shell.in_flight -= chunk->tasks;
    shell.Send(event);
  }
  EXPECT_EQ(shell.committed, (std::vector<std::int64_t>{0, 1}));
  shell.RunAll();
  EXPECT_TRUE(shell.done);
}

// Results that only tasks of the same step read are removed when these tasks are done. The tiles of
// the next version and the losses stay.
TEST(ManagerCoreTest, WhatNoTaskOfTheStepNeedsAnyMoreIsRemoved) {
  for (const std::int64_t pouch : {1, 7, 1000}) {
    ManagerConfig config = SmallJob();
    config.limits.pouch = pouch;
    config.limits.size_bytes = 16 << 10;
    config.least_removed_bytes = 1;
    Shell shell(std::move(config));
    shell.Send(Handlers({1 << 30, 1 << 30}));
    // Answers one of the next three tasks at a time, the last one first.
    while (!shell.answers.empty()) {
      const std::size_t of = shell.answers.size() < 3 ? shell.answers.size() : 3;
      const ManagerEvent event = shell.answers[of - 1];
      shell.answers.erase(shell.answers.begin() + static_cast<std::ptrdiff_t>(of) - 1);
      shell.Send(event);
    }
    EXPECT_TRUE(shell.done);
    EXPECT_EQ(shell.missed, std::vector<std::string>()) << pouch;
    const auto model = SmallJob().model;
    const Training training = SmallJob().training;
    const PassTasks graph(LowerModel(model), training, *shell.core.plan());
    std::set<tuplespace::Key> tiles;
    for (std::int64_t version = 0; version <= shell.core.total_steps(); ++version) {
      for (const TileCell& tile : graph.Tiles("run", version)) tiles.insert(tile.key);
    }
    std::size_t for_others = 0;
    for (const tuplespace::Key& key : shell.made) {
      const bool expected = shell.used.count(key) != 0 && tiles.count(key) == 0;
      EXPECT_EQ(shell.removed.count(key) != 0, expected) << key.ToString();
      for_others += expected ? 1 : 0;
    }
    EXPECT_EQ(shell.removed.size(), for_others);
    EXPECT_GT(for_others, 0u);
  }
}

TEST(ManagerCoreTest, SmallResultsAndThoseThatAnAuditMayNeedStay) {
  for (const double audit : {0.0, 0.5}) {
    ManagerConfig config = SmallJob();
    config.limits.audit = audit;
    config.least_removed_bytes = audit > 0 ? 1 : 1 << 20;
    Shell shell(std::move(config));
    shell.Send(Handlers({1 << 30, 1 << 30, 1 << 30}));
    shell.RunAll();
    EXPECT_TRUE(shell.done);
    EXPECT_EQ(shell.removed.size(), 0u);
  }
}

TEST(ManagerCoreTest, ThePouchBoundsTheTasksInFlight) {
  for (const std::int64_t pouch : {1, 2, 7}) {
    ManagerConfig config = SmallJob();
    config.limits.pouch = pouch;
    config.limits.size_bytes = 16 << 10;
    Shell shell(std::move(config));
    shell.Send(Handlers({1 << 30}));
    shell.RunAll();
    EXPECT_TRUE(shell.done) << pouch;
    EXPECT_LE(shell.most_in_flight, static_cast<std::size_t>(pouch));
  }
}

TEST(ManagerCoreTest, EveryPolicyComesToTheEndWithTheSameSteps) {
  for (const Policy policy :
       {Policy::kAuto, Policy::kPaper, Policy::kGuided, Policy::kFactoring, Policy::kFixed}) {
    ManagerConfig config = SmallJob();
    config.limits.policy = policy;
    config.limits.size_bytes = 16 << 10;
    Shell shell(std::move(config));
    shell.Send(Handlers({1 << 30, 1 << 30}));
    shell.RunAll();
    EXPECT_TRUE(shell.done);
    EXPECT_EQ(shell.committed, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}));
    EXPECT_EQ(shell.core.policy().in_flight(), 0);
  }
}

TEST(ManagerCoreTest, ThePapersPouchEndsWithItsTimeout) {
  ManagerConfig config = SmallJob();
  config.limits.policy = Policy::kPaper;
  config.limits.pouch = 10;
  config.limits.timeout_ms = 500;
  config.limits.size_bytes = 16 << 10;
  Shell shell(std::move(config));
  shell.Send(Handlers({1 << 30}), 0);
  ASSERT_EQ(shell.in_flight, 10u);
  EXPECT_LE(shell.core.NextDeadlineUs(), kSecondUs / 2);
  shell.Send(ClockTick{}, kSecondUs / 4);
  EXPECT_EQ(shell.core.policy().pouches(), 1);
  // Nothing was done in time: all ten tasks belong to the next pouch. It has the same time, which
  // the job fixes.
  shell.Send(ClockTick{}, kSecondUs / 2);
  EXPECT_EQ(shell.in_flight, 10u);
  EXPECT_EQ(shell.core.policy().pouches(), 2);
  EXPECT_EQ(shell.core.policy().timeout_us(), kSecondUs / 2);
}

TEST(ManagerCoreTest, LeasesFollowHowLongTasksTook) {
  Shell shell(SmallJob());
  shell.took_us = 7 * kSecondUs;
  shell.Send(Handlers({1 << 30}));
  for (const std::int64_t lease_us : shell.leases_us) EXPECT_EQ(lease_us, kFirstLeaseUs);
  shell.leases_us.clear();
  shell.RunAll();
  EXPECT_TRUE(shell.done);
  // The deviation approaches zero because all tasks take the same time.
  EXPECT_GT(shell.leases_us.back(), 7 * kSecondUs);
  EXPECT_LE(shell.leases_us.back(), 21 * kSecondUs);
}

TEST(ManagerCoreTest, NoEpochsMeansTheInitialWeightsEvaluated) {
  ManagerConfig config = SmallJob();
  config.training.epochs = 0;
  config.load_weights = true;
  Shell shell(std::move(config));
  shell.Send(Handlers({1 << 30}));
  shell.RunAll();
  EXPECT_TRUE(shell.loaded);
  EXPECT_TRUE(shell.committed.empty());
  ASSERT_EQ(shell.evaluated.size(), 1u);
  EXPECT_EQ(shell.evaluated[0].step, 0);
  EXPECT_TRUE(shell.done);
}

TEST(ManagerCoreTest, WaitsForTheExpectedHandlersButNotForever) {
  ManagerConfig config = SmallJob();
  config.expected_handlers = 2;
  Shell shell(std::move(config));
  shell.Send(Handlers({1 << 30}), 0);
  EXPECT_FALSE(shell.core.plan());
  shell.Send(ClockTick{}, 9 * kSecondUs);
  EXPECT_FALSE(shell.core.plan());
  shell.Send(ClockTick{}, 10 * kSecondUs);
  EXPECT_TRUE(shell.core.plan());
}

TEST(ManagerCoreTest, SaysThatNobodyIsThereAndGoesOnWhenOneComes) {
  Shell shell(SmallJob());
  shell.Send(Handlers({}), 0);
  shell.Send(ClockTick{}, kSecondUs);
  EXPECT_EQ(shell.Said(), "");
  shell.Send(ClockTick{}, 3 * kSecondUs);
  EXPECT_NE(shell.Said().find("no handler"), std::string::npos);
  const std::size_t lines = shell.said.size();
  shell.Send(ClockTick{}, 4 * kSecondUs);
  EXPECT_EQ(shell.said.size(), lines) << "once is enough for a while";
  shell.Send(Handlers({1 << 30}), 5 * kSecondUs);
  EXPECT_TRUE(shell.core.plan());
  shell.RunAll();
}

TEST(ManagerCoreTest, NamesAHandlerThatIsTooSmall) {
  Shell shell(SmallJob());
  shell.Send(Handlers({1000}), 0);
  EXPECT_FALSE(shell.core.plan());
  EXPECT_NE(shell.Said().find("this handler offers 1000B"), std::string::npos) << shell.Said();
  EXPECT_EQ(shell.gave_up, "");
  shell.Send(Handlers({1000, 1 << 20}), kSecondUs);
  EXPECT_TRUE(shell.core.plan()) << "a larger one came";
}

TEST(ManagerCoreTest, NamesEachHandlerThatIsTooSmallWhenItComes) {
  Shell shell(SmallJob());
  shell.Send(Handlers({2000}), 0);
  shell.Send(Handlers({2000, 1000}), kSecondUs);
  EXPECT_NE(shell.Said().find("this handler offers 1000B"), std::string::npos) << shell.Said();
}

TEST(ManagerCoreTest, GivesUpWhenNoLargerHandlerCanCome) {
  ManagerConfig config = SmallJob();
  config.fixed_handlers = true;
  Shell shell(std::move(config));
  shell.Send(Handlers({1000, 2000}), 0);
  EXPECT_NE(shell.gave_up.find("the largest task needs"), std::string::npos) << shell.gave_up;
}

// A norm needs all features of a row.
TEST(ManagerCoreTest, SaysWhereNoMemoryIsEnough) {
  constexpr std::int64_t kWidth = (1 << 24) + 1;
  model::Graph graph;
  const auto x = graph.AddInput("x", model::InputRole::kNumbers, 1, kWidth);
  const auto scale = graph.AddParameter(
      model::VectorParameter("scale", model::Role::kScale, kWidth, model::Constant{1}));
  const auto y = graph.Add("norm", model::RmsNorm{}, {x, scale});
  const auto targets = graph.AddInput("targets", model::InputRole::kTargets, 1, kWidth);
  graph.AddLoss(graph.Add("loss", model::SquaredError{}, {y, targets}));
  ManagerConfig config = SmallJob();
  auto wide = std::make_shared<TrainedModel>(*config.model);
  wide->training = model::WithGradients(graph);
  wide->evaluation = graph;
  config.model = wide;
  Shell shell(std::move(config));
  shell.Send(Handlers({std::int64_t{1} << 40}), 0);
  EXPECT_NE(shell.gave_up.find("no memory is enough for this model: 'x' has 1 rows for each sample "
                               "and 16777217 features"),
            std::string::npos)
      << shell.gave_up;
}

// Following the advice leads to a plan.
TEST(ManagerCoreTest, NamesTheSettingThatHelps) {
  const auto gives_up = [](const ManagerConfig& config, std::uint64_t bytes) {
    Shell shell(config);
    shell.Send(Handlers({bytes}), 0);
    return shell.gave_up;
  };
  ManagerConfig config = SmallJob();
  config.fixed_handlers = true;
  config.training.batch = 1;
  const std::string said = gives_up(config, 30 << 10);
  EXPECT_NE(said.find("or set train.block = 32"), std::string::npos) << said;
  config.training.block = 32;
  EXPECT_EQ(gives_up(config, 30 << 10), "");
  EXPECT_NE(gives_up(config, 1000).find("no smaller train.block or train.batch that is enough"),
            std::string::npos);
}

TEST(ManagerCoreTest, PassesOverHandlersThatCannotBeExact) {
  Shell shell(SmallJob());
  HandlersSeen seen = Handlers({1 << 30});
  seen.handlers.begin()->second.exact = false;
  shell.Send(seen, 0);
  EXPECT_FALSE(shell.core.plan());
}

TEST(ManagerCoreTest, CutsAnewFromTheLastWholeVersionWhenTheLargeHandlerIsGone) {
  Shell shell(SmallJob());
  shell.Send(Handlers({1 << 30}), 0);
  // Answers until the initial weights and one step are done, and leaves the rest unanswered.
  while (shell.committed.empty()) {
    const ManagerEvent event = shell.answers.front();
    shell.answers.pop_front();
    shell.Send(event, 0);
  }
  ASSERT_EQ(shell.committed, std::vector<std::int64_t>{0});
  const std::deque<ManagerEvent> stale = shell.answers;
  shell.answers.clear();
  const std::uint64_t small = 150 << 10;
  ASSERT_GT(shell.core.plan()->largest_need_bytes, small);

  shell.Send(Handlers({small}), kSecondUs);
  EXPECT_TRUE(shell.moved.empty()) << "the lost one may come back at once";
  shell.Send(ClockTick{}, 4 * kSecondUs);
  ASSERT_EQ(shell.moved.size(), 1u);
  EXPECT_EQ(shell.moved[0].version, 1);
  EXPECT_GT(shell.moved[0].to.size(), shell.moved[0].from.size());
  EXPECT_LE(shell.core.plan()->largest_need_bytes, small);
  for (const ManagerEvent& event : stale) shell.Send(event, 4 * kSecondUs);  // of the old plan
  EXPECT_EQ(shell.committed, std::vector<std::int64_t>{0});
  shell.RunAll();
  EXPECT_TRUE(shell.done);
  EXPECT_EQ(shell.committed, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(shell.evaluated.size(), 2u);
}

TEST(ManagerCoreTest, SmallHandlersBesideALargeOneDoNotMakeTheBoxesSmall) {
  Shell shell(SmallJob());
  shell.Send(Handlers({1 << 30, 1 << 30, 1 << 30, 40 << 10}), 0);
  ASSERT_TRUE(shell.core.plan());
  EXPECT_GT(shell.core.plan()->largest_need_bytes, 40u << 10);
  EXPECT_NE(shell.Said().find("takes only smaller ones"), std::string::npos) << shell.Said();
}

TEST(ManagerCoreTest, ASnapshotKeepsItsTilesUntilItIsDone) {
  ManagerConfig config = SmallJob();
  config.training.epochs = 20;
  config.snapshots = SnapshotPolicy{.every_steps = 4};
  Shell shell(config);
  shell.Send(Handlers({1 << 20}));
  shell.RunAll();
  // The run went ahead of the snapshot, but not without end.
  ASSERT_EQ(shell.snapshots, std::vector<std::int64_t>{4});
  EXPECT_EQ(shell.retired.back(), 3);
  EXPECT_FALSE(shell.done);
  const std::size_t ahead = shell.committed.size();
  EXPECT_GT(ahead, 6u);
  EXPECT_LT(ahead, 40u);
  shell.Send(SnapshotDone{4, 1000});
  EXPECT_EQ(shell.retired.back(), static_cast<std::int64_t>(ahead) - 1);
  for (std::size_t next = 1; next <= shell.snapshots.size() && !shell.done; ++next) {
    shell.RunAll();
    if (next < shell.snapshots.size()) shell.Send(SnapshotDone{shell.snapshots[next], 1000});
  }
  EXPECT_TRUE(shell.done);
  for (const std::int64_t version : shell.snapshots) EXPECT_EQ(version % 4, 0);
}

TEST(ManagerCoreTest, TakesSnapshotsSoonAndThenAsOftenAsYoungsRuleSays) {
  ManagerConfig config = SmallJob();
  config.training.epochs = 20;
  config.snapshots = SnapshotPolicy{};
  Shell shell(config);
  shell.Send(Handlers({1 << 20}), 0);
  // Commits a step at `now_us`; a snapshot that is due takes `took_us`.
  const auto step_at = [&shell](std::int64_t now_us, std::int64_t took_us) {
    const std::size_t before = shell.committed.size();
    const std::size_t snapshots = shell.snapshots.size();
    while (shell.committed.size() == before && !shell.answers.empty()) {
      const ManagerEvent event = shell.answers.front();
      shell.answers.pop_front();
      shell.Send(event, now_us);
    }
    if (shell.snapshots.size() == snapshots) return false;
    shell.Send(SnapshotDone{shell.snapshots.back(), took_us}, now_us);
    return true;
  };
  const auto steps = [&](std::initializer_list<std::int64_t> seconds, std::int64_t took_us) {
    std::vector<std::int64_t> with_snapshot;
    for (const std::int64_t second : seconds) {
      if (step_at(second * kSecondUs, took_us)) with_snapshot.push_back(second);
    }
    return with_snapshot;
  };
  // The first ones come soon, with doubling intervals. With 50 ms per snapshot and one failure per
  // hour, the longest interval is sqrt(2 * 0.05 * 3600) = 19 s.
  using Seconds = std::vector<std::int64_t>;
  EXPECT_EQ(steps({1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 50, 52}, 50'000),
            (Seconds{1, 2, 4, 8, 16, 32, 52}));
  // A snapshot of 20 s pays off only every sqrt(2 * 20 * 4000) = 400 s.
  EXPECT_EQ(steps({72}, 20 * kSecondUs), Seconds{72});
  EXPECT_EQ(steps({200, 271, 273, 500, 546, 900, 980}, 20 * kSecondUs), (Seconds{273, 546, 980}));
}

TEST(ManagerCoreTest, GoesOnFromALaterVersion) {
  ManagerConfig config = SmallJob();
  config.first_version = 3;
  config.load_weights = true;
  Shell shell(config);
  shell.Send(Handlers({1 << 20}));
  shell.RunAll();
  EXPECT_EQ(shell.load_version, 3);
  EXPECT_EQ(shell.committed, (std::vector<std::int64_t>{3, 4, 5}));
  // The evaluation at the end of the first epoch may not have been recorded, so it is repeated.
  ASSERT_EQ(shell.evaluated.size(), 2u);
  EXPECT_EQ(shell.evaluated[0].step, 3);
  EXPECT_TRUE(shell.done);
}

TEST(ManagerCoreTest, CuttingAnewDropsTheSnapshotUnderWay) {
  ManagerConfig config = SmallJob();
  config.training.epochs = 20;
  config.snapshots = SnapshotPolicy{.every_steps = 4};
  Shell shell(config);
  shell.Send(Handlers({64 << 20}));
  shell.RunAll();
  ASSERT_EQ(shell.snapshots.size(), 1u);
  shell.Send(Handlers({160 << 10}), kSecondUs);
  shell.Send(Handlers({160 << 10}), 10 * kSecondUs);
  ASSERT_EQ(shell.moved.size(), 1u);
  EXPECT_EQ(shell.dropped, 1);
  // A late answer is ignored.
  const std::size_t retired = shell.retired.size();
  shell.Send(SnapshotDone{4, 1000}, 10 * kSecondUs);
  EXPECT_EQ(shell.retired.size(), retired);
}

// Planning may take longer than a manager may be silent.
TEST(ManagerCoreTest, APlanLetsTheManagerGoOn) {
  struct Ended {};
  int looks = 0;
  ManagerConfig config = SmallJob();
  config.go_on = [&] {
    if (++looks == 5) throw Ended();
  };
  ManagerCore core(std::move(config));
  EXPECT_THROW(core.Step(Handlers({60 << 10, 1 << 20}), 0), Ended);
}

}  // namespace
}  // namespace acan
