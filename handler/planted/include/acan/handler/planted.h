// The bugs that the simulation can switch on in the handler.
#pragma once

#include <cstdint>

#include "tuplespace/planted_bug.h"

namespace acan {

using tuplespace::IsPlanted;

enum class HandlerBug : std::uint8_t {
  kNone,
  kBudgetIsIgnored,
  kFailedTaskIsCompleted,
  kResultsWakeLostClient,
  kKeptIsNotSupplied,
  kEarlierReleaseCounts,
  kCount,
};

}  // namespace acan
