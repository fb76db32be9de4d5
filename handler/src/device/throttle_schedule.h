// ThrottleSchedule: when each task begins and is due on a device that a Throttle slows down. A task
// that had to wait begins when the previous task was due, not when it ended, so that late wake-ups
// do not add up. Pure: no clock. Owned by a DeviceThread and guarded by its lock, except IsOn.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "acan/handler/throttle.h"

namespace acan {

class ThrottleSchedule {
 public:
  // Null: the device runs at its own speed. REQUIRES: `throttle` outlives this.
  explicit ThrottleSchedule(const Throttle* throttle) : throttle_(throttle) {}

  bool IsOn() const { return throttle_ != nullptr; }
  // When the slower device computes a task, in microseconds of the monotonic clock.
  struct Slot {
    std::int64_t begin_us = 0;
    std::int64_t due_us = 0;
  };
  // The slot of the next task, which was added at `added_us`. The wall clock, which selects the
  // speed, is ahead of the monotonic clock by `wall_ahead_us`. REQUIRES: IsOn().
  Slot Next(std::int64_t added_us, std::uint64_t flops, std::int64_t wall_ahead_us) {
    assert(IsOn());
    const std::int64_t begin_us = std::max(added_us, due_us_);
    due_us_ = throttle_->EndUs(begin_us + wall_ahead_us, flops) - wall_ahead_us;
    return {begin_us, due_us_};
  }

 private:
  const Throttle* const throttle_;
  std::int64_t due_us_ = 0;  // of the previous task
};

}  // namespace acan
