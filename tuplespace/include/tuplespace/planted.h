// Bugs that can be switched on in the simulation's own build of these sources, to show that it
// finds them. In the product there is nothing to switch on, and the compiler removes what stands
// behind.
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
constexpr bool IsPlanted(Planted) {
  return false;
}
#endif

}  // namespace tuplespace
