// Random events, compared with a model that is as simple as possible: maps that are searched
// linearly. A failure names its seed, which always gives the same events.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

#include "space_trial.h"

namespace tuplespace {
namespace {

using testing::Trial;

TEST(SpacePropertyTest, AgreesWithTheModel) {
  std::map<std::string, std::uint64_t> reached;
  for (std::uint64_t seed = 1; seed <= 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Trial trial(seed);
    for (int i = 0; i < 300; ++i) {
      trial.Step();
      if (::testing::Test::HasFailure()) FAIL() << "at event " << i << " of seed " << seed;
    }
    const Counters counters = trial.counters();
    reached["duplicates"] += counters.duplicates;
    reached["conflicts"] += counters.conflicts;
    reached["retired_puts"] += counters.retired_puts;
    reached["completed"] += counters.completed;
    reached["stale"] += counters.stale;
    reached["completed late"] += trial.counts().late;
    reached["leases_expired"] += counters.leases_expired;
    reached["leases_returned"] += counters.leases_returned;
    reached["released"] += counters.released;
    reached["failed"] += counters.failed;
    reached["parked"] += counters.parked;
    reached["busy"] += counters.busy;
    reached["affinity_hits"] += counters.affinity_hits;
    reached["steals"] += counters.steals;
    reached["refused_results"] += counters.refused_results;
    reached["false_completions"] += trial.counts().false_completions;
    reached["benched"] += counters.benched;
    reached["kept_from_some"] += trial.counts().grants_kept_from_some;
    reached["stayed"] += counters.stayed;
    reached["wanted"] += counters.wanted;
    reached["lost"] += counters.lost;
    reached["supplied"] += trial.counts().supplied;
    reached["released"] += trial.counts().released;
    reached["told of lost results"] += trial.counts().told;
    reached["placed"] += counters.placed;
    reached["placed beside the payload"] += trial.counts().placed_twice;
  }
  // A generator that never reaches a rule would not test it.
  EXPECT_FALSE(reached.empty());
  for (const auto& [rule, count] : reached) {
    EXPECT_GE(count, 100u) << rule;
    RecordProperty(rule, std::to_string(count));
  }
}

TEST(SpacePropertyTest, NobodyWaitsBesideWhatHeCouldTake) {
  for (std::uint64_t seed = 1001; seed <= 2000; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Trial trial(seed);
    for (int i = 0; i < 100; ++i) trial.Step();
    trial.CheckNobodyStarves();
    trial.CheckWhoAsksGetsTheBytes();
    trial.CheckALateComerGetsAll();
    if (::testing::Test::HasFailure()) FAIL() << "seed " << seed;
  }
}

}  // namespace
}  // namespace tuplespace
