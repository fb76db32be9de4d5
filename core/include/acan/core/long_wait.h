// LongWait: when somebody who waits should say for what. Pure: no clock. For one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace acan {

// What LongWait takes as the time.
inline std::int64_t MicrosecondsOf(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
}

class LongWait {
 public:
  // Short enough that a user who wonders is answered, longer than what usually takes its time.
  static constexpr std::int64_t kSayAfterUs = 8'000'000;
  static constexpr std::int64_t kSayAgainUs = 30'000'000;

  explicit LongWait(std::int64_t now_us) { Begin(now_us); }

  // What was waited for has come; from here on it is something else.
  void Begin(std::int64_t now_us) {
    begin_us_ = now_us;
    say_us_ = now_us + kSayAfterUs;
  }
  // To be called often. For how many seconds it has been waited, if it is time to say so.
  std::optional<std::int64_t> Due(std::int64_t now_us) {
    if (now_us < say_us_) return std::nullopt;
    say_us_ = now_us + kSayAgainUs;
    return (now_us - begin_us_) / 1'000'000;
  }

 private:
  std::int64_t begin_us_ = 0;
  std::int64_t say_us_ = 0;  // not before
};

}  // namespace acan
