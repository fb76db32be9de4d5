// OutcomeQueue: what came of tasks, until the handler takes it, and whether the handler is told
// that there is something to take. Telling costs as much as a short task, so it is told of several
// short ones at once, a fraction of a millisecond after the first of them began. Pure: no clock.
// Owned by a DeviceThread and guarded by its lock.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "device_pipeline.h"

namespace acan {

class OutcomeQueue {
 public:
  // For so long outcomes may wait for others; a task that takes less is a short one.
  static constexpr std::int64_t kTellWithinUs = 200;

  // Of a task whose time counts from `begin_us` on.
  void Add(DeviceOutcome outcome, std::int64_t begin_us) {
    outcomes_.push_back(std::move(outcome));
    if (!untold_since_us_) untold_since_us_ = begin_us;
  }
  // Whoever takes them need not be told any more.
  std::deque<DeviceOutcome> TakeAll() {
    untold_since_us_.reset();
    return std::exchange(outcomes_, {});
  }

  // Both say whether to tell the handler, who counts as told then. After a task has ended; `more`:
  // another one begins now.
  bool TellAfter(bool more, std::int64_t now_us) {
    return (!more || now_us - *untold_since_us_ >= kTellWithinUs) && TellOfAll();
  }
  // Before a task that is not short: outcomes do not wait for its end.
  bool TellOfAll() { return std::exchange(untold_since_us_, std::nullopt).has_value(); }

 private:
  std::deque<DeviceOutcome> outcomes_;
  std::optional<std::int64_t> untold_since_us_;  // the oldest that the handler was not told of
};

}  // namespace acan
