// The time until a deadline, as poll(2) takes it.
#pragma once

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstdint>

namespace acan::cli {

// Milliseconds, rounded up so that the wait does not end before the deadline. Never negative, even
// if the deadline has passed, as poll would wait forever.
inline int PollTimeoutMs(std::chrono::steady_clock::time_point deadline,
                         std::chrono::steady_clock::time_point now) {
  const std::int64_t left = std::chrono::ceil<std::chrono::milliseconds>(deadline - now).count();
  return static_cast<int>(std::clamp<std::int64_t>(left, 0, INT_MAX));
}

}  // namespace acan::cli
