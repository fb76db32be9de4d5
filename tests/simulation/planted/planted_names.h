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
    PlantedName{tuplespace::Planted::kSecondPutOverwrites, "SecondPutOverwrites", 2},
    PlantedName{tuplespace::Planted::kAcknowledgedButNotStored, "AcknowledgedButNotStored", 1},
    PlantedName{tuplespace::Planted::kExtensionIsForgotten, "ExtensionIsForgotten", 1},
    PlantedName{tuplespace::Planted::kLeaseNeverEnds, "LeaseNeverEnds", 1},
    PlantedName{tuplespace::Planted::kWatermarkIsNotRaised, "WatermarkIsNotRaised", 632},
    PlantedName{tuplespace::Planted::kCompletedTaskIsStoredAgain, "CompletedTaskIsStoredAgain",
                1358},
    PlantedName{tuplespace::Planted::kAnyResultCounts, "AnyResultCounts", 6},
    PlantedName{tuplespace::Planted::kResultsAreNotChecked, "ResultsAreNotChecked", 7},
    PlantedName{tuplespace::Planted::kOneClientParksTasks, "OneClientParksTasks", 1204},
    PlantedName{tuplespace::Planted::kExtensionNeverEnds, "ExtensionNeverEnds", 20},
    PlantedName{tuplespace::Planted::kBenchNeverEnds, "BenchNeverEnds", 1},
    PlantedName{tuplespace::Planted::kNewIdsAreTrusted, "NewIdsAreTrusted", 38},
    PlantedName{tuplespace::Planted::kEveryLapseDoubles, "EveryLapseDoubles", 119},
    PlantedName{tuplespace::Planted::kOneKeyParksTasks, "OneKeyParksTasks", 1204},
    PlantedName{tuplespace::Planted::kQuotasAreIgnored, "QuotasAreIgnored", 28},
    PlantedName{tuplespace::Planted::kRejoiningKeepsLeases, "RejoiningKeepsLeases", 5},
    PlantedName{tuplespace::Planted::kSessionDoesNotResend, "SessionDoesNotResend", 3},
    PlantedName{tuplespace::Planted::kBudgetIsIgnored, "BudgetIsIgnored", 1},
    PlantedName{tuplespace::Planted::kFailedTaskIsCompleted, "FailedTaskIsCompleted", 14},
    PlantedName{tuplespace::Planted::kResultsWakeLostClient, "ResultsWakeLostClient", 1},
    PlantedName{tuplespace::Planted::kKeptIsNotSupplied, "KeptIsNotSupplied", 7},
    PlantedName{tuplespace::Planted::kEarlierReleaseCounts, "EarlierReleaseCounts", 1694},
    PlantedName{tuplespace::Planted::kRetiresTooEarly, "RetiresTooEarly", 1},
    PlantedName{tuplespace::Planted::kRemovesResultsStillNeeded, "RemovesResultsStillNeeded", 1},
    PlantedName{tuplespace::Planted::kReplanSkipsAStep, "ReplanSkipsAStep", 975},
    PlantedName{tuplespace::Planted::kGoesBackToUnsafeVersion, "GoesBackToUnsafeVersion", 1016},
    PlantedName{tuplespace::Planted::kCommitsUnfinishedStep, "CommitsUnfinishedStep", 1},
    PlantedName{tuplespace::Planted::kSnapshotNamesEarlierVersion, "SnapshotNamesEarlierVersion",
                3},
    PlantedName{tuplespace::Planted::kSnapshotIsNotChecked, "SnapshotIsNotChecked", 115},
    PlantedName{tuplespace::Planted::kResumesFromPartialVersion, "ResumesFromPartialVersion", 6},
    PlantedName{tuplespace::Planted::kMetricsAreNotCut, "MetricsAreNotCut", 3},
    PlantedName{tuplespace::Planted::kMetricsAreNotKept, "MetricsAreNotKept", 1630},
    PlantedName{tuplespace::Planted::kIgnoresFinishedRun, "IgnoresFinishedRun", 113},
    PlantedName{tuplespace::Planted::kOldSessionIsServed, "OldSessionIsServed", 6},
    PlantedName{tuplespace::Planted::kKeepsLeadOverReconnection, "KeepsLeadOverReconnection", 48},
    PlantedName{tuplespace::Planted::kIgnoresLostLead, "IgnoresLostLead", 8},
    PlantedName{tuplespace::Planted::kAuditsBelieveTheFirst, "AuditsBelieveTheFirst", 29},
};
static_assert(kPlantedNames.size() + 1 == static_cast<std::size_t>(tuplespace::Planted::kCount));

}  // namespace acan::simulation
