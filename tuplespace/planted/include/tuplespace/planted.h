// Bugs that the simulation's own build of a source can switch on, to show that the simulation finds
// them. In the product there is nothing to switch on, and the compiler removes the code behind it.
#pragma once

#include <cstdint>

namespace tuplespace {

enum class Planted : std::uint8_t {
  kNone,
  // Space
  kFenceIsNotChecked,
  kFenceIsGivenTwice,
  kSecondPutOverwrites,
  kAcknowledgedButNotStored,
  kExtensionIsForgotten,
  kLeaseNeverEnds,
  kWatermarkIsNotRaised,
  kCompletedTaskIsStoredAgain,
  kAnyResultCounts,
  kResultsAreNotChecked,
  kOneClientParksTasks,
  kExtensionNeverEnds,
  kBenchNeverEnds,
  kNewIdsAreTrusted,
  kEveryLapseDoubles,
  kOneKeyParksTasks,
  kQuotasAreIgnored,
  // Session, BrokerCore
  kRejoiningKeepsLeases,
  kSessionDoesNotResend,
  kOldSessionIsServed,
  // Handler
  kBudgetIsIgnored,
  kFailedTaskIsCompleted,
  kResultsWakeLostClient,
  kKeptIsNotSupplied,
  kEarlierReleaseCounts,
  // Manager
  kRetiresTooEarly,
  kRemovesResultsStillNeeded,
  kReplanSkipsAStep,
  kGoesBackToUnsafeVersion,
  kCommitsUnfinishedStep,
  kSnapshotNamesEarlierVersion,
  kSnapshotIsNotChecked,
  kKeepsLeadOverReconnection,
  kIgnoresLostLead,
  kResumesFromPartialVersion,
  kMetricsAreNotCut,
  kMetricsAreNotKept,
  kIgnoresFinishedRun,
  kAuditsBelieveTheFirst,
  kCount,
};

#ifdef ACAN_PLANTED_BUGS
inline Planted planted_bug = Planted::kNone;
inline bool IsPlanted(Planted bug) {
  return planted_bug == bug;
}
#else
// consteval, so that no object of the product has a function of this name: the simulation links
// such objects beside its own, which have the one above.
consteval bool IsPlanted(Planted) {
  return false;
}
#endif

}  // namespace tuplespace
