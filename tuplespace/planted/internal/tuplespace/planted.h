// The bugs that the simulation can switch on in the space, the broker and the session.
#pragma once

#include <cstdint>

#include "tuplespace/planted_bug.h"

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
  kClingersExtendAsLong,
  kBenchNeverEnds,
  kNewIdsAreTrusted,
  kEveryLapseDoubles,
  kOneKeyParksTasks,
  kQuotasAreIgnored,
  kAnyResultMayStay,
  kBorrowedIsKept,
  kBorrowedIsCompleted,
  kBorrowersWaitTwice,
  kJudgesAreIgnored,
  kLeavingIsFree,
  // ClientSession, BrokerCore
  kRejoiningKeepsLeases,
  kSessionDoesNotResend,
  kOldSessionIsServed,
  // AccessList
  kSizesAreIgnored,
  kCount,
};

}  // namespace tuplespace
