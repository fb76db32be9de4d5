// OutcomeQueue: the outcomes of tasks until the handler takes them, and when to notify the handler.
// As a notification costs as much as a short task, one is sent for several short tasks, a fraction
// of a millisecond after the first of them began. Pure: no clock. Owned by a DeviceThread and
// guarded by its lock.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "device_pipeline.h"

namespace acan {

class OutcomeQueue {
 public:
  // How long outcomes may wait for others; a task that takes less is a short one.
  static constexpr std::int64_t kTellWithinUs = 200;

  // The outcome of a task whose time counts from `begin_us`.
  void Add(DeviceOutcome outcome, std::int64_t begin_us) {
    outcomes_.push_back(std::move(outcome));
    if (!untold_since_us_) untold_since_us_ = begin_us;
  }
  // The handler needs no notification for the outcomes that it takes.
  std::deque<DeviceOutcome> TakeAll() {
    untold_since_us_.reset();
    return std::exchange(outcomes_, {});
  }

  // Both return whether to notify the handler, which then counts as notified. TellAfter: after a
  // task has ended; `more`: another one begins now.
  bool TellAfter(bool more, std::int64_t now_us) {
    return (!more || now_us - *untold_since_us_ >= kTellWithinUs) && TellOfAll();
  }
  // TellOfAll: before a task that is not short, so that outcomes do not wait for its end.
  bool TellOfAll() { return std::exchange(untold_since_us_, std::nullopt).has_value(); }

 private:
  std::deque<DeviceOutcome> outcomes_;
  // Of the oldest one that the handler was not notified of.
  std::optional<std::int64_t> untold_since_us_;
};

}  // namespace acan
