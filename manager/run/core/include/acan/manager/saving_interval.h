// How often a run saves its state, as a snapshot or as a copy in the space. Pure: no clock.
#pragma once

#include <cstdint>

namespace acan {

struct SavingHistory {
  std::int64_t took_us = 0;     // the duration of the last saving
  double lived_us = 0;          // the age of the run, including earlier lives
  std::int64_t losses = 0;      // in that time
  std::int64_t at_last_us = 0;  // when the last saving began, in this life
};

// The time from the beginning of one saving to that of the next. By Young's rule (J. W. Young, "A
// first order approximation to the optimum checkpoint interval", 1974) the total cost of savings
// and losses is minimal. Runs that are lost early are often lost again soon, so the first saving
// comes soon, and the intervals grow. Savings never take more than a tenth of the time.
std::int64_t SavingIntervalUs(const SavingHistory& history);

}  // namespace acan
