// LogPause: limits how often events that others cause are logged, for each of them and, if they may
// have any number of names, for all of them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>

namespace tuplespace {

// About parties without a key: at once, and then one a second.
inline constexpr std::int64_t kLinesAboutStrangers = 16;

class LogPause {
 public:
  // `lines`: about all of them, so many lines may be logged at once, and then one a second. 0: any
  // number.
  explicit LogPause(std::int64_t lines = 0) : lines_(lines) {}

  // Whether a line about `who` may be logged now. If so, no more lines about it may be until the
  // pause is over.
  bool IsOver(const std::string& who, std::int64_t now_us) {
    const auto it = logged_at_us_.find(who);
    if (it != logged_at_us_.end() && now_us - it->second < kPauseUs) return false;
    if (!TakeLine(now_us)) return false;
    if (it == logged_at_us_.end() && logged_at_us_.size() >= kRemembered) logged_at_us_.clear();
    logged_at_us_[who] = now_us;
    return true;
  }

 private:
  static constexpr std::int64_t kPauseUs = 10'000'000;
  static constexpr std::int64_t kLineEveryUs = 1'000'000;
  static constexpr std::size_t kRemembered = 1024;

  bool TakeLine(std::int64_t now_us) {
    if (lines_ == 0) return true;
    const std::int64_t begin_us = std::max(free_us_, now_us);
    if (begin_us > now_us + (lines_ - 1) * kLineEveryUs) return false;
    free_us_ = begin_us + kLineEveryUs;
    return true;
  }

  std::int64_t lines_;
  std::int64_t free_us_ = INT64_MIN;  // from then on all lines may be logged at once again
  std::unordered_map<std::string, std::int64_t> logged_at_us_;
};

}  // namespace tuplespace
