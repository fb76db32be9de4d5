// LogPause: what others cause is logged once in a while for each of them, not each time.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>

namespace tuplespace {

class LogPause {
 public:
  // May a line about `who` be logged now? Then none about the same until the pause is over.
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
