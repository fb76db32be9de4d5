// TimeLeft: estimates the remaining time of a run from the steps that it did.
#pragma once

#include <cstdint>
#include <optional>

namespace acan {

// The time before the end of the first step is not counted: connecting, planning and filling caches
// happen once and say nothing about other steps. Not thread-safe; no clock.
class TimeLeft {
 public:
  // The minimum number of steps after the first one, and the minimum time that they took, before
  // there is an estimate: a mean over less is mostly noise.
  static constexpr std::int64_t kMinSteps = 5;
  static constexpr std::int64_t kMinUs = 1'000'000;

  // A step ended. REQUIRES: `now_us` does not go back.
  void StepDone(std::int64_t now_us) {
    if (steps_++ == 0) first_us_ = now_us;
    last_us_ = now_us;
  }

  // The seconds that `steps` more steps will take; nullopt while too few steps are done.
  std::optional<double> Seconds(std::int64_t steps) const {
    const std::int64_t counted = steps_ - 1;
    const std::int64_t took_us = last_us_ - first_us_;
    if (counted < kMinSteps || took_us < kMinUs) return std::nullopt;
    return static_cast<double>(took_us) * 1e-6 / static_cast<double>(counted) *
           static_cast<double>(steps);
  }

 private:
  std::int64_t steps_ = 0;
  std::int64_t first_us_ = 0;
  std::int64_t last_us_ = 0;
};

}  // namespace acan
