// LogPause: limits how often events that others cause are logged, for each of them.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

namespace tuplespace {

class LogPause {
 public:
  // Whether a line about `who` may be logged now. If so, no more lines about it may be until the
  // pause is over.
  bool IsOver(const std::string& who, std::int64_t now_us) {
    const auto it = logged_at_us_.find(who);
    if (it != logged_at_us_.end() && now_us - it->second < kPauseUs) return false;
    if (it == logged_at_us_.end() && logged_at_us_.size() >= kRemembered) logged_at_us_.clear();
    logged_at_us_[who] = now_us;
    return true;
  }

 private:
  static constexpr std::int64_t kPauseUs = 10'000'000;
  static constexpr std::size_t kRemembered = 1024;

  std::unordered_map<std::string, std::int64_t> logged_at_us_;
};

}  // namespace tuplespace
