// ManagerCore alone: which results may stay on devices with their own memory or behind links, what
// happens when they are lost, and when versions are copied into the space.
#include <gmock/gmock.h>

#include "manager_shell.h"

namespace acan {
namespace {

constexpr std::int64_t kResidentSteps = 4;  // of 6

ManagerConfig ResidentJob() {
  ManagerConfig config = SmallJob();
  config.limits.resident_steps = kResidentSteps;
  config.least_removed_bytes = 1;
  config.fixed_handlers = true;
  return config;
}

HandlersSeen Gpus(std::initializer_list<std::uint64_t> memory_bytes) {
  HandlersSeen seen = Handlers(memory_bytes);
  for (auto& [id, capacity] : seen.handlers) capacity.own_memory = true;
  return seen;
}

HandlersSeen Far(std::initializer_list<std::uint64_t> memory_bytes) {
  HandlersSeen seen = Handlers(memory_bytes);
  for (auto& [id, capacity] : seen.handlers) capacity.bytes_travel = true;
  return seen;
}

// The versions whose tiles may stay with handlers.
std::set<std::int64_t> VersionsThatStay(const Shell& shell) {
  std::set<std::int64_t> resident;
  const ManagerConfig config = SmallJob();
  const PassTasks graph(LowerModel(config.model), config.training, *shell.core.plan());
  for (std::int64_t version = 0; version <= shell.core.total_steps(); ++version) {
    std::size_t may = 0;
    const std::vector<TileCell> tiles = graph.Tiles("run", version);
    for (const TileCell& tile : tiles) may += shell.may_be_resident.at(tile.key) ? 1 : 0;
    EXPECT_TRUE(may == 0 || may == tiles.size()) << version;
    if (may > 0) resident.insert(version);
  }
  return resident;
}

// Counts of a run's results: tiles that may stay, other results that may stay, tiles that may not.
struct Stay {
  std::size_t tiles = 0, others = 0, leaving_tiles = 0;
};
Stay StayIn(const Shell& shell) {
  Stay stay;
  for (const auto& [key, may] : shell.may_be_resident) {
    const bool is_tile = key.ToString().find("\"tile\"") != std::string::npos;
    if (is_tile) ++(may ? stay.tiles : stay.leaving_tiles);
    if (!is_tile && may) ++stay.others;
  }
  return stay;
}
Stay StayOf(ManagerConfig config, const HandlersSeen& handlers) {
  Shell shell(std::move(config));
  shell.Send(handlers);
  shell.RunAll();
  EXPECT_TRUE(shell.done);
  return StayIn(shell);
}

TEST(ManagerCoreResidentTest, TilesStayButForThoseOfTheLastVersion) {
  Shell shell(ResidentJob());
  shell.Send(Gpus({1 << 30, 1 << 30}));
  shell.RunAll();
  EXPECT_TRUE(shell.done);
  EXPECT_EQ(VersionsThatStay(shell), (std::set<std::int64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(StayIn(shell).others, 0u) << "another handler may need them";
}

TEST(ManagerCoreResidentTest, WithOneHandlerAllStays) {
  Shell shell(ResidentJob());
  shell.Send(Gpus({1 << 30}));
  shell.RunAll();
  EXPECT_EQ(VersionsThatStay(shell), (std::set<std::int64_t>{1, 2, 3, 4, 5}));
  EXPECT_GT(StayIn(shell).others, 0u);
  std::size_t losses = 0;
  for (const auto& [key, may] : shell.may_be_resident) {
    if (key.ToString().find("\"loss\"") == std::string::npos) continue;
    ++losses;
    EXPECT_FALSE(may) << "the manager waits for " << key.ToString();
  }
  EXPECT_GT(losses, 0u);
}

// With several handlers, a reader would have to request each small result; with one there is no
// other reader.
TEST(ManagerCoreResidentTest, SmallResultsStayWithTheLargeOnesOfOneHandler) {
  const auto staying = [](const HandlersSeen& handlers) {
    ManagerConfig config = ResidentJob();
    config.least_removed_bytes = 32 << 10;  // only tiles of the first two weights are larger
    return StayOf(std::move(config), handlers);
  };
  const Stay one = staying(Gpus({1 << 30}));
  const Stay two = staying(Gpus({1 << 30, 1 << 30}));
  EXPECT_GT(two.tiles, 0u);
  EXPECT_GT(two.leaving_tiles, one.leaving_tiles);
  EXPECT_GT(one.tiles, two.tiles);
}

TEST(ManagerCoreResidentTest, NothingStaysWhereItGainsNothingOrMustBeSeen) {
  const auto resident = [](ManagerConfig config, HandlersSeen handlers) {
    Shell shell(std::move(config));
    shell.Send(handlers);
    shell.RunAll();
    EXPECT_TRUE(shell.done);
    return VersionsThatStay(shell).size() + StayIn(shell).others;
  };
  EXPECT_GT(resident(ResidentJob(), Gpus({1 << 30})), 0u);
  EXPECT_EQ(resident(ResidentJob(), Handlers({1 << 30})), 0u) << "no memory of its own";
  ManagerConfig each_step = ResidentJob();
  each_step.limits.resident_steps = 1;
  EXPECT_EQ(resident(each_step, Gpus({1 << 30})), 0u);
  ManagerConfig audited = ResidentJob();
  audited.limits.audit = 0.5;
  EXPECT_EQ(resident(audited, Gpus({1 << 30, 1 << 30, 1 << 30})), 0u);
  ManagerConfig small = ResidentJob();
  small.least_removed_bytes = 1 << 20;
  EXPECT_EQ(resident(small, Gpus({1 << 30})), 0u);
}

// A run may go back to any version whose tiles are in the space.
TEST(ManagerCoreResidentTest, WhereNoTileIsLargeEachVersionIsSafe) {
  ManagerConfig config = ResidentJob();
  config.least_removed_bytes = 1 << 20;
  Shell shell(std::move(config));
  shell.Send(Gpus({1 << 30}));
  shell.RunAll();
  EXPECT_EQ(shell.retired, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_TRUE(shell.removed_steps.empty());
}

// Versions to which the run may go back are not retired. Tiles of versions in between are removed
// when their step is done, or with everything older than the next version in the space.
TEST(ManagerCoreResidentTest, TilesBetweenGoWhenTheirStepIsDone) {
  Shell shell(ResidentJob());
  shell.Send(Gpus({1 << 30, 1 << 30}));
  shell.RunAll();
  EXPECT_EQ(shell.retired, (std::vector<std::int64_t>{3, 5}));
  EXPECT_EQ(shell.removed_steps, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
  const ManagerConfig config = SmallJob();
  const PassTasks graph(LowerModel(config.model), config.training, *shell.core.plan());
  for (std::int64_t version = 0; version <= 6; ++version) {
    const bool between = version == 1 || version == 2 || version == 3;
    for (const TileCell& tile : graph.Tiles("run", version)) {
      EXPECT_EQ(shell.removed.count(tile.key) != 0, between) << tile.key.ToString();
    }
  }
  EXPECT_EQ(shell.missed, std::vector<std::string>());
}

TEST(ManagerCoreResidentTest, TheTilesOfAVersionAreThoseOfAllStatesButNoneThatIsFrozen) {
  const std::vector<tuplespace::Pattern> patterns = TilesOfVersion("run", 4);
  const auto match = [&](const tuplespace::Key& key) {
    return std::any_of(patterns.begin(), patterns.end(),
                       [&](const tuplespace::Pattern& pattern) { return pattern.Matches(key); });
  };
  const ParameterId parameter{2};
  const Range range{0, 8};
  for (const ParameterState state : StatesOf(kMaxOptimizerStates)) {
    EXPECT_TRUE(match(TileKey("run", 4, {parameter, state}, range, range)));
    EXPECT_FALSE(match(TileKey("run", 5, {parameter, state}, range, range)));
    EXPECT_FALSE(match(TileKey("other", 4, {parameter, state}, range, range)));
  }
  EXPECT_FALSE(match(FrozenTileKey("run", parameter, range, range)));
  EXPECT_FALSE(match(PassKeys("run", 4, 0).Batch(StepTuple::kGradientNorm)));
}

TEST(ManagerCoreResidentTest, WhatIsLostIsMadeAgainFromTheLastSafeVersion) {
  for (const std::int64_t lost_at : {0, 2, 3, 4, 5}) {
    Shell shell(ResidentJob());
    shell.Send(Gpus({1 << 30, 1 << 30}));
    bool lost = false;
    while (!shell.answers.empty()) {
      const bool is_copied = !std::holds_alternative<VersionSafe>(shell.answers.front());
      if (!lost && is_copied && shell.core.committed_steps() == lost_at) {
        lost = true;
        shell.Send(ResultsLost{"handler 1 is gone"});
        ASSERT_EQ(shell.moved.size(), 1u);
        EXPECT_EQ(shell.moved[0].version, lost_at >= kResidentSteps ? kResidentSteps : 0);
        EXPECT_NE(shell.Said().find("handler 1 is gone: going back"), std::string::npos);
      }
      const ManagerEvent event = shell.answers.front();
      shell.answers.pop_front();
      if (const auto* chunk = std::get_if<ChunkDone>(&event)) shell.in_flight -= chunk->tasks;
      shell.Send(event);
    }
    ASSERT_TRUE(lost) << lost_at;
    EXPECT_TRUE(shell.done) << lost_at;
    EXPECT_EQ(shell.committed, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5})) << "each told once";
    ASSERT_EQ(shell.evaluated.size(), 2u) << "each told once";
    EXPECT_EQ(shell.evaluated[0].step, 3);
    EXPECT_EQ(shell.evaluated[1].step, 6);
  }
}

// Otherwise a handler that repeatedly keeps results and leaves would keep a run from its next step.
TEST(ManagerCoreResidentTest, NothingStaysForAFewStepsAfterLossesInARow) {
  const auto stay_after = [](const std::vector<std::int64_t>& lost_after) {
    Shell shell(ResidentJob());
    shell.Send(Gpus({1 << 30, 1 << 30}));
    for (const std::int64_t step : lost_after) {
      shell.RunUntil(step);
      shell.answers.clear();
      shell.Send(ResultsLost{"handler 1 is gone"});
    }
    shell.RunAll();
    EXPECT_TRUE(shell.done);
    EXPECT_EQ(shell.committed, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5})) << "each told once";
    return VersionsThatStay(shell);
  };
  EXPECT_EQ(stay_after({2}), (std::set<std::int64_t>{1, 2, 3, 4, 5}))
      << "any handler may be lost once";
  EXPECT_EQ(stay_after({2, 2}), (std::set<std::int64_t>{2, 3, 4, 5}));
  EXPECT_EQ(stay_after({2, 2, 2}), (std::set<std::int64_t>{4, 5})) << "from the safe version 1 on";
  EXPECT_EQ(stay_after({2, 5, 5}), (std::set<std::int64_t>{1, 2, 3, 4}))
      << "version 4 was safe between the first two";
  EXPECT_EQ(stay_after({2, 5}), (std::set<std::int64_t>{1, 2, 3, 4, 5}));
}

// The same if versions are copied while steps run.
TEST(ManagerCoreOverLinkTest, ACopyEndsTheLossesInARow) {
  for (const bool copied : {false, true}) {
    ManagerConfig config = ResidentJob();
    config.limits.resident_steps = 2;
    Shell shell(std::move(config));
    shell.copies = false;
    shell.Send(Far({1 << 30, 1 << 30}));
    for (int loss = 0; loss < 2; ++loss) {
      shell.RunUntil(3);
      if (copied && loss == 1) shell.Send(VersionSafe{shell.copy_generation, 2});
      shell.answers.clear();
      shell.Send(ResultsLost{"handler 1 is gone"});
    }
    shell.RunAll();
    EXPECT_TRUE(shell.done);
    const std::set<std::int64_t> stay = VersionsThatStay(shell);
    EXPECT_EQ(stay.contains(1), copied);
    EXPECT_TRUE(stay.contains(3));
  }
}

TEST(ManagerCoreResidentTest, WhatIsLostWhenAllIsDoneMattersToNobody) {
  Shell shell(ResidentJob());
  shell.Send(Gpus({1 << 30}));
  shell.RunAll();
  ASSERT_TRUE(shell.done);
  shell.Send(ResultsLost{"handler 0 is gone"});
  EXPECT_TRUE(shell.moved.empty());
}

// Its tiles stay in the space until the snapshot is on disk, although the run continues.
TEST(ManagerCoreResidentTest, ASnapshotOfAVersionBetweenKeepsItsTiles) {
  ManagerConfig config = ResidentJob();
  config.snapshots = SnapshotPolicy{3, 0, 0};
  Shell shell(std::move(config));
  shell.Send(Gpus({1 << 30}));
  shell.RunAll();
  EXPECT_TRUE(shell.done);
  ASSERT_EQ(shell.snapshots, (std::vector<std::int64_t>{3}));
  const ManagerConfig job = SmallJob();
  const PassTasks graph(LowerModel(job.model), job.training, *shell.core.plan());
  for (const TileCell& tile : graph.Tiles("run", 3)) EXPECT_EQ(shell.removed.count(tile.key), 0u);
  EXPECT_THAT(shell.retired, ::testing::Each(::testing::Le(2)));
}

// ---- over links: versions are copied while steps run -------------------------------------------

TEST(ManagerCoreOverLinkTest, AllStaysButTheLastVersionWhichIsCopiedAtEachInterval) {
  Shell shell(ResidentJob());
  shell.Send(Far({1 << 30, 1 << 30}));
  shell.RunAll();
  EXPECT_TRUE(shell.done);
  EXPECT_EQ(VersionsThatStay(shell), (std::set<std::int64_t>{1, 2, 3, 4, 5}));
  EXPECT_GT(StayIn(shell).others, 0u) << "whoever needs them asks";
  EXPECT_EQ(shell.copied, (std::vector<std::int64_t>{4}));
  EXPECT_EQ(shell.missed, std::vector<std::string>());
}

// Batches of an evaluation have numbers, those of steps do not.
TEST(ManagerCoreOverLinkTest, WhatAnEvaluationMakesStaysAsWhatAStepMakes) {
  ManagerConfig config = ResidentJob();
  config.model = BuildModel(Perceptron{{97, 1024, 53, 10}});
  config.limits.size_bytes = 200'000;  // so that its layers are cut
  Shell shell(std::move(config));
  shell.Send(Far({1 << 30, 1 << 30}));
  shell.RunAll();
  ASSERT_TRUE(shell.done);
  std::map<std::string, std::set<bool>> stays;
  for (const auto& [key, may] : shell.may_be_resident) {
    const auto fields = key.Fields();
    if (TileOfKey(key) || fields.size() < 5 || std::get<std::int64_t>(fields[3]) == 0) continue;
    stays[std::get<std::string>(fields[2])].insert(may);
  }
  EXPECT_EQ(stays.at("act"), std::set<bool>{true});
  EXPECT_EQ(stays.at("loss"), std::set<bool>{false}) << "the manager reads it";
}

TEST(ManagerCoreOverLinkTest, AnEvaluationOfTheLastVersionIsRepeatedWhenItsResultsAreLost) {
  Shell shell(ResidentJob());
  shell.Send(Far({1 << 30, 1 << 30}));
  shell.RunUntil(6);
  ASSERT_FALSE(shell.done);
  ASSERT_EQ(shell.evaluated.size(), 1u);
  shell.answers.clear();
  shell.Send(ResultsLost{"handler 1 is gone"});
  ASSERT_EQ(shell.moved.size(), 1u);
  EXPECT_EQ(shell.moved[0].version, 6) << "none of its tiles stayed";
  shell.RunAll();
  EXPECT_TRUE(shell.done);
  EXPECT_EQ(shell.evaluated.size(), 2u);
  EXPECT_EQ(shell.committed, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5})) << "each told once";
}

// Through the broker these results would reach each reader over one link. A tile that stays is kept
// until a later version is safe, so only large tiles stay.
TEST(ManagerCoreOverLinkTest, SmallerResultsThanTilesStay) {
  const auto staying = [](const HandlersSeen& handlers) {
    ManagerConfig config = ResidentJob();
    config.model = BuildModel(Perceptron{{97, 1024, 53, 10}});  // 397 KB of weights
    config.limits.batch_rows = 16;                              // parts of gradients are as large
    config.least_removed_bytes = 512 << 10;
    return StayOf(std::move(config), handlers);
  };
  const Stay far = staying(Far({1 << 30, 1 << 30}));
  EXPECT_EQ(far.tiles, 0u);
  EXPECT_GT(far.others, 0u);
  const Stay near = staying(Gpus({1 << 30}));
  EXPECT_EQ(near.tiles + near.others, 0u) << "no link is to be spared";
}

TEST(ManagerCoreOverLinkTest, NothingIsCopiedWhileAnotherVersionIs) {
  ManagerConfig config = ResidentJob();
  config.limits.resident_steps = 2;
  Shell shell(std::move(config));
  shell.copies = false;
  shell.Send(Far({1 << 30, 1 << 30}));
  shell.RunAll();
  EXPECT_TRUE(shell.done);
  EXPECT_EQ(shell.copied, (std::vector<std::int64_t>{2}));
  const ManagerConfig job = SmallJob();
  const PassTasks graph(LowerModel(job.model), job.training, *shell.core.plan());
  for (const TileCell& tile : graph.Tiles("run", 2)) {
    EXPECT_EQ(shell.removed.count(tile.key), 0u) << tile.key.ToString();
  }
  for (const TileCell& tile : graph.Tiles("run", 3)) {
    EXPECT_EQ(shell.removed.count(tile.key), 1u) << tile.key.ToString();
  }
}

// The holders of its tiles may be slow, and once these are retired the copy can never find them.
TEST(ManagerCoreOverLinkTest, ACopyThatIsUnderWayWhenALaterVersionIsSafeIsDropped) {
  ManagerConfig config = ResidentJob();
  config.limits.resident_steps = 2;
  Shell shell(std::move(config));
  shell.copies = false;
  shell.Send(Far({1 << 30, 1 << 30}));
  shell.RunAll();
  ASSERT_TRUE(shell.done);
  ASSERT_EQ(shell.copied, (std::vector<std::int64_t>{2}));
  EXPECT_EQ(shell.retired.back(), 5) << "the last version does not stay with handlers";
  EXPECT_FALSE(shell.copy_open);
  EXPECT_FALSE(shell.retired_while_copied) << "the copy goes before what it waits for";
}

// The run goes back to a version whose copy is complete, not to one that is being copied.
TEST(ManagerCoreOverLinkTest, AVersionIsSafeWhenItIsCopied) {
  for (const bool copied : {false, true}) {
    ManagerConfig config = ResidentJob();
    config.limits.resident_steps = 2;
    Shell shell(std::move(config));
    shell.copies = false;
    shell.Send(Far({1 << 30, 1 << 30}));
    shell.RunUntil(3);
    ASSERT_EQ(shell.copied, (std::vector<std::int64_t>{2}));
    if (copied) shell.Send(VersionSafe{shell.copy_generation, 2});
    shell.Send(VersionSafe{shell.copy_generation, 3});
    shell.Send(VersionSafe{shell.copy_generation + 7, 2});
    shell.Send(ResultsLost{"handler 1 is gone"});
    ASSERT_EQ(shell.moved.size(), 1u);
    EXPECT_EQ(shell.moved[0].version, copied ? 2 : 0);
    shell.copies = true;
    shell.answers.clear();
    shell.Send(WeightsReady{shell.moved[0].generation});
    shell.RunAll();
    EXPECT_TRUE(shell.done);
    EXPECT_EQ(shell.committed, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5})) << "each told once";
  }
}

// Snapshots are due at their own times, unless the job sets them.
TEST(ManagerCoreOverLinkTest, ASnapshotWaitsForAVersionThatIsCopied) {
  const auto snapshots = [](std::optional<std::int64_t> every_steps, bool copies) {
    ManagerConfig config = ResidentJob();
    config.training.epochs = 4;
    config.snapshots = SnapshotPolicy{.every_steps = every_steps};
    Shell shell(std::move(config));
    shell.copies = copies;
    shell.Send(Far({1 << 30}));
    while (!shell.answers.empty()) {  // so late that a snapshot is due at each step
      const ManagerEvent event = shell.answers.front();
      shell.answers.pop_front();
      if (const auto* chunk = std::get_if<ChunkDone>(&event)) shell.in_flight -= chunk->tasks;
      shell.Send(event, 7'200'000'000);
    }
    EXPECT_TRUE(shell.done);
    return shell.snapshots;
  };
  EXPECT_EQ(snapshots({}, true), (std::vector<std::int64_t>{1})) << "it is copied as one is due";
  EXPECT_EQ(snapshots({}, false), (std::vector<std::int64_t>{}));
  EXPECT_EQ(snapshots(1, false), (std::vector<std::int64_t>{1})) << "the first is under way";
}

}  // namespace
}  // namespace acan
