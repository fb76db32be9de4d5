// RunningClock: monotonic time without the pauses in which the process did not run, because it was
// stopped or swapped out, or because its machine was suspended. A broker measures silence and
// leases with it: during a pause it could not hear anybody, and what its clients sent in that time
// still waits to be received.
//
// One thread owns it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "tuplespace/clock.h"

namespace tuplespace {

class RunningClock {
 public:
  // A thread that runs, but is late by less than this, was not paused.
  static constexpr std::int64_t kPauseUs = 1'000'000;

  using Source = std::int64_t (*)();  // a monotonic clock in microseconds
  explicit RunningClock(Source source = &MonotonicUs) : source_(source), last_us_(source()) {}

  // Microseconds. If more than kPauseUs have passed since the last call, or since the end of an
  // announced sleep, the clock does not count them.
  std::int64_t NowUs() {
    const std::int64_t source_us = source_();
    const std::int64_t late_us = source_us - std::max(last_us_, awake_us_);
    if (late_us > kPauseUs) {
      paused_us_ += late_us;
      paused_ = true;
    }
    last_us_ = source_us;
    awake_us_ = INT64_MIN;
    return source_us - paused_us_;
  }
  // Whether there was a pause since the last call of this function.
  bool TakePause() { return std::exchange(paused_, false); }
  // The thread is going to sleep until `until_us` of this clock at most.
  void AnnounceSleep(std::int64_t until_us) { awake_us_ = ToSourceUs(until_us); }
  // The time of the source at `us` of this clock, if there is no pause until then. INT64_MAX stays.
  std::int64_t ToSourceUs(std::int64_t us) const {
    return us > INT64_MAX - paused_us_ ? INT64_MAX : us + paused_us_;
  }

 private:
  const Source source_;
  std::int64_t last_us_;
  std::int64_t awake_us_ = INT64_MIN;  // the end of an announced sleep, of the source
  std::int64_t paused_us_ = 0;
  bool paused_ = false;
};

}  // namespace tuplespace
