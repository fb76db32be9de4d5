// Five hundred seeds and the scenarios find nothing, and each planted bug is found.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <sstream>
#include <string>
#include <vector>

#include "cluster/out_folder.h"
#include "planted/planted_names.h"
#include "scenarios/former_leader.h"
#include "scenarios/idle_handler.h"
#include "scenarios/late_supply.h"
#include "scenarios/leaving_clients.h"
#include "scenarios/lost_version.h"
#include "scenarios/scenarios.h"
#include "seed.h"

namespace acan::simulation {
namespace {

constexpr std::uint64_t kSeedsOfAPart = 125;
constexpr std::uint64_t kMaxSeedsToFind = 10'000;

std::string Again(std::uint64_t seed) {
  return "again: acan_simulate --seed " + std::to_string(seed) + " --trace";
}

// Split into parts that can run in parallel.
class Seeds : public testing::TestWithParam<std::uint64_t> {};

// What happened in some seeds. Without it, finding nothing would show nothing.
struct Happened {
  std::array<std::uint64_t, kFaults> faults{};
  std::uint64_t conflicts = 0, hostile = 0, hostile_manager = 0;
  std::uint64_t quarantined = 0;  // handlers that computed wrong results, all of them audited
  Moves moves;

  void Add(const SeedResult& result) {
    for (std::size_t i = 0; i < kFaults; ++i) faults[i] += result.faults[i];
    conflicts += result.conflicts_made;
    hostile += result.hostile;
    hostile_manager += result.hostile_manager;
    if (!result.unaudited) quarantined += result.quarantined;
    moves.Add(result.moves);
  }
};

TEST_P(Seeds, FindNothingAlthoughEveryFaultHappens) {
  Happened happened;
  for (std::uint64_t i = 1; i <= kSeedsOfAPart; ++i) {
    const std::uint64_t seed = GetParam() * kSeedsOfAPart + i;
    const SeedResult result = RunSeed({.seed = seed, .trace = {}});
    ASSERT_EQ(result.violation, "") << Again(seed);
    happened.Add(result);
  }
  for (std::size_t i = 0; i < kFaults; ++i) EXPECT_GT(happened.faults[i], 0u) << NameOf(Fault(i));
  EXPECT_GT(happened.conflicts, 0u);
  EXPECT_GT(happened.hostile, 0u);
  EXPECT_GT(happened.hostile_manager, 0u);
  EXPECT_GT(happened.quarantined, 0u);
  EXPECT_GT(happened.moves.fetched, 0u);
  EXPECT_GT(happened.moves.failed_fetches, 0u);
  EXPECT_GT(happened.moves.went_back, 0u);
}

INSTANTIATE_TEST_SUITE_P(Part, Seeds, testing::Range<std::uint64_t>(0, 4));

class Scenarios : public testing::TestWithParam<Scenario> {};

TEST_P(Scenarios, FindNothingAnyMore) {
  const SeedResult result =
      RunSeed({.seed = GetParam().seed, .hostile = GetParam().hostile, .trace = {}});
  EXPECT_EQ(result.violation, "") << "once: " << GetParam().found << "\n"
                                  << result.options << Again(GetParam().seed)
                                  << (GetParam().hostile ? " --hostile" : "");
}

INSTANTIATE_TEST_SUITE_P(Named, Scenarios, testing::ValuesIn(kScenarios),
                         [](const auto& each) { return std::string(each.param.name); });

TEST(Simulation, ALateSupplyDoesNotFreeAResultThatWasMadeAnew) {
  EXPECT_EQ(RunLateSupply(), "");
}

TEST(Simulation, WhatAFormerLeaderSentChangesNothing) {
  EXPECT_EQ(RunFormerLeader(), "");
}

TEST(Simulation, ARunThatLosesAVersionGoesBackToOneThatIsSafe) {
  EXPECT_EQ(RunLostVersion(), "");
}

TEST(Simulation, AHandlerThatDidOneTaskAndThenNoneStopsNoRun) {
  EXPECT_EQ(RunIdleHandler(), "");
}

TEST(Simulation, AHandlerThatNeverVotesStopsNoAuditedRun) {
  EXPECT_EQ(RunSilentVoter(), "");
}

TEST(Simulation, ClientsThatLeaveWithTasksThatTheyKeptAreBenched) {
  EXPECT_EQ(RunLeavingClients(), "");
}

TEST(Simulation, OnlyFaultsThatAreGivenHappen) {
  constexpr auto kGiven = static_cast<std::size_t>(Fault::kHandlerJoins);
  std::uint64_t given = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const SeedResult result =
        RunSeed({.seed = seed, .faults = {Fault::kHandlerJoins}, .trace = {}});
    EXPECT_EQ(result.violation, "") << Again(seed) << " --fault '" << NameOf(Fault(kGiven)) << "'";
    given += result.faults[kGiven];
    for (std::size_t i = 0; i < kFaults; ++i) {
      if (i == kGiven) continue;
      EXPECT_EQ(result.faults[i], 0u) << seed << ": " << NameOf(Fault(i));
    }
  }
  EXPECT_GT(given, 0u) << "else it shows nothing";
}

// A forked process, with another pid and other addresses, runs another seed first and then has the
// same histories.
TEST(Simulation, ASeedIsTheSameHistoryInEveryProcess) {
  constexpr std::uint64_t kSeeds = 20;
  std::array<std::uint64_t, kSeeds> hashes{};
  const auto run_all = [&hashes] {
    for (std::uint64_t i = 0; i < kSeeds; ++i) {
      hashes[i] = RunSeed({.seed = 101 + i, .trace = {}}).trace_hash;
    }
  };
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::vector<std::vector<char>> in_the_way;  // so that later allocations have other addresses
    for (std::size_t i = 1; i < 5000; ++i) in_the_way.emplace_back(i * 37 % 4099);
    RunSeed({.seed = 1, .trace = {}});
    run_all();
    const bool written = ::write(ends[1], hashes.data(), sizeof(hashes)) == sizeof(hashes);
    ::_exit(written ? 0 : 1);
  }
  ::close(ends[1]);
  run_all();
  std::array<std::uint64_t, kSeeds> of_child{};
  ASSERT_EQ(::read(ends[0], of_child.data(), sizeof(of_child)),
            static_cast<ssize_t>(sizeof(of_child)));
  ::close(ends[0]);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_EQ(hashes, of_child);
}

// The drawn options, without those that depend on whether there is a hostile handler.
std::string WithoutHostile(const std::string& options) {
  std::string rest;
  std::istringstream lines(options);
  for (std::string line; std::getline(lines, line);) {
    const bool is_of_hostile = line.starts_with("  hostile ") || line.starts_with("  drawn ") ||
                               line.starts_with("  its key ");
    if (!is_of_hostile) rest += line.substr(0, line.find(", computes ")) + "\n";
  }
  return rest;
}

TEST(Simulation, EverySeedHasAHostileHandlerOnRequest) {
  std::size_t drawn = 0;
  constexpr std::uint64_t kSeeds = 20;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const SeedResult by_seed = RunSeed({.seed = seed, .trace = {}});
    drawn += by_seed.hostile > 0 ? 1 : 0;
    const SeedResult with = RunSeed({.seed = seed, .hostile = true, .trace = {}});
    EXPECT_EQ(with.violation, "") << Again(seed) << " --hostile";
    EXPECT_GT(with.hostile, 0u) << seed;
    EXPECT_EQ(WithoutHostile(with.options), WithoutHostile(by_seed.options));
    EXPECT_THAT(with.options, testing::HasSubstr("(--hostile)"));
  }
  EXPECT_LT(drawn, kSeeds) << "else it shows nothing";
}

// Each planted bug runs in its own process, which an assertion of the product may abort.
class PlantedBugTest : public testing::TestWithParam<PlantedName> {};

bool Say(const std::string& by, const std::string& violation) {
  if (violation.empty()) return false;
  std::printf("%s: %s\n", by.c_str(), violation.c_str());
  std::fflush(stdout);
  return true;
}

SeedResult RunSeedOf(const Search& search, std::uint64_t seed) {
  return RunSeed({.seed = seed, .hostile = search.hostile, .faults = search.faults, .trace = {}});
}

// `*at` is the seed that runs, in memory that the parent sees.
bool Finds(const PlantedName& name, volatile std::uint64_t* at) {
  if (name.directed != nullptr) return Say("directed", name.directed());
  const auto finds = [&](std::uint64_t seed) {
    *at = seed;
    return Say("seed " + std::to_string(seed), RunSeedOf(name.search, seed).violation);
  };
  bool found = finds(name.seed);
  for (std::uint64_t seed = 1; !found && seed <= kMaxSeedsToFind; ++seed) found = finds(seed);
  return found;
}

// What the seed finds if only the bug is left out of what is planted.
std::string WithoutTheBug(const PlantedName& name, std::uint64_t seed) {
  ManagerBug& beside = tuplespace::planted_bug<ManagerBug>;
  if (name.search.without_lead) beside = ManagerBug::kChangesWithoutLead;
  const std::string violation = RunSeedOf(name.search, seed).violation;
  beside = ManagerBug::kNone;
  return violation;
}

TEST_P(PlantedBugTest, FindIt) {
  for (std::size_t job = 0; job < JobCount(); ++job) ExpectOutcomeOf(job);  // not planted yet
  void* const shared = ::mmap(nullptr, sizeof(std::uint64_t), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* const seed = static_cast<std::uint64_t*>(shared);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    Plant(GetParam());
    ::_exit(Finds(GetParam(), seed) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  OutFolder::RemoveDead();
  const bool found = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  const bool asserted = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
  ASSERT_TRUE(found || asserted) << (WIFSIGNALED(status)
                                         ? "killed by signal " + std::to_string(WTERMSIG(status)) +
                                               " at seed " + std::to_string(*seed)
                                         : "not found within " + std::to_string(kMaxSeedsToFind) +
                                               " seeds");
  if (GetParam().directed != nullptr) return;  // the tests above run it without the bug
  EXPECT_EQ(WithoutTheBug(GetParam(), *seed), "") << "so it is no finding of the bug: " << *seed;
}

INSTANTIATE_TEST_SUITE_P(Planted, PlantedBugTest, testing::ValuesIn(kPlantedNames),
                         [](const auto& each) { return std::string(each.param.name); });

}  // namespace
}  // namespace acan::simulation
