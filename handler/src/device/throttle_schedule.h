// ThrottleSchedule: until when each task takes on a device that a Throttle makes slower. A task
// that had to wait begins when the one before it was due, not when it ended: late wake-ups must not
// add up. Pure: no clock. Owned by a DeviceThread and guarded by its lock, but for IsOn.
#pragma once

#include <algorithm>
#include <cassert>
#include <cstdint>

#include "acan/handler/throttle.h"

namespace acan {

class ThrottleSchedule {
 public:
  // Null: the device is as fast as it is. It must outlive this.
  explicit ThrottleSchedule(const Throttle* throttle) : throttle_(throttle) {}

  bool IsOn() const { return throttle_ != nullptr; }
  // When the slower device computes a task: microseconds of the monotonic clock.
  struct Slot {
    std::int64_t begin_us = 0;
    std::int64_t due_us = 0;
  };
  // The slot of the next task, which was added at `added_us`. The wall clock, by which speeds
  // change, is ahead of the monotonic clock by `wall_ahead_us`. REQUIRES: IsOn().
  Slot Next(std::int64_t added_us, std::uint64_t flops, std::int64_t wall_ahead_us) {
    assert(IsOn());
    const std::int64_t begin_us = std::max(added_us, due_us_);
    due_us_ = throttle_->EndUs(begin_us + wall_ahead_us, flops) - wall_ahead_us;
    return {begin_us, due_us_};
  }

 private:
  const Throttle* const throttle_;
  std::int64_t due_us_ = 0;  // of the task before
};

}  // namespace acan
