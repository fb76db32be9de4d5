// TimeLeft: estimates the remaining time of a run from the last steps that it did.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>

namespace acan {

// The mean over a window: the last ten minutes or, earlier in a run, the last half of its time. A
// mean over the whole run would be wrong for days after handlers have left, or after a pause; a
// mean over seconds would jump with each evaluation. The time before the end of the first step is
// not counted: connecting, planning and filling caches happen once and say nothing about other
// steps. Not thread-safe; no clock.
class TimeLeft {
 public:
  // The minimum number of steps in the window, and the minimum time that they took, before there is
  // an estimate: a mean over less is mostly noise.
  static constexpr std::int64_t kMinSteps = 5;
  static constexpr std::int64_t kMinUs = 1'000'000;
  static constexpr std::int64_t kMinWindowUs = 10'000'000;
  static constexpr std::int64_t kMaxWindowUs = 600'000'000;

  // A step ended. REQUIRES: `now_us` does not go back.
  void StepDone(std::int64_t now_us) {
    last_ = {now_us, last_.steps + 1};
    if (marks_.empty()) first_us_ = now_us;
    if (marks_.empty() || now_us - marks_.back().at_us >= kMarkUs) marks_.push_back(last_);
    const std::int64_t window_us = std::clamp((now_us - first_us_) / 2, kMinWindowUs, kMaxWindowUs);
    while (marks_.size() > 1 && marks_[1].at_us <= now_us - window_us &&
           last_.steps - marks_[1].steps >= kMinSteps) {
      marks_.pop_front();
    }
  }

  // The seconds that `steps` more steps will take; nullopt while too few steps are done.
  std::optional<double> Seconds(std::int64_t steps) const {
    if (marks_.empty()) return std::nullopt;
    const std::int64_t counted = last_.steps - marks_.front().steps;
    const std::int64_t took_us = last_.at_us - marks_.front().at_us;
    if (counted < kMinSteps || took_us < kMinUs) return std::nullopt;
    return static_cast<double>(took_us) * 1e-6 / static_cast<double>(counted) *
           static_cast<double>(steps);
  }

 private:
  static constexpr std::int64_t kMarkUs = 1'000'000;  // so that few steps are kept

  struct Mark {
    std::int64_t at_us = 0;
    std::int64_t steps = 0;  // done by then
  };
  std::deque<Mark> marks_;  // the first one begins the window
  Mark last_;
  std::int64_t first_us_ = 0;
};

}  // namespace acan
