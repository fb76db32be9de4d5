// Bugs that the simulation can switch on in the manager.
#pragma once

#include <cstdint>

#include "tuplespace/planted_bug.h"

namespace acan {

using tuplespace::IsPlanted;

enum class ManagerBug : std::uint8_t {
  kNone,
  kRetiresTooEarly,
  kRemovesResultsStillNeeded,
  kReplanSkipsAStep,
  kGoesBackToUnsafeVersion,
  kCommitsUnfinishedStep,
  kSnapshotNamesEarlierVersion,
  kSnapshotIsNotChecked,
  kKeepsLeadOverReconnection,
  kIgnoresLostLead,
  kChangesWithoutLead,
  kResumesFromPartialVersion,
  kMetricsAreNotCut,
  kMetricsAreNotKept,
  kIgnoresFinishedRun,
  kAuditsBelieveTheFirst,
  kWaitsForIdleHandlers,
  kWaitsForSilentVoters,
  kCount,
};

}  // namespace acan
