// LongWait: decides when a waiting process should log what it waits for. Pure: no clock. For one
// thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace acan {

// The representation of time that LongWait uses.
inline std::int64_t MicrosecondsOf(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::microseconds>(time.time_since_epoch()).count();
}

class LongWait {
 public:
  // Short enough for a user who wonders what happens, longer than normal waits.
  static constexpr std::int64_t kSayAfterUs = 8'000'000;
  static constexpr std::int64_t kSayAgainUs = 30'000'000;

  explicit LongWait(std::int64_t now_us) { Begin(now_us); }

  // The awaited event has come; from here on the wait is for another one.
  void Begin(std::int64_t now_us) {
    begin_us_ = now_us;
    say_us_ = now_us + kSayAfterUs;
  }
  // Call this often. Returns the seconds waited so far when it is time to log, else nullopt.
  std::optional<std::int64_t> Due(std::int64_t now_us) {
    if (now_us < say_us_) return std::nullopt;
    say_us_ = now_us + kSayAgainUs;
    return (now_us - begin_us_) / 1'000'000;
  }

 private:
  std::int64_t begin_us_ = 0;
  std::int64_t say_us_ = 0;  // no message before this time
};

}  // namespace acan
