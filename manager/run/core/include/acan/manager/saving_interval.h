// How often a run saves what losses would cost it, as a snapshot or as a copy in the space. Pure:
// no clock.
#pragma once

#include <cstdint>

namespace acan {

struct SavingHistory {
  std::int64_t took_us = 0;     // to save last
  double lived_us = 0;          // the run, with its earlier lives
  std::int64_t losses = 0;      // meanwhile
  std::int64_t at_last_us = 0;  // of this life, when it saved last
};

// From the beginning of one saving to that of the next. By Young's rule (J. W. Young, "A first
// order approximation to the optimum checkpoint interval", 1974) saving and losses cost least in
// all. Whoever is lost young is often lost young: so the first one comes soon, and the next ones
// later and later. None takes more than a tenth of the time.
std::int64_t SavingIntervalUs(const SavingHistory& history);

}  // namespace acan
