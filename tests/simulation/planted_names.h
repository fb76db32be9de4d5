// The planted bugs by name.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "tuplespace/planted.h"

namespace acan::simulation {

struct PlantedName {
  tuplespace::Planted bug;
  const char* name;
  // A seed that has found it: tried first. It must find it again, or another one has to.
  std::uint64_t seed;
};

inline constexpr std::array kPlantedNames = {
    PlantedName{tuplespace::Planted::kFenceIsNotChecked, "FenceIsNotChecked", 1},
    PlantedName{tuplespace::Planted::kFenceIsGivenTwice, "FenceIsGivenTwice", 1},
    PlantedName{tuplespace::Planted::kSecondPutOverwrites, "SecondPutOverwrites", 1},
    PlantedName{tuplespace::Planted::kAcknowledgedButNotStored, "AcknowledgedButNotStored", 1},
    PlantedName{tuplespace::Planted::kExtensionIsForgotten, "ExtensionIsForgotten", 1},
    PlantedName{tuplespace::Planted::kLeaseNeverEnds, "LeaseNeverEnds", 1},
    PlantedName{tuplespace::Planted::kWatermarkIsNotRaised, "WatermarkIsNotRaised", 1},
    PlantedName{tuplespace::Planted::kCompletedTaskIsStoredAgain, "CompletedTaskIsStoredAgain", 1},
    PlantedName{tuplespace::Planted::kRejoiningKeepsLeases, "RejoiningKeepsLeases", 1},
    PlantedName{tuplespace::Planted::kSessionDoesNotResend, "SessionDoesNotResend", 1},
    PlantedName{tuplespace::Planted::kOldSessionIsServed, "OldSessionIsServed", 1},
    PlantedName{tuplespace::Planted::kBudgetIsIgnored, "BudgetIsIgnored", 1},
    PlantedName{tuplespace::Planted::kFailedTaskIsCompleted, "FailedTaskIsCompleted", 1},
    PlantedName{tuplespace::Planted::kResultsWakeLostClient, "ResultsWakeLostClient", 1},
    PlantedName{tuplespace::Planted::kRetiresTooEarly, "RetiresTooEarly", 1},
    PlantedName{tuplespace::Planted::kReplanSkipsAStep, "ReplanSkipsAStep", 1},
    PlantedName{tuplespace::Planted::kCommitsUnfinishedStep, "CommitsUnfinishedStep", 1},
    PlantedName{tuplespace::Planted::kSnapshotNamesEarlierVersion, "SnapshotNamesEarlierVersion",
                1},
    PlantedName{tuplespace::Planted::kSnapshotIsNotChecked, "SnapshotIsNotChecked", 1},
    PlantedName{tuplespace::Planted::kLeadsWithoutLease, "LeadsWithoutLease", 1},
    PlantedName{tuplespace::Planted::kIgnoresLostLead, "IgnoresLostLead", 1},
    PlantedName{tuplespace::Planted::kResumesFromPartialVersion, "ResumesFromPartialVersion", 1},
    PlantedName{tuplespace::Planted::kIgnoresNewBroker, "IgnoresNewBroker", 1},
    PlantedName{tuplespace::Planted::kMetricsAreNotCut, "MetricsAreNotCut", 1},
    PlantedName{tuplespace::Planted::kIgnoresFinishedRun, "IgnoresFinishedRun", 1},
};
static_assert(kPlantedNames.size() + 1 == static_cast<std::size_t>(tuplespace::Planted::kCount));

}  // namespace acan::simulation
